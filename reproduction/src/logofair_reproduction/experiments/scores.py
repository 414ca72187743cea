"""The scores an experiment rests on: rows in sites and parts, models trained, settings chosen on calibration rows.

The protocol is the paper's: 30 % of the rows are for testing, and a model to be post-processed is trained on half of
the others and post-processed on the other half. A model that decides by itself is trained on both halves, with the
setting that did best on the second when trained on the first. Test rows choose nothing.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from logofair import __version__
from logofair.auditing import Audit, audit
from logofair.columns.checks import Floats
from logofair.datasets import Dataset, split
from logofair.datasets.table import chosen
from logofair.errors import InputError
from logofair.files.writing import replacing
from logofair.notions import NOTIONS
from logofair.progress import Progress, no_progress
from logofair_reproduction.datasets import CATALOGUE, load
from logofair_reproduction.datasets.dealing import natural_sites, random_sites
from logofair_reproduction.experiments.experiment import Split, Training, Trial

if TYPE_CHECKING:
    from logofair_reproduction.training import Schedule
    from logofair_reproduction.training.methods import Method


_PARTS = {"train": 0.35, "calibration": 0.35, "test": 0.3}
# Of the settings that lose at most so much accuracy against a method's most accurate one, that of the smallest gap.
ACCURACY_GIVEN = 0.02
# Which gap a method is made to lower; FedAvg is chosen by accuracy alone.
AIMS: Mapping[str, str | None] = {"fedavg": None, "fedfb": "global", "fairfed": "global", "fcfl": "local"}
_MEASURED = ("accuracy", "local_gap", "global_gap")  # of every setting tried
_FOLDER = "scores"
_FEATURES_READ = 200  # rows whose features count in a digest
_FCFL_MEASURES = 400  # rounds between two counts of its progress, which nothing depends on


@dataclass(frozen=True)
class Machine:
    """Where an experiment runs: its results' folder, the folder of prepared data, and where models are trained."""

    folder: Path
    cache: Path | None = None
    device: str = "cpu"


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a split as a post-processor or an audit sees them."""

    labels: npt.NDArray[np.int64]
    groups: npt.NDArray[np.str_]
    sites: npt.NDArray[Any]

    def audit(self, decisions: object, notion: str) -> Audit:
        """Measure some decisions, or chances of acceptance, on these rows."""
        return audit(
            decisions, self.labels, sensitive_features=self.groups, sites=self.sites, notion=notion, chances=True
        )


@dataclass(frozen=True, eq=False)
class SplitData:
    """A split's rows: the data set, the site of each row, and the numbers of the rows of each part."""

    split: Split
    data: Dataset
    sites: npt.NDArray[Any]
    parts: Mapping[str, npt.NDArray[np.intp]]

    def rows(self, part: str) -> Rows:
        """The rows of a part."""
        places = self.parts[part]
        return Rows(self.data.labels[places], self.data.sensitive[places], self.sites[places])

    @cached_property
    def digest(self) -> str:
        """What tells these rows from others: labels, groups and sites of every part, and features of a few rows."""
        found = sha256()
        for part in self.parts:
            rows = self.rows(part)
            found.update(json.dumps([column.tolist() for column in (rows.labels, rows.groups, rows.sites)]).encode())
        some = self.data.features[np.sort(self.parts["test"])[:_FEATURES_READ]]
        found.update(np.ascontiguousarray(some, dtype=np.float64).tobytes())
        return found.hexdigest()[:20]


@lru_cache(maxsize=4)
def _loaded(name: str, sensitive: str | None, limit: int | None, cache: Path | None) -> Dataset:
    data = load(name, sensitive=sensitive, cache=cache)
    if limit is None or len(data) <= limit:
        return data
    return data.take(np.sort(np.random.default_rng(0).choice(len(data), limit, replace=False)))


@cache
def versions() -> dict[str, str]:
    """Versions of what results depend on, by package."""
    packages = {name: version(name) for name in ("numpy", "scipy", "torch")}
    return {"logofair": __version__, "python": platform.python_version(), **packages}


def split_data(split_: Split, cache: Path | None = None) -> SplitData:
    """Load, partition and split the rows of a split; the same split has the same rows."""
    data = _loaded(split_.data, split_.sensitive, split_.limit, cache)
    dealing, splitting, *_ = np.random.default_rng(split_.random_state).spawn(4)
    if split_.alpha is None:
        rows, of_rows = natural_sites(data, split_.clients)
        sites = np.empty(len(data), dtype=of_rows.dtype)
        sites[rows] = of_rows
    else:
        of_clients: Any = {"n_sites": split_.clients, "alpha": split_.alpha}  # a number is missing where it is natural
        rows = np.arange(len(data))
        sites = random_sites(data, **of_clients, scheme=split_.scheme, rng=dealing)
    parts = split(rows.size, _PARTS, rng=splitting)
    return SplitData(split_, data, sites, {part: rows[places] for part, places in parts.items()})


@dataclass(frozen=True, eq=False)
class Trained:
    """A method trained on a split.

    ``setting`` is the one chosen and ``tried`` what each did on the calibration rows, trained on the first half;
    ``calibration`` and ``test`` are the scores of that model, ``decided`` the test scores of the model trained on both
    halves. ``rows`` is the digest of the split they belong to, ``trained_with`` the device and versions they were
    trained with.
    """

    setting: Mapping[str, Any]
    tried: tuple[Mapping[str, Any], ...]
    calibration: Floats
    test: Floats
    decided: Floats
    rows: str = ""
    trained_with: Mapping[str, str] = field(default_factory=dict)

    def check_rows(self, rows: SplitData, folder: Path) -> None:
        """Raise where the scores belong to other rows: the data may have been prepared anew since they were stored."""
        if self.rows != rows.digest:
            raise InputError(
                f"{folder / _FOLDER}: the scores of {rows.split.name} belong to other rows than {rows.split.data} has "
                "now; take another folder, or prepare the data as they were."
            )

    @property
    def did(self) -> Mapping[str, Any]:
        """What the setting chosen did on the calibration rows: accuracy, local_gap and global_gap."""
        (found,) = [each for each in self.tried if _setting_of(each) == self.setting]
        return {name: found[name] for name in _MEASURED}


def trained(rows: Callable[[], SplitData], training: Training, machine: Machine) -> Trained:
    """Train a method on a split and choose its setting, or read from the results' folder what was trained before."""
    split_, method = training.split, training.method
    tried = [[dict(trial.setting), trial.rounds] for trial in training.trials]
    facts = [vars(split_), method, training.notion, tried, machine.device]
    key = sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]
    path = machine.folder / _FOLDER / f"{split_.data}-{method}-{split_.random_state}-{key}.npz"
    if path.is_file():
        return _stored(path)
    on = rows()
    found = _train_and_choose(on, training, machine.device)
    made = replace(found, rows=on.digest, trained_with={"device": machine.device, **versions()})
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"setting": made.setting, "tried": made.tried, "rows": made.rows, "trained_with": made.trained_with}
    choice = np.array(json.dumps(about))
    with replacing(path) as neighbour, neighbour.open("wb") as file:
        np.savez(file, calibration=made.calibration, test=made.test, decided=made.decided, choice=choice)
    return made


def _stored(path: Path) -> Trained:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            about = json.loads(str(file["choice"]))
            columns = {name: file[name] for name in ("calibration", "test", "decided")}
        return Trained(**{**about, "tried": tuple(about["tried"])}, **columns)
    except (BadZipFile, ValueError, KeyError, TypeError, EOFError):
        raise InputError(f"{path}: is damaged; delete it, and it is trained again.") from None


def _train_and_choose(rows: SplitData, training: Training, device: str) -> Trained:
    """Try every setting on the first half, keep the best, and train it again on both halves."""
    method, notion, listed = training.method, training.notion, training.trials
    places = [rows.parts["calibration"], rows.parts["test"]]
    train, both = rows.parts["train"], np.sort(np.concatenate([rows.parts["train"], rows.parts["calibration"]]))
    if training.published:
        (setting,) = [each for trial in listed for each in trial.as_dicts()][-1:]
        (_, (decided,)), *_ = list(train_trial(rows, both, [places[1]], method, notion, listed[-1], device=device))[-1:]
        return Trained(setting, (), np.zeros(0), np.zeros(0), decided)
    calibration, found = rows.rows("calibration"), list[tuple[dict[str, Any], list[Floats]]]()
    diverged: list[dict[str, Any]] = []
    for trial in listed:
        left = trial.as_dicts()
        try:
            for setting, scores in train_trial(rows, train, places, method, notion, trial, device=device):
                found.append((setting | _did(calibration, scores[0], notion), scores))
                left.remove(setting)
        except InputError:  # steps too long for these rows: settings that were tried as others, and cannot be chosen
            if not found and trial is listed[-1]:
                raise
            diverged += [each | dict.fromkeys(_MEASURED) for each in left]
    best = choose([tried for tried, _ in found], AIMS[method])
    tried, scores = found[best]
    setting = _setting_of(tried)
    alone = Trial({k: v for k, v in setting.items() if k != "rounds"}, (setting["rounds"],))
    ((_, (decided,)),) = train_trial(rows, both, [places[1]], method, notion, alone, device=device)
    return Trained(setting, (*(each for each, _ in found), *diverged), scores[0], scores[1], decided)


def _setting_of(tried: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tried.items() if name not in _MEASURED}


def _did(rows: Rows, scores: Floats, notion: str | None) -> dict[str, Any]:
    """Accuracy and gaps of a model's decisions; the local gap is that of rates on 30 rows or more."""
    found = rows.audit(scores >= 0.5, notion or "demographic_parity")
    local = found.headline_local.value
    figures = zip(_MEASURED, (found.accuracy, local, found.global_.gap().value), strict=True)
    return {name: None if value is None else round(float(value), 5) for name, value in figures}


def choose(tried: list[dict[str, Any]], aim: str | None) -> int:
    """The number of the best setting: the smallest gap among those that lose little accuracy.

    Where none of these has a gap, the most accurate; without an ``aim`` it is that anyway.
    """
    accuracy = np.array([each["accuracy"] for each in tried])
    gaps = np.array([np.inf if aim is None or each[f"{aim}_gap"] is None else each[f"{aim}_gap"] for each in tried])
    near = np.where(accuracy >= accuracy.max() - ACCURACY_GIVEN, gaps, np.inf)
    return int(np.argmin(near) if np.isfinite(near).any() else np.argmax(accuracy))


def train_trial(
    rows: SplitData,
    places: npt.NDArray[np.intp],
    scored: list[npt.NDArray[np.intp]],
    method: str,
    notion: str | None,
    trial: Trial,
    *,
    device: str = "cpu",
    progress: Progress = no_progress,
) -> Iterator[tuple[dict[str, Any], list[Floats]]]:
    """Train one trial on some rows: the scores of other rows after each of its numbers of rounds."""
    from logofair_reproduction.training import build_network, make_rows, train

    data, most = rows.data, max(trial.rounds)
    made, schedule = method_of(method, notion, trial.setting)
    features, labels, groups = data.features, data.labels, data.sensitive
    sites = make_rows(features[places], labels[places], groups=groups[places], sites=rows.sites[places], device=device)
    others = [
        make_rows(features[part], labels[part], groups=groups[part], known_groups=sites[0].groups, device=device)[0]
        for part in scored
    ]
    network = build_network(CATALOGUE[data.name].model, features.shape[1:])
    states = train(made, network, sites, rounds=most, schedule=schedule, random_state=rows.split.random_state)
    for state in progress(states, f"Training by {method}", most):
        if state.round in trial.rounds:
            scores = [network.scores(state.parameters, part) for part in others]
            if not all(np.isfinite(part).all() for part in scores):
                raise InputError(f"train: the model diverged by round {state.round}; use a smaller learning rate.")
            yield {**trial.setting, "rounds": state.round}, scores


def method_of(name: str, notion: str | None, setting: Mapping[str, Any]) -> tuple[Method, Schedule]:
    """A method and the schedule of its clients, from a setting that names what either takes."""
    from logofair_reproduction.training import METHODS, Schedule

    kind = METHODS[name]
    own = [field.name for field in fields(kind) if field.name not in ("notion", "measure_every")]
    steps = [] if name == "fcfl" else [field.name for field in fields(Schedule)]  # fcfl takes no local steps
    for given in setting:
        chosen(given, [*own, *steps], f"settings of {name}")
    values = {key: value for key, value in setting.items() if key in own}
    if name == "fcfl":
        values["measure_every"] = _FCFL_MEASURES
    if name != "fedavg":
        values["notion"] = NOTIONS[notion or "demographic_parity"]
    return kind(**values), Schedule(**{key: value for key, value in setting.items() if key in steps})
