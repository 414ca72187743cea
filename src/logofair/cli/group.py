"""The ``logofair`` command: subcommands are imported when they run, and failures become one sentence.

All text to a terminal passes through here: control characters are shown and not obeyed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from logofair import __version__
from logofair.cli.options import examples
from logofair.columns.harmless import harmless
from logofair.errors import InfeasibleError, InputError, LogofairError, RefusedError

_BAD_INPUT, _FAILED, _INTERRUPTED = 2, 1, 130

# Entry points through which logofair-reproduction, a distribution of its own, adds commands.
_ADDED = "logofair.commands"
# Where each command lives and what it does, so that help need not import it.
_COMMANDS = {
    "apply": ("logofair.cli.commands.apply:apply", "Decide on new rows by a policy; files of any size."),
    "audit": ("logofair.cli.commands.audit:audit", "Show how fair decisions are, inside every site and over all."),
    "data": (_ADDED, "List and prepare data sets (with logofair-reproduction)."),
    "demo": ("logofair.cli.commands.demo:demo", "Train, post-process and audit on the embedded Adult data."),
    "explain": ("logofair.cli.commands.explain:explain", "Say in words what a policy does."),
    "federate": ("logofair.cli.commands.federate:federate", "Make fair policies for sites that keep their rows."),
    "fit": ("logofair.cli.commands.fit:fit", "Make fair decision rules, with a certificate."),
    "frontier": ("logofair.cli.commands.tradeoff:frontier", "Show what fairness costs for every pair of tolerances."),
    "recommend": ("logofair.cli.commands.tradeoff:recommend", "Find the tightest limits these rows can guarantee."),
    "reproduce": (_ADDED, "Run the paper's experiments (with logofair-reproduction)."),
    "studio": ("logofair.cli.commands.studio:studio", "Try limits on a live page: every change is solved at once."),
    "train": (_ADDED, "Train a model over sites (with logofair-reproduction)."),
}


# Which extra brings a package that not every installation has, for commands that find it missing on their way.
_OF_FIT_ALONE = {
    "--group-probability": "; policies that may not look at groups are fitted by logofair fit, on one machine",
    "--objective": "; the smallest gap at a given cost is searched by logofair fit; a frontier shows what limits cost",
}
_EXTRAS = {
    "cryptography": "secure",
    "flwr": "flower",
    "nvflare": "nvflare",
    "opendp": "privacy",
    "polars": "data",
    "starlette": "studio",
    "uvicorn": "studio",
}


@click.pass_context
def _help_alone(ctx: click.Context) -> None:
    """Print what a group that is called without a command begins with, or its help."""
    if ctx.invoked_subcommand is None:
        assert isinstance(ctx.command, LazyGroup)
        click.echo(ctx.command.beginning or ctx.get_help(), nl=not ctx.command.beginning)


class LazyGroup(click.Group):
    """A group whose commands are imported when they run, and whose failures are one sentence and an exit code.

    0 is success, 2 bad input, 1 any other failure or what a command returns, 130 an interrupt. Without a command it
    prints ``beginning``, or else its help.
    """

    def __init__(self, name: str, *, lazy: Mapping[str, tuple[str, str]], beginning: str = "", **settings: Any) -> None:
        super().__init__(name, callback=_help_alone, invoke_without_command=True, **settings)
        self.lazy, self.beginning = lazy, beginning

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in the order of the help."""
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or load the entry point that another distribution has for it."""
        if cmd_name not in self.lazy:
            return None
        module, here, attribute = self.lazy[cmd_name][0].partition(":")
        if here:
            command: click.Command = getattr(import_module(module), attribute)
            return command
        from importlib.metadata import entry_points  # here: it looks through all that is installed

        for entry in entry_points(group=module, name=cmd_name):
            added: click.Command = entry.load()
            return added
        if ctx.resilient_parsing:  # a shell asks what it could complete
            return None
        raise InputError(
            f"{cmd_name}: this command comes with logofair-reproduction, which this Python lacks; from a checkout of "
            "LoGoFair run: pip install ./reproduction."
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command asked for, or name the nearest."""
        if args[0] not in self.lazy:
            from logofair.columns.checks import nearest_name

            known = self.list_commands(ctx)
            raise click.UsageError(
                f"no command {args[0]!r}{nearest_name(args[0], known)}; use one of {', '.join(known)}.", ctx
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name][1]) for name in self.list_commands(ctx)])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and leave with an exit code; with ``standalone_mode=False`` return or raise as click does."""
        words = list(sys.argv[1:] if args is None else args)
        extra.setdefault("obj", words)  # for reports, which say what makes the same again
        if not standalone_mode:
            return super().main(words, prog_name, complete_var, False, **extra)
        with _harmless_streams():
            try:
                code = super().main(words, prog_name, complete_var, False, **extra)
            except click.Abort:
                _leave("logofair: interrupted.", _INTERRUPTED)
            except click.ClickException as error:
                _leave(_sentence(error), _BAD_INPUT)
            except Exception as error:
                if os.environ.get("LOGOFAIR_TRACEBACK"):
                    raise
                _leave(*_explained(error))
        sys.exit(code if isinstance(code, int) else 0)


def _leave(sentence: str, code: int) -> NoReturn:
    click.echo(sentence, err=True)
    sys.exit(code)


def _sentence(error: click.ClickException) -> str:
    """A usage error in the house form: where, what was got, what to do."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "logofair"
    where = getattr(error, "param_hint", None) or getattr(getattr(error, "param", None), "opts", None)
    if isinstance(error, click.BadParameter) and where and error.message:
        return f"{path} {where if isinstance(where, str) else where[0]}: {error.message}"
    # A missing option has no message of its own, only what click makes of it.
    message = (error.message or error.format_message()).rstrip(".")
    if isinstance(error, click.NoSuchOption):
        name, why = error.option_name, _OF_FIT_ALONE.get(error.option_name, "")
        near = f" (did you mean {error.possibilities[0]!r}?)" if error.possibilities and not why else ""
        message = f"no option {name!r}{near}{why}"
    advice = "" if ";" in message else f"; see {path} --help"
    return f"{path}: {message[:1].lower()}{message[1:]}{advice}."


def _explained(error: Exception) -> tuple[str, int]:
    """Sentence and exit code of an error raised by a command."""
    if isinstance(error, LogofairError):
        if isinstance(error, InfeasibleError) and "at least" not in str(error):
            from logofair.words.limits import conflict_lines

            if (lines := conflict_lines(error.least_relaxation)) is not None:
                return f"logofair: {lines}", _BAD_INPUT
        vain = isinstance(error, InputError | RefusedError | InfeasibleError)  # what was asked for cannot be had
        sentence = str(error).replace("sensitive_features: ", "--group: ")  # arguments of Python's doors
        sentence = sentence.replace("group_probabilities: ", "--group-probability: ")
        return f"logofair: {sentence}", _BAD_INPUT if vain else _FAILED
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in _EXTRAS:
        advice = f"run: pip install 'logofair[{_EXTRAS[package]}]'"
        return f"logofair: this needs {package}, which this Python lacks; {advice}.", _BAD_INPUT
    if isinstance(error.__cause__, KeyboardInterrupt):  # while a compiled module was being imported
        return "logofair: interrupted.", _INTERRUPTED
    if isinstance(error, OSError):
        return f"logofair: {error}.", _FAILED
    return (
        f"logofair: unexpected {type(error).__name__}: {' '.join(str(error).split())}; "
        "please report it with what LOGOFAIR_TRACEBACK=1 shows.",
        _FAILED,
    )


class _HarmlessStream:
    """A stream of text that writes nothing but harmless text."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        self.stream.write(harmless(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def unfiltered(stream: TextIO) -> TextIO:
    """The stream behind one of ours, for what makes its own text harmless and uses control characters itself."""
    return stream.stream if isinstance(stream, _HarmlessStream) else stream


@contextmanager
def _harmless_streams() -> Iterator[None]:
    """Let nothing but harmless text reach standard output and standard error while the block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_HarmlessStream(unfiltered(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


_BEGINNING = """Fair decisions inside every site and over all of them.

Three commands to begin with:
  logofair demo
      the whole story on embedded data in seconds, and a report of it
  logofair audit data/together.csv --score score --label label --group sex \\
                 --site site
      how fair decisions are now, inside every site and over all
  logofair fit data/together.csv --score score --label label --group sex \\
               --site site --out policy.json
      the most accurate fair rules, with a certificate; then explain and apply

Files to try it on: logofair federate example --out data
All commands:       logofair --help
"""

cli = LazyGroup(
    "logofair",
    lazy=_COMMANDS,
    beginning=_BEGINNING,
    help="""Fair decisions inside every site and over all of them.

    LoGoFair turns the scores of a trained model into decisions whose rates agree
    across groups, and certifies how good they are.
    """,
    epilog=examples("logofair demo", "logofair demo --notion equalized_odds --alpha 5", "logofair demo --help")
    + "\n\n\b\nShell completion, for ~/.bashrc (zsh_source and fish_source likewise):"
    + '\n  eval "$(_LOGOFAIR_COMPLETE=bash_source logofair)"',
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, message="logofair %(version)s")(cli)
