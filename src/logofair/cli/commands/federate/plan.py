"""What a server's folder and its command line together say: a new run, the same run again, or a contradiction."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logofair.cli.options import NOTIONS, Check, constrained, one_of, single_tolerances, such_that, tolerance_option

if TYPE_CHECKING:
    from logofair.columns.checks import Label
    from logofair.engines.folder import RunOptions
    from logofair.federation import Plan, Privacy, Training

__all__ = ["PLAN", "RESULT", "STATE", "RosterOptions", "check_same", "listed", "plan_options", "planned", "prepare"]


Command = TypeVar("Command", bound=Callable[..., Any])

_FREE = "none"
_DELTA = 1e-6
_AS_SAID = ("notion", "calibration", "optimality_gap", "solver", "secure", "quorum")
_INTEGER = re.compile("0|-?[1-9][0-9]*")


def listed(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Read names separated by commas, each once.

    Examples
    --------
    >>> listed(click.Context(click.Command("server")), click.Option(["--sites"]), "north, south")
    ('north', 'south')
    """
    if value is None:
        return ()
    names = tuple(name.strip() for name in value.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise click.BadParameter(f"got {value!r}; separate names by commas, each once.", ctx, param)
    return names


def _single(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> tuple[tuple[str, float | None], ...]:
    """Pairs of a site and its tolerance."""
    return tuple(single_tolerances(ctx, param, value).items())


def _if_given(check: Check) -> Check:
    return lambda ctx, param, value: value if value is None else check(ctx, param, value)


def _option(name: str, *others: Any, help: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(name, *others, help=help, **settings)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    _option("--groups", metavar="A,B", callback=listed, help="The groups compared, separated by commas."),
    _option(
        "--notion",
        metavar="NAME",
        callback=_if_given(one_of(NOTIONS)),
        help=f"What is fair: {', '.join(NOTIONS)}.  [default: demographic_parity]",
    ),
    tolerance_option("local", "inside each site", otherwise="0.02"),
    tolerance_option("global", "over all sites together", otherwise="0.02"),
    _option(
        "--local-for",
        metavar="SITE=TOL",
        multiple=True,
        callback=_single,
        help="In place of --local at one site; repeat for several.",
    ),
    _option(
        "--calibration",
        metavar="NAME",
        help="How scores become chances: beta, platt, temperature or none.  [default: beta; none with --epsilon]",
    ),
    _option(
        "--optimality-gap", type=float, help="Stop once no rule is more accurate by more than this.  [default: 1e-05]"
    ),
    _option(
        "--solver",
        metavar="NAME",
        callback=_if_given(one_of(("exact", "algorithm1"))),
        help="exact, or algorithm1 (the paper's, which may miss its tolerances).  [default: exact]",
    ),
    _option("--secure", is_flag=True, help="Secure sums: the server sees totals only; needs 3 sites or more."),
    _option("--epsilon", type=float, help="Differential privacy of every row: the budget, such as 1."),
    _option("--delta", type=float, help=f"Chance that this privacy fails.  [default: {_DELTA:g}]"),
    _option(
        "--train",
        metavar="COLUMNS",
        callback=listed,
        help="First train a logistic regression by FedAvg on these numeric columns, separated by commas.",
    ),
    _option(
        "--train-rounds",
        type=int,
        callback=such_that(lambda rounds: rounds >= 1, "use at least 1"),
        help="Rounds of that training.  [default: 20]",
    ),
    _option("--quorum", type=int, help="Fail with fewer sites than this.  [default: 2; 3 with --secure]"),
    _option(
        "--seed",
        type=int,
        callback=such_that(lambda seed: seed >= 0, "pass a whole number from 0"),
        help="The same seed and files give the same policies.  [default: 0]",
    ),
    _option("--run", "run_name", metavar="NAME", help="Name of the run: letters, digits, - and _.  [default: random]"),
)

# What each option says about a plan: a stored plan is compared with a new command line by these.
_SAID: dict[str, tuple[str, Callable[[Plan], Any]]] = {
    "groups": ("--groups", lambda plan: plan.groups),
    "notion": ("--notion", lambda plan: {r.notion for r in (*plan.local, *plan.global_)}),
    "local_tolerance": ("--local", lambda plan: {r.tolerance for r in plan.local}),
    "global_tolerance": ("--global", lambda plan: {r.tolerance for r in plan.global_}),
    "local_for": ("--local-for", lambda plan: plan.client_tolerances),
    "calibration": ("--calibration", lambda plan: plan.calibration),
    "optimality_gap": ("--optimality-gap", lambda plan: plan.optimality_gap),
    "solver": ("--solver", lambda plan: plan.solver),
    "secure": ("--secure", lambda plan: plan.secure),
    "epsilon": ("--epsilon", lambda plan: plan.privacy and plan.privacy.epsilon),
    "delta": ("--delta", lambda plan: plan.privacy and plan.privacy.delta),
    "train": ("--train", lambda plan: plan.training and plan.training.features),
    "train_rounds": ("--train-rounds", lambda plan: plan.training and plan.training.rounds),
    "quorum": ("--quorum", lambda plan: plan.quorum),
    "seed": ("--seed", lambda plan: plan.seed),
    "run_name": ("--run", lambda plan: plan.run),
}


def plan_options(command: Command) -> Command:
    """Add the options that make a plan; what was not said is None, empty or False.

    Examples
    --------
    >>> @click.command()
    ... @plan_options
    ... def show(**wishes):
    ...     click.echo(wishes["groups"])
    >>> show.main(["--groups", "F,M"], standalone_mode=False)
    ('F', 'M')
    """
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def planned(wishes: Mapping[str, Any], groups: Sequence[Label] = ()) -> Plan:
    """Make the plan a command line asks for; ``groups`` where it names none.

    Examples
    --------
    >>> plan = planned({"groups": ("0", "1"), "local_tolerance": float("inf"), "epsilon": 1.0})
    >>> plan.groups, plan.local[0].tolerance, plan.privacy.delta, plan.calibration
    ((0, 1), None, 1e-06, 'none')
    """
    from logofair.errors import InputError
    from logofair.federation import make_plan

    said = {name: value for name, value in wishes.items() if _is_said(value)}
    if said.get("solver") == "algorithm1" and "secure" in said:
        raise InputError(
            "--solver: algorithm1 takes its step from the largest constant of any site, which is no sum; leave out "
            "--secure, or use exact."
        )
    privacy = _privacy(said)
    rest: dict[str, Any] = {} if privacy is None else {"calibration": _FREE}
    rest |= {name: said[name] for name in _AS_SAID if name in said}
    rest |= {name: constrained(said[name]) for name in ("local_tolerance", "global_tolerance") if name in said}
    return make_plan(
        groups=_labels(said["groups"]) if "groups" in said else list(groups),
        client_tolerances={site: constrained(number) for site, number in said.get("local_for", ())} or None,
        random_state=said.get("seed"),
        privacy=privacy,
        training=_training(said),
        run=said.get("run_name"),
        **rest,
    )


def check_same(wishes: Mapping[str, Any], plan: Plan, where: object) -> None:
    """Raise unless what a command line says of the plan is what a stored plan says.

    Examples
    --------
    >>> plan = planned({"groups": ("F", "M"), "optimality_gap": 1e-4})
    >>> check_same({"optimality_gap": 1e-4, "notion": None, "secure": False}, plan, "state")
    >>> check_same({"optimality_gap": 1e-3}, plan, "state")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    logofair.errors.InputError: --optimality-gap: differs from the plan of run ... in state; leave it out ...
    """
    from logofair.errors import InputError

    new = planned(wishes, plan.groups)
    for name, (option, said) in _SAID.items():
        if _is_said(wishes.get(name)) and said(new) != said(plan):
            raise InputError(
                f"{option}: differs from the plan of run {plan.run} in {where}; leave it out to go on with that run, "
                "or use another --folder."
            )


def _is_said(value: object) -> bool:
    return value is not None and value is not False and value != ()  # 0 is said


def _labels(names: Sequence[str]) -> list[Label]:
    """Names as a file's column would be read: integers where all of them are."""
    return [int(name) for name in names] if all(map(_INTEGER.fullmatch, names)) else list(names)


def _privacy(said: Mapping[str, Any]) -> Privacy | None:
    from logofair.errors import InputError
    from logofair.federation import Privacy

    if "epsilon" not in said:
        if "delta" in said:
            raise InputError("--delta: means nothing without --epsilon; name the budget, such as --epsilon 1.")
        return None
    return Privacy(said["epsilon"], said.get("delta", _DELTA))


def _training(said: Mapping[str, Any]) -> Training | None:
    from logofair.errors import InputError
    from logofair.federation import Training

    if "train" not in said:
        if "train_rounds" in said:
            raise InputError("--train-rounds: means nothing without --train; name the columns to train on.")
        return None
    return Training(said["train"], **({"rounds": said["train_rounds"]} if "train_rounds" in said else {}))


PLAN, STATE, RESULT = "plan.json", "state.json", "result.json"


@dataclass(frozen=True)
class RosterOptions:
    """Whom a server waits for and how long; None and empty where the command line says nothing.

    Examples
    --------
    >>> RosterOptions(sites=("north", "south")).terms().sites
    ('north', 'south')
    """

    sites: tuple[str, ...] = ()
    count: int | None = None
    wait: float | None = None
    timeout: float | None = None

    def terms(self, stored: RunOptions | None = None) -> RunOptions:
        """The terms of the run: as stored, but for what the command line says."""
        from logofair.engines.folder import RunOptions

        said = {name: value for name, value in vars(self).items() if value not in (None, ())}
        if self.count is not None:
            said["sites"] = ()
        return replace(stored or RunOptions(), **said)


def prepare(
    folder: Path, wishes: Mapping[str, Any], invitation: RosterOptions, without: Sequence[str] = ()
) -> tuple[Plan, RunOptions]:
    """Return the plan and terms to run: those stored in a folder, or new ones; nothing is written.

    Examples
    --------
    >>> plan, terms = prepare(Path("no-such-folder"), {"groups": ("F", "M")}, RosterOptions(count=3))
    >>> plan.groups, terms.count
    (('F', 'M'), 3)
    """
    from logofair.engines.folder import read_plan
    from logofair.errors import InputError

    if (folder / PLAN).exists():
        plan, stored = read_plan(folder / PLAN)
        check_same(wishes, plan, folder)
        terms = invitation.terms(stored)
        _check_roster(folder, plan, stored, terms, without)
        return plan, terms
    for there in (folder / STATE, folder / RESULT):
        if there.exists():
            raise InputError(f"{there}: is there without its {PLAN}; restore it, or use another --folder.")
    if without:
        raise InputError(f"--without: there is no stopped run in {folder}; leave it out to start one.")
    if not wishes.get("groups"):
        raise InputError("--groups: missing; name the groups the sites compare, such as --groups Female,Male.")
    if not invitation.sites and invitation.count is None:
        raise InputError("--sites: missing; name the sites to wait for, or pass their number with --expect.")
    plan, terms = planned(wishes), invitation.terms()
    _check_enough(plan, terms)
    return plan, terms


def _check_enough(plan: Plan, terms: RunOptions) -> None:
    from logofair.errors import InputError

    coming = len(terms.sites) or terms.count
    if coming < plan.quorum:
        raise InputError(f"--sites: {coming} are expected, but the run needs {plan.quorum} (--quorum); name more.")
    strangers = [site for site, _ in plan.client_tolerances if terms.sites and site not in terms.sites]
    if strangers:
        raise InputError(f"--local-for: names site {strangers[0]!r}, which is not among --sites; correct one of them.")


def _check_roster(folder: Path, plan: Plan, stored: RunOptions, terms: RunOptions, without: Sequence[str]) -> None:
    """A run that has begun keeps its sites; one that has not can still wait for others."""
    from logofair.engines.folder import read_state
    from logofair.errors import InputError

    if (folder / RESULT).exists():
        if without:
            raise InputError(f"--without: run {plan.run} in {folder} has ended; start another run without that site.")
        return
    if not (folder / STATE).exists():
        if without:
            raise InputError(f"--without: run {plan.run} has not begun; name those to wait for with --sites.")
        _check_enough(plan, terms)
        return
    if (terms.sites, terms.count) != (stored.sites, stored.count):
        raise InputError(
            f"--sites: run {plan.run} in {folder} has begun with its own; leave it out, or take one out with --without."
        )
    known = read_state(folder / STATE).server
    unknown = [site for site in without if site not in (*known.sites, *(each.site for each in known.lost))]
    if unknown:
        raise InputError(f"--without: {unknown[0]!r} is not in the run; it has {', '.join(known.sites)}.")
