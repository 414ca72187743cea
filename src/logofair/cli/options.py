"""Options that several commands share: names, numbers, requirements, data files and what their columns mean.

Their checks refuse with what was got and what to do.
"""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from logofair.errors import InputError
from logofair.files.inputs import MISSING, SCALES, ColumnNames, find_files, one_file
from logofair.progress import Progress, no_progress

if TYPE_CHECKING:
    from logofair.files.inputs import DataSource
    from logofair.files.rows import DataRows
    from logofair.files.values import CostsText
    from logofair.words.about import About

# As in logofair.notions, whose import would bring numpy.
NOTIONS = ("demographic_parity", "equal_opportunity", "predictive_equality", "equalized_odds")
_BASES = ("eta", "labels")
_CALIBRATIONS = ("beta", "platt", "temperature", "isotonic", "none")
POOLING = ("auto", "none", "full")  # as in logofair.fitting.pooling
FORMATS = ("ll144", "model-card", "annex-iv")
FAIL_ON = ("exceeded", "unclear")  # as in logofair.outcomes

_FREE = "none"

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator: TypeAlias = Callable[[_Command], _Command]
_Check: TypeAlias = Callable[[click.Context, click.Parameter, Any], Any]


# The headings of a command's help and the options under each: those that people need first, then the others.
_HEADINGS = {
    "Options": "--name --data --score --label --group --site --policy --out --server --keys --folder --groups --sites",
    "What is required, and on whom it is tested": "--local --global --notion --require --costs --test --test-where "
    "--confidence --fail-on",
    "Which rows": "--where --weight --positive --scale --id --drop-missing --na --decision --threshold",
    "How rules are found": "--calibration --basis --pooling --solver --seed --engine",
    "What is printed and written": "--report --plot --format --title --purpose --author --decision-word --port "
    "--no-browser --verbose --json --annotate --quiet --force",
}


class SectionedCommand(click.Command):
    """A command whose help lists the options that people need first, the others under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each once."""
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        left = {param: record for param in options if (record := param.get_help_record(ctx)) is not None}
        for heading, names in {**_HEADINGS, "More": ""}.items():
            known = set(names.split())
            own = [param for param in left if heading == "More" or known & {*param.opts, *param.secondary_opts}]
            if own:
                with formatter.section(heading):
                    formatter.write_dl([left.pop(param) for param in own])


def examples(*lines: str) -> str:
    """Return lines to try, for the end of a command's help; where they read data/, also what writes it."""
    made = any(" data/" in line or " 'data/" in line for line in lines)
    title = f"Examples{' (logofair federate example --out data writes the files)' if made else ''}:"
    return "\n  ".join([f"\b\n{title}", *lines])  # click keeps the lines of a paragraph that begins with \b


def one_of(names: Sequence[str]) -> _Check:
    """Accept one of some names, or none at all, and suggest the nearest to any other."""

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None or value in names:
            return value
        from logofair.columns.checks import nearest_name  # brings numpy: only where it is needed

        hint = nearest_name(value, names)
        raise click.BadParameter(f"got {value!r}{hint}; use one of {', '.join(names)}.", ctx, param)

    return check


def such_that(accepted: Callable[[Any], bool], advice: str) -> _Check:
    """Accept a value that passes a test, or none at all; ``advice`` says what to pass instead."""

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None or accepted(value):
            return value
        raise click.BadParameter(f"got {value}; {advice}.", ctx, param)

    return check


def tolerance(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Read a tolerance: a number from 0, or infinity for ``none``; None where nothing was said."""
    if value is None:
        return None
    if value.strip().lower() == _FREE:
        return math.inf
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1:  # a gap between shares is never more than 1
        raise click.BadParameter(
            f"got {value!r}; pass a number from 0 to below 1, such as 0.02, or {_FREE}.", ctx, param
        )
    return number


def constrained(number: float | None) -> float | None:
    """Return a tolerance as the library takes it: None where the gap is free."""
    return None if number == math.inf else number


def _typed_command() -> str:
    """Return the command that runs as it was typed, so that a report says what makes the same again.

    Without --force: whoever repeats a command decides on that.
    """
    words = click.get_current_context().find_object(list) or []
    return shlex.join(["logofair", *(word for word in words if word != "--force")])


# The options that say which rows there are and how they are calibrated: what one command is told, another takes.
OF_ROWS = (
    *("--score", "--label", "--group", "--site", "--weight", "--positive", "--scale", "--drop-missing", "--na"),
    *("--where", "--id", "--costs", "--calibration", "--basis", "--pooling"),
)


def command_of_same_rows(name: str, read: ColumnNames | None = None, options: Sequence[str] = OF_ROWS) -> str:
    """Return another command for the rows of the one that runs, its columns, costs and calibration as they were typed.

    What is to be required, tested or written is left for the reader to add. ``read``: columns that a policy named;
    ``options``: those that are kept.
    """
    ctx = click.get_current_context()
    words = iter(ctx.find_object(list) or [])
    next(words, None)
    known = {option: param for param in ctx.command.params for option in (*param.opts, *param.secondary_opts)}
    kept = [name]
    for word in words:
        option, equals, _ = word.partition("=")
        param = known.get(option) if word.startswith("-") else None
        value = [] if param is None or equals or getattr(param, "is_flag", False) else [next(words, "")]
        if param is None or option in options:
            kept += [word, *value]
    if read is not None:
        named = [("--score", read.score), *(("--group", each) for each in read.group), ("--site", read.site)]
        typed = {word.partition("=")[0] for word in kept}
        kept += [part for option, column in named if column and option not in typed for part in (option, column)]
    return shlex.join(["logofair", *kept])


def name_option(
    option: str, names: Sequence[str], purpose: str, default: str | None = None, *parameter: str, required: bool = False
) -> _Decorator[Any]:
    """Return an option that takes one of some names; without a default it may be left out, unless required."""
    return click.option(
        option,
        *parameter,
        metavar="NAME",
        default=default,
        show_default=default is not None,
        required=required,
        callback=one_of(names),
        shell_complete=lambda ctx, param, begun: [name for name in names if name.startswith(begun)],
        help=purpose,
    )


def number_option(
    option: str, kind: type, check: _Check, purpose: str, default: float | None = None, *parameter: str
) -> _Decorator[Any]:
    """Return an option that takes a number; without a default it may be left out."""
    return click.option(
        option,
        *parameter,
        type=kind,
        default=default,
        show_default=default is not None,
        callback=check,
        help=purpose,
    )


def path_option(option: str, purpose: str, *, folder: bool = False, **settings: Any) -> _Decorator[Any]:
    """Return an option that names a file, or a folder, for which no file will do."""
    return click.option(option, type=click.Path(path_type=Path, file_okay=not folder), help=purpose, **settings)


def force_option(purpose: str = "Write over files that exist.") -> _Decorator[Any]:
    """Return the flag ``--force``."""
    return click.option("--force", is_flag=True, help=purpose)


def json_option(purpose: str = "Print JSON in place of tables.") -> _Decorator[Any]:
    """Return the flag ``--json``, which is passed as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help=purpose)


verbose_option = click.option("--verbose", "-v", is_flag=True, help="Print everything there is to say.")


def check_format(form: str | None, *, as_json: bool) -> None:
    """Raise where a form is asked for together with JSON."""
    if form is not None and as_json:
        raise InputError("--format: given together with --json; print one of the two.")


def seed_option(purpose: str, parameter: str = "seed", *, default: int | None = 0) -> _Decorator[Any]:
    """Return the option ``--seed``, whose help says what it is for."""
    check = such_that(lambda seed: seed >= 0, "pass a whole number from 0")
    return number_option("--seed", int, check, purpose, default, parameter)


def confidence_option(purpose: str, default: float | None = None) -> _Decorator[Any]:
    """Return the option ``--confidence``, whose help says of what."""
    check = such_that(lambda confidence: 0 < confidence < 1, "pass a number above 0 and below 1, such as 0.95")
    return number_option("--confidence", float, check, purpose, default)


def tolerance_option(side: str, where: str, *, default: str | None = None, otherwise: str = "") -> _Decorator[Any]:
    """Return the option ``--local`` or ``--global``; ``otherwise`` says what holds where it is not given."""
    shown = f"  [default: {otherwise}]" if otherwise else ""
    return click.option(
        f"--{side}",
        f"{side}_tolerance",
        metavar="TOL",
        default=default,
        show_default=default is not None,
        callback=tolerance,
        help=f"Largest gap allowed {where}, or none.{shown}",
    )


notion_option = name_option("--notion", NOTIONS, f"What is fair: {', '.join(NOTIONS)}.", "demographic_parity")


def read_costs(place: str, ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> CostsText | None:
    """Read pairs of numbers, one for all or by site; whether they can be costs is for the library to say."""
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, _, pair = text.rpartition("=")
        try:
            accepted, rejected = map(float, pair.split(","))
        except ValueError:
            advice = f"pass two numbers with a comma between, such as 1,3, or those of one {place}, such as north=1,3"
            raise click.BadParameter(f"got {text!r}; {advice}.", ctx, param) from None
        if name in found:
            whose = f"of {place} {name!r}" if name else f"of all {place}s"
            raise click.BadParameter(f"got {text!r}, but costs {whose} were given already; give them once.", ctx, param)
        found[name] = accepted, rejected
    return found[""] if list(found) == [""] else found or None


def costs_option(place: str = "site") -> _Decorator[Any]:
    """Return the option that says what errors cost, at participants of this word."""
    return click.option(
        "--costs",
        metavar=f"[{place.upper()}=]A,R",
        multiple=True,
        callback=functools.partial(read_costs, place),
        help="Costs of a wrongly accepted and of a wrongly rejected row, such as 1,3; may be given again for single "
        f"{place}s, such as north=1,3.",
    )


def together(*options: _Decorator[Any]) -> _Decorator[Any]:
    """Return several options as one decorator."""

    def decorated(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


def _sentences(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """Read sentences, as they are typed or from files with one a line."""
    if not texts:
        return ()
    from logofair.files.documents import read_bytes  # these bring numpy: only where they are needed
    from logofair.requirement import Requirement

    found: list[str] = []
    for text in texts:
        try:
            if text.startswith("@"):
                lines = map(str.strip, read_bytes(Path(text[1:])).decode("utf-8-sig").splitlines())
                found += [str(Requirement.parse(line)) for line in lines if line and not line.startswith("#")]
            else:
                found.append(str(Requirement.parse(text)))
        except UnicodeDecodeError:
            raise click.BadParameter(f"{text[1:]}: is no text; write one requirement a line.", ctx, param) from None
        except InputError as error:
            said, where = str(error).removeprefix("require: "), f"{text[1:]}: " if text.startswith("@") else ""
            raise click.BadParameter(where + said.removeprefix(where), ctx, param) from None
    return tuple(dict.fromkeys(found))


def require_option(place: str = "site") -> _Decorator[Any]:
    """Return the option for requirements, at participants of this word."""
    return click.option(
        "--require",
        metavar="SENTENCE",
        multiple=True,
        callback=_sentences,
        help="What must hold, such as 'true positive rate ratio >= 0.8 per site', 'selection rate of F >= 0.2 overall' "
        f"or 'accepted = 150 people at NAME' (a {place}); may be given again; @FILE reads one from each line.",
    )


def _notion_options() -> _Decorator[Any]:
    """Return the options for a notion with two tolerances."""
    return together(
        name_option(
            "--notion",
            NOTIONS,
            f"What is fair: {', '.join(NOTIONS)}.  [default: demographic_parity, unless --require is given]",
        ),
        tolerance_option("local", "inside each site", otherwise="0.02, unless --global is given"),
        tolerance_option("global", "over all sites together", otherwise="0.02, unless --local is given"),
    )


def requirement_options(place: str = "site") -> _Decorator[Any]:
    """Return the options for all that is required, and for costs."""
    return together(_notion_options(), require_option(place), costs_option(place))


def notion_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Take the notion and its tolerances out of a command's options, as arguments; what was not given is left out."""
    names = ("notion", "local_tolerance", "global_tolerance")
    given = {name: options.pop(name, None) for name in names}
    return {name: constrained(value) for name, value in given.items() if value is not None}


rule_options = together(
    name_option(
        "--calibration",
        _CALIBRATIONS,
        f"How scores become chances: {', '.join(_CALIBRATIONS)}.  [default: beta, none without labels]",
    ),
    name_option(
        "--basis", _BASES, "What rates are counted with: eta (calibrated probabilities) or labels.", default="eta"
    ),
    name_option(
        "--pooling",
        POOLING,
        "What a small group at a site borrows from the same group at other sites: auto (what cross-validation "
        "supports), none, or full (all sites of a group count as one).",
        default="auto",
    ),
)


heading_options = together(
    click.option("--title", metavar="TEXT", help="Title of the report.  [default: the name of the data]"),
    click.option("--purpose", metavar="TEXT", help="What the decisions are for, in a sentence for the report."),
    click.option("--author", metavar="TEXT", help="Who made the report."),
    click.option("--decision-word", metavar="WORD", help="What being accepted is called here, such as flagged."),
)
report_options = together(path_option("--report", "Where to write a report (HTML)."), heading_options)


def _pairs(form: str, ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Names with a value each, of this form."""
    found: list[tuple[str, str]] = []
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            raise click.BadParameter(f"got {text!r}; pass {form}.", ctx, param)
        found.append((name, value))
    return tuple(found)


_where = functools.partial(_pairs, "COLUMN=VALUE, such as part=test")
group_probability_option = click.option(
    "--group-probability",
    metavar="NAME=COLUMN",
    multiple=True,
    callback=functools.partial(_pairs, "NAME=COLUMN, such as Female=p_female"),
    help="Make rules that may not look at groups: each group, and the column with the probability of it; give it once "
    "per group. Rates count the true groups where --group is given.",
)

drop_missing_option = click.option(
    "--drop-missing", is_flag=True, help="Leave out rows that lack a value in a column named."
)


def na_option(default: tuple[str, ...] | None = MISSING, otherwise: str = ", ".join(MISSING)) -> _Decorator[Any]:
    """Return the option ``--na``; ``otherwise`` says in words what holds where it is not given."""

    def markers(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[str, ...] | None:
        del ctx, param
        return () if list(texts) == [_FREE] else tuple(texts) or default

    return click.option(
        "--na",
        metavar="TEXT",
        multiple=True,
        callback=markers,
        help="Text that stands for a missing value, as an empty cell does; may be given again; "
        f"{_FREE}: no text does.  [default: {otherwise}]",
    )


test_options = together(
    click.option(
        "--test",
        metavar="FILE",
        multiple=True,
        help="Other rows, which take no part in the fit, to measure on: a file or folder as DATA; may be given again.",
    ),
    click.option(
        "--test-where",
        metavar="COLUMN=VALUE",
        multiple=True,
        callback=_where,
        help="Only such rows of --test; without --test, such rows of DATA are kept out of the fit and tested on.",
    ),
)


gate_options = together(
    name_option(
        "--fail-on",
        FAIL_ON,
        "exceeded: exit with code 1, and a line for each limit that is exceeded beyond chance. unclear: also for each "
        "limit that is not shown to be met. Sites too small to judge do not fail.",
    ),
    name_option("--annotate", ("github",), "Write these lines as annotations of a build, as github shows them."),
)


def check_gate(fail_on: str | None, annotate: str | None, *, tested: bool = True) -> None:
    """Raise where annotations are asked for of nothing, or a gate could never fail."""
    if annotate is not None and fail_on is None:
        raise InputError("--annotate: given without --fail-on; add it, since annotations say what fails.")
    if fail_on is not None and not tested:
        raise InputError("--fail-on: nothing is measured on other people; add --test FILE, or --confidence 0.95.")


_FIRST = (
    click.option("--score", metavar="COLUMN", help="Scores: the model's chances of the positive label, 0 to 1."),
    click.option("--label", metavar="COLUMN", help="Labels: what turned out to be true."),
    click.option(
        "--group",
        metavar="COLUMN",
        multiple=True,
        help="Groups to compare, such as sex; give it again for several attributes, each by itself.",
    ),
)
_SITE = click.option("--site", metavar="COLUMN", help="Sites; by default each file is one.")
_LAST = (
    click.option("--weight", metavar="COLUMN", help="Row weights, where rows count differently."),
    click.option("--positive", metavar="VALUE", help="Label that counts as 1, such as '>50K'."),
    name_option(
        "--scale", SCALES, f"What scores are: {', '.join(SCALES)}; the last two are converted.", default="chance"
    ),
    drop_missing_option,
    na_option(),
    click.option(
        "--where",
        metavar="COLUMN=VALUE",
        multiple=True,
        callback=_where,
        help="Only rows with this value, such as part=test; if given again, rows that have all of them.",
    ),
)


_ID = click.option(
    "--id",
    metavar="COLUMN",
    help="Ids of people: rows of one id are one person, who stays together in a fit and counts once in every interval.",
)


def data_options(command: _Command, *, required: bool = True) -> _Command:
    """Add DATA and the options that name its columns; the command gets ``data`` (names) and ``columns``."""
    data = click.argument("data", metavar="DATA..." if required else "[DATA...]", nargs=-1, required=required)
    found: _Command = together(data, *_FIRST, _SITE, *_LAST, _ID)(_with_columns(command))
    return found


def column_options(command: _Command) -> _Command:
    """Add the options that name the columns of one site's file; the command gets ``columns``."""
    found: _Command = together(*_FIRST, *_LAST)(_with_columns(command))
    return found


def _with_columns(command: Callable[..., Any]) -> Callable[..., Any]:
    """Collect the options that name columns, the command's own ``--decision`` or ``--site`` too."""

    @functools.wraps(command)
    def with_columns(**values: Any) -> Any:
        named = {field.name: values.pop(field.name) for field in fields(ColumnNames) if field.name in values}
        return command(columns=ColumnNames(**named), **values)

    return with_columns


def read_to_fit(
    data: Sequence[str], columns: ColumnNames, options: dict[str, Any], progress: Progress
) -> tuple[DataRows, DataRows | None, dict[str, Any]]:
    """Read the rows to fit on and those to test on; also what to call the library with: these rows and the options."""
    from logofair.files.rows import read_parts
    from logofair.files.values import costs_by_site

    test, test_where = (options.pop(name, ()) for name in ("test", "test_where"))
    files = find_files(data, site=columns.site)
    columns.require(files, score="the model's scores")
    if not columns.group_probability:
        columns.require(files, group="the groups to compare, such as sex")
    if options["basis"] == "labels":
        columns.require(files, label="labels, which --basis labels needs")
    rows, other = read_parts(files, columns, test, test_where, progress)
    options["calibration"] = options["calibration"] or ("none" if rows.labels is None else "beta")
    sites = None if rows.sites is None else list(dict.fromkeys(rows.sites.tolist()))
    options["costs"] = costs_by_site(options["costs"], sites)
    return rows, other, {**rows.arguments, **options, "progress": progress}


def read_client_file(data: Path, columns: ColumnNames, progress: Progress = no_progress) -> DataRows:
    """Read the columns of one file before anything is sent, and refuse what no plan could use."""
    from logofair.columns.checks import weights
    from logofair.files.rows import read_rows

    columns.require(one_file(data), group="the groups")
    rows = read_rows(one_file(data), columns, progress)
    if rows.weights is not None:
        weights(rows.weights, rows.source.rows, f"{data}: column {columns.weight!r}")
    return rows


def about_page(
    data: DataSource | None,
    title: str | None = None,
    purpose: str | None = None,
    author: str | None = None,
    decision_word: str | None = None,
    **others: Any,
) -> About:
    """Return what a page says of itself: the options of a report, the command that runs, and the day."""
    from datetime import date

    from logofair.words.about import About

    made, word = date.today().isoformat(), decision_word or "accepted"
    return About(data, _typed_command(), title, purpose, author, made, word, **others)
