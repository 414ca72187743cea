"""An experiment as data: which rows, which methods, which requirements and how often, read from a TOML file.

``plans/`` holds one file per experiment, ``methods.toml`` what every method of their tables is, and ``settings.toml``
the settings that are tried for each method on each data set.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any
from zlib import crc32

from logofair.datasets.table import chosen

_HERE = files("logofair_reproduction.experiments")
_SMALL_BUDGET = 3  # settings tried of a training method in a quick run
_SMALL_SOLVER_BUDGET = 4  # and of Algorithm 1: its first four share one run of 50 rounds


@dataclass(frozen=True)
class Split:
    """One deal of a data set's rows to clients and parts: the same split has the same rows whatever is done with them.

    ``alpha`` None: the data set's own clients, the ``clients`` largest (None: all). ``limit``: so many rows, at random.
    """

    data: str
    random_state: int
    clients: int | None = 5
    alpha: float | None = 0.5
    scheme: str = "plain"
    sensitive: str | None = None
    limit: int | None = None

    @property
    def name(self) -> str:
        """What the split is, in short."""
        dealt = "natural clients" if self.alpha is None else f"{self.clients} clients, alpha {self.alpha:g}"
        return f"{self.data}, {dealt}, seed {self.random_state}"


@dataclass(frozen=True)
class MethodPlan:
    """What a method of a table is.

    ``kind`` is ``trained`` (a model's own decisions), ``processed`` (post-processed scores), ``private``
    (post-processed on noised histograms), ``protocol`` (post-processed by the federated protocol) or ``bound``.
    """

    name: str
    title: str  # what tables call it
    kind: str
    trains: str = "fedavg"  # the training method whose scores are used
    published: bool = False  # trained with the setting of its paper in place of the best found
    sides: tuple[str, ...] = ("local", "global")  # which requirements hold
    solver: str = "exact"  # or algorithm1
    tolerances: str = "required"  # or baseline: as large as the gaps of ``like`` on the calibration rows
    like: str = ""  # the method whose gaps, or whose rows of a table, this one is compared with
    paper: str = ""  # its name in the paper's tables; empty where it is not in them
    bound: str = ""  # which bound it is
    half: bool = False  # trained on as many rows as a model to be post-processed, not on all that are not for testing
    basis: str = "eta"  # what rates and accuracy are counted with where scores are post-processed
    varied: bool = False  # measured at each of an experiment's levels (rounds, or epsilon)


@cache
def _toml(name: str) -> Mapping[str, Any]:
    return tomllib.loads(_HERE.joinpath(name).read_text("utf-8"))


def _method_plan(name: str, facts: Mapping[str, Any]) -> MethodPlan:
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    return MethodPlan(name, **plain)


METHODS: Mapping[str, MethodPlan] = {name: _method_plan(name, facts) for name, facts in _toml("methods.toml").items()}


@dataclass(frozen=True)
class Trial:
    """One setting of a method: what is passed to it, and after how many rounds it is taken."""

    setting: Mapping[str, Any]
    rounds: tuple[int, ...]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Each of its settings, as plain values."""
        return [{**self.setting, "rounds": rounds} for rounds in self.rounds]


def trials(data: str, method: str, budget: int | None = None, *, published: bool = False) -> list[Trial]:
    """The settings tried for a method on a data set, at most ``budget`` of them; settings of one run share a trial.

    A run of 50 rounds passes through its 20th, so settings that differ in their rounds alone are trained once.
    """
    section = _toml("settings.toml")[data][method] if method != "algorithm1" else _toml("settings.toml")[method]
    listed = [section["published"]] if published else section["trials"]
    found: list[Trial] = []
    left = budget if budget is not None else sum(len(each["rounds"]) for each in listed)
    for each in listed:
        rounds = tuple(each["rounds"][:left])
        if rounds:
            found.append(Trial({k: v for k, v in each.items() if k != "rounds"}, rounds))
            left -= len(rounds)
    return found


def first_setting(data: str, method: str) -> dict[str, Any]:
    """The first setting that is tried for a method on a data set; FedAvg's where none is listed, but for FCFL."""
    listed = _toml("settings.toml").get(data, {})
    if method not in listed and method != "fcfl":  # which takes no local steps
        method = "fedavg"
    return dict(trials(data, method, 1)[0].setting) if method in listed else {}


@dataclass(frozen=True)
class Training:
    """A method to be trained on a split for a notion (None: it knows none), and how many settings are tried."""

    split: Split
    method: str
    notion: str | None
    budget: int
    published: bool = False  # with the setting of its paper alone

    @property
    def trials(self) -> list[Trial]:
        """The settings."""
        budget = None if self.published else self.budget
        return trials(self.split.data, self.method, budget, published=self.published)


@dataclass(frozen=True)
class Case:
    """One figure of a table for one seed: everything it depends on."""

    experiment: str
    split: Split
    notion: str
    method: str
    local_tolerance: float | None
    global_tolerance: float | None
    level: float | None  # rounds or epsilon, where the experiment varies one
    budget: int  # settings tried of each training method
    solver_budget: int | None = None  # and of Algorithm 1: all, but for quick runs

    @property
    def notions(self) -> tuple[str, str]:
        """The notions of the local and the global side."""
        local, _, global_ = self.notion.partition(" / ")
        return local, global_ or local

    @property
    def trainings(self) -> list[Training]:
        """What must be trained for it."""
        plan = METHODS[self.method]
        wanted = [plan.trains, *([METHODS[plan.like].trains] if plan.tolerances == "baseline" else [])]
        return [
            Training(self.split, name, None if name == "fedavg" else self.notions[1], self.budget, plan.published)
            for name in wanted
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values that tell it from every other case; settings that were changed since make another case."""
        plan = METHODS[self.method]
        data = self.split.data
        used = [
            trials(data, plan.trains, self.budget, published=plan.published),
            *([trials("", "algorithm1", self.solver_budget)] if plan.solver == "algorithm1" else []),
            *([trials(data, METHODS[plan.like].trains, self.budget)] if plan.tolerances == "baseline" else []),
        ]
        digest = crc32(json.dumps([[asdict(t) for t in part] for part in used] + [asdict(plan)]).encode())
        values = asdict(self)
        if self.solver_budget is None or plan.solver != "algorithm1":
            del values["solver_budget"]
        return {**values.pop("split"), **values, "plan": f"{digest:08x}"}


@dataclass(frozen=True)
class Experiment:
    """What an experiment's file says; one of a table's or a figure's cells is a :class:`Case`.

    ``shows`` is ``table`` or ``curve``; ``along`` what a curve's horizontal axis is (alpha, clients, level); ``paper``
    the paper's table that has its figures.
    """

    name: str
    title: str
    about: str
    shows: str
    notion: str
    tolerances: tuple[tuple[float, float], ...]
    seeds: int
    budget: int
    methods: tuple[str, ...]
    splits: tuple[Split, ...]  # of the first seed
    levels: tuple[float, ...] = ()
    paper: str = ""
    along: str = ""
    solver_budget: int | None = None

    def cases(self) -> Iterator[Case]:
        """All cells of all seeds: every seed's splits before the next seed's."""
        for number, split, method in product(range(self.seeds), self.splits, self.methods):
            plan, dealt = METHODS[method], replace(split, random_state=number)
            required = plan.kind != "trained" and plan.tolerances == "required"
            levels: Sequence[float | None] = self.levels if self.levels and plan.varied else (None,)
            for (local, global_), level in product(self.tolerances if required else ((None, None),), levels):
                yield Case(
                    self.name,
                    dealt,
                    self.notion,
                    method,
                    local if "local" in plan.sides else None,
                    global_ if "global" in plan.sides else None,
                    level,
                    self.budget,
                    self.solver_budget,
                )


def experiment_names() -> list[str]:
    """The names of all experiments, in the order of their files."""
    return sorted(entry.name.removesuffix(".toml") for entry in _HERE.joinpath("plans").iterdir())


def load_experiment(
    name: str,
    *,
    quick: bool = False,
    data: Sequence[str] = (),
    methods: Sequence[str] = (),
    alphas: Sequence[float] = (),
    seeds: int | None = None,
    budget: int | None = None,
) -> list[Experiment]:
    """Read an experiment, one part for every data set; the other arguments keep a part of it.

    Examples
    --------
    >>> adult, *_ = load_experiment("comparison_dp")
    >>> adult.title, len(adult.splits), adult.seeds
    ('Comparison, demographic parity', 3, 5)
    """
    chosen(name, experiment_names(), "NAME")
    plan, found = _toml(f"plans/{name}.toml"), []
    for part, facts in plan["data"].items():
        said = {**plan, **facts}  # what the file says of all data sets, and of this one
        if quick:  # fewer seeds, and some of its alphas and clients
            shorter = dict(said["quick"])
            for key in ("alpha", "clients"):
                if key in shorter:
                    shorter[key] = [value for value in said[key] if value in shorter[key]] or said[key][:1]
            said |= shorter
        made = _part(name, part, said, quick)
        kept = tuple(name for name in made.methods if not methods or name in methods)
        splits = tuple(split for split in made.splits if not alphas or split.alpha in alphas)
        if kept and splits and (not data or part in data):
            runs, most = seeds or made.seeds, budget or made.budget
            found.append(replace(made, methods=kept, splits=splits, seeds=runs, budget=most))
    return found


def _part(name: str, part: str, said: Mapping[str, Any], quick: bool) -> Experiment:
    """One data set's part of an experiment."""
    pairs = [(None, None)] if said.get("natural") else product(said["alpha"], said["clients"])
    dealing = {key: said[key] for key in ("scheme", "sensitive", "limit") if key in said}
    splits = [Split(part, 0, clients, alpha, **dealing) for alpha, clients in pairs]
    notion = said["notion"]
    return Experiment(
        name=name,
        **{key: said[key] for key in ("title", "about", "shows", "seeds")},
        **{key: said.get(key, "") for key in ("paper", "along")},
        notion=notion if isinstance(notion, str) else f"{notion['local']} / {notion['global']}",
        tolerances=tuple((pair[0], pair[1]) for pair in said["tolerances"]),
        budget=min(said["budget"], _SMALL_BUDGET) if quick else said["budget"],
        methods=tuple(said["methods"]),
        splits=tuple(splits),
        levels=tuple(said.get("levels", ())),
        solver_budget=_SMALL_SOLVER_BUDGET if quick else None,
    )
