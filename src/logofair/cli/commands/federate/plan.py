"""The options that make a plan, and what a folder makes of them: a new run, the same run again, a contradiction."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import (
    POOLING,
    constrained,
    name_option,
    requirement_options,
    seed_option,
    together,
)
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair.columns.checks import Label
    from logofair.engines.folder import RunOptions
    from logofair.federation import Plan
    from logofair.files.values import CostsText

PLAN, STATE, RESULT = "plan.json", "state.json", "result.json"

_DELTA = 1e-6
_AS_GIVEN = (
    "notion",
    "require",
    "calibration",
    "pooling",
    "optimality_gap",
    "solver",
    "secure",
    "quorum",
    "smallest_cell",
)
_INTEGER = re.compile("0|-?[1-9][0-9]*")


def listed(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Read names separated by commas, each once; a name with a comma, such as an intersection, stands in quotes."""
    if value is None:
        return ()
    names = tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True), ()))
    if not all(names) or len(set(names)) != len(names):
        raise click.BadParameter(f"got {value!r}; separate names by commas, each once.", ctx, param)
    return names


# What is not given is None, empty or False: a run that goes on is then asked nothing about it.
plan_options = together(
    click.option("--groups", metavar="A,B", callback=listed, help="The groups compared, separated by commas."),
    requirement_options("site"),
    click.option(
        "--calibration",
        metavar="NAME",
        help="How scores become chances: beta, platt, temperature or none.  [default: beta; none with --epsilon]",
    ),
    name_option(
        "--pooling",
        POOLING,
        "What small cells borrow from their group at other sites: auto (as held-out rows advise), full or none; auto "
        "and full send histograms of scores.  [default: auto; none with --epsilon or --secure]",
    ),
    click.option(
        "--optimality-gap", type=float, help="Stop once no rule is more accurate by more than this.  [default: 1e-05]"
    ),
    name_option(
        "--solver",
        ("exact", "algorithm1"),
        "exact, or algorithm1 (the paper's, which may miss its tolerances).  [default: exact]",
    ),
    click.option(
        "--secure", is_flag=True, help="Secure sums: the server sees sums over 3 sites or more; nothing is pooled."
    ),
    click.option("--epsilon", type=float, help="Differential privacy of every row: the budget, such as 1."),
    click.option("--delta", type=float, help=f"Chance that this privacy fails.  [default: {_DELTA:g}]"),
    click.option(
        "--smallest-cell",
        type=int,
        help="A group with fewer rows than this at a site is counted in nothing that leaves it, and takes the merged "
        "rule there; 1: every row counts.  [default: 5; 1 with --epsilon]",
    ),
    click.option("--quorum", type=int, help="Fail with fewer sites than this.  [default: 2; 3 with --secure]"),
    seed_option(
        "The same seed and files give the same rules; coins hang on the run's name.  [default: 0]", default=None
    ),
    click.option(
        "--run", "run_name", metavar="NAME", help="Name of the run: letters, digits, - and _.  [default: random]"
    ),
)

# What each option says about a plan: a stored plan is compared with a new command line by these.
_IN_PLAN: dict[str, tuple[str, Callable[[Plan], Any]]] = {
    "groups": ("--groups", lambda plan: plan.groups),
    "notion": ("--notion", lambda plan: (plan.looked_at, {item.rates for item in plan.require})),
    "local_tolerance": ("--local", lambda plan: set(plan.inside.required)),
    "global_tolerance": ("--global", lambda plan: set(plan.require) - set(plan.inside.required)),
    "require": ("--require", lambda plan: set(plan.require)),
    "costs": ("--costs", lambda plan: (plan.costs, plan.site_costs)),
    "calibration": ("--calibration", lambda plan: plan.calibration),
    "pooling": ("--pooling", lambda plan: plan.pooling),
    "optimality_gap": ("--optimality-gap", lambda plan: plan.optimality_gap),
    "solver": ("--solver", lambda plan: plan.solver),
    "secure": ("--secure", lambda plan: plan.secure),
    "epsilon": ("--epsilon", lambda plan: plan.privacy and plan.privacy.epsilon),
    "delta": ("--delta", lambda plan: plan.privacy and plan.privacy.delta),
    "smallest_cell": ("--smallest-cell", lambda plan: plan.smallest_cell),
    "quorum": ("--quorum", lambda plan: plan.quorum),
    "seed": ("--seed", lambda plan: plan.random_state),
    "run_name": ("--run", lambda plan: plan.run),
}


def planned(options: Mapping[str, Any], groups: Sequence[Label] = ()) -> Plan:
    """Make the plan a command line asks for; ``groups`` where it names none."""
    from logofair.federation import Privacy, make_plan

    given = {name: value for name, value in options.items() if _is_given(value)}
    if given.get("solver") == "algorithm1" and "secure" in given:
        raise InputError(
            "--solver: algorithm1 takes its step from the largest constant of any site, which is no sum; leave out "
            "--secure, or use exact."
        )
    if "delta" in given and "epsilon" not in given:
        raise InputError("--delta: means nothing without --epsilon; name the budget, such as --epsilon 1.")
    rest: dict[str, Any] = {}
    if "epsilon" in given:
        rest |= {"calibration": "none", "privacy": Privacy(given["epsilon"], given.get("delta", _DELTA))}
    rest |= {name: given[name] for name in _AS_GIVEN if name in given}
    rest |= {name: constrained(given[name]) for name in ("local_tolerance", "global_tolerance") if name in given}
    names = list(given.get("groups", groups))
    if "groups" in given and all(map(_INTEGER.fullmatch, names)):  # as a file's column would be read
        names = [int(name) for name in names]
    costs: CostsText | None = given.get("costs")
    single = dict(costs) if isinstance(costs, dict) else {} if costs is None else {"": costs}
    return make_plan(
        groups=names,
        costs=single.pop("", None),  # of sites that are not named
        site_costs=single,
        random_state=given.get("seed"),
        run=given.get("run_name"),
        **rest,
    )


def check_same(options: Mapping[str, Any], plan: Plan, where: object) -> None:
    """Raise unless what a command line says of the plan is what a stored plan says."""
    new = planned(options, plan.groups)
    for name, (option, value_in) in _IN_PLAN.items():
        if _is_given(options.get(name)) and value_in(new) != value_in(plan):
            raise InputError(
                f"{option}: differs from the plan of run {plan.run} in {where}; leave it out to go on with that run, "
                "or use another --folder."
            )


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != ()  # 0 is a value


def prepare(
    folder: Path, options: Mapping[str, Any], roster: Mapping[str, Any], without: Sequence[str] = ()
) -> tuple[Plan, RunOptions]:
    """Return the plan to run and its options: those stored in a folder, or new ones; nothing is written.

    ``roster`` says whom the server waits for and how long, None and empty where the command line says nothing.
    """
    from logofair.engines.folder import RunOptions, read_plan

    given = {name: value for name, value in roster.items() if _is_given(value)}
    if "count" in given:
        given["sites"] = ()
    if (folder / PLAN).exists():
        plan, stored = read_plan(folder / PLAN)
        check_same(options, plan, folder)
        run_options = replace(stored, **given)
        _check_roster(folder, plan, stored, run_options, without)
        return plan, run_options
    for there in (folder / STATE, folder / RESULT):
        if there.exists():
            raise InputError(f"{there}: is there without its {PLAN}; restore it, or use another --folder.")
    if without:
        raise InputError(f"--without: there is no stopped run in {folder}; leave it out to start one.")
    if not options.get("groups"):
        raise InputError("--groups: missing; name the groups the sites compare, such as --groups Female,Male.")
    if not given.keys() & {"sites", "count"}:
        raise InputError("--sites: missing; name the sites to wait for, or pass their number with --expect.")
    plan, run_options = planned(options), replace(RunOptions(), **given)
    _check_enough(plan, run_options)
    return plan, run_options


def _check_enough(plan: Plan, run_options: RunOptions) -> None:
    coming = len(run_options.sites) or run_options.count
    if coming < plan.quorum:
        raise InputError(f"--sites: {coming} are expected, but the run needs {plan.quorum} (--quorum); name more.")
    for option, named in (("--require", plan.named_sites), ("--costs", [site for site, _ in plan.site_costs])):
        strangers = [site for site in named if run_options.sites and site not in run_options.sites]
        if strangers:
            raise InputError(f"{option}: names site {strangers[0]!r}, which is not among --sites; correct one of them.")
    without = next((site for site in run_options.sites if not plan.has_costs(site)), None)
    if without is not None:
        raise InputError(f"--costs: has no pair for site {without!r}; add one for it, or one for all others.")


def _check_roster(
    folder: Path, plan: Plan, stored: RunOptions, run_options: RunOptions, without: Sequence[str]
) -> None:
    """A run that has begun keeps its sites; one that has not can still wait for others."""
    from logofair.engines.folder import read_state

    if (folder / RESULT).exists():
        if without:
            raise InputError(f"--without: run {plan.run} in {folder} has ended; start another run without that site.")
        return
    if not (folder / STATE).exists():
        if without:
            raise InputError(f"--without: run {plan.run} has not begun; name those to wait for with --sites.")
        _check_enough(plan, run_options)
        return
    if (run_options.sites, run_options.count) != (stored.sites, stored.count):
        raise InputError(
            f"--sites: run {plan.run} in {folder} has begun with its own; leave it out, or take one out with --without."
        )
    known = read_state(folder / STATE).server
    unknown = [site for site in without if site not in (*known.sites, *(each.site for each in known.excluded))]
    if unknown:
        raise InputError(f"--without: {unknown[0]!r} is not in the run; it has {', '.join(known.sites)}.")
