"""What a training run is of: the options of ``logofair train``, and the rows they choose, dealt and split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Label
from logofair.columns.labels import Codes, encode
from logofair.datasets import Dataset, deal, split
from logofair.errors import InputError
from logofair.notions import NOTIONS
from logofair_reproduction.datasets import CATALOGUE, load
from logofair_reproduction.datasets.catalogue import DatasetInfo, choices_of
from logofair_reproduction.datasets.preparing import cache_folder, digest_of, is_prepared, random_rows
from logofair_reproduction.errors import OtherRunError
from logofair_reproduction.training import METHODS, Schedule
from logofair_reproduction.training.methods import Method

if TYPE_CHECKING:
    from logofair.progress import Progress

__all__ = ["RowPart", "TrainSettings", "TrainingRows", "naming_options", "training_rows"]


# The options that only one method has, and the names of the method's own parameters.
_METHOD_OPTIONS = {
    "beta": ("fairfed", "beta"),
    "debias": ("fairfed", "debias"),
    "debias_step": ("fairfed", "debias_step"),
    "step": ("fedfb", "alpha"),
    "tolerance": ("fcfl", "tolerance"),
    "step_size": ("fcfl", "step_size"),
    "first_stage": ("fcfl", "first_stage"),
}
_LOCAL = ("local_epochs", "learning_rate", "optimiser", "batch_size")
_ROUNDS, _FIRST_STAGE = {"fcfl": 1600}, 800
# Networks that learn their training rows by heart, or diverge, at a logistic regression's step size.
_SMALL_STEPS = {"mlp": 0.001, "resnet18": 0.001}
_USUAL_ROUNDS, _USUAL_CLIENTS, _USUAL_ALPHA = 20, 5, 0.5

# Options whose names differ from those of the library and of stored settings.
_OPTIONS = {
    "by": "--partition",
    "n_clients": "--clients",
    "rows": "--limit",
    "start": "--checkpoint",
    "fractions": "--train-share and --calibration-share",
    "method_alpha": "--step",
    "method_smoothing": "smoothing",
    "share_train": "--train-share",
    "share_calibration": "--calibration-share",
    "share_test": "share to test",
    "rows_to_train": "rows to train",
    "prepared_data": "prepared data",
}


@dataclass(frozen=True)
class TrainSettings:
    """The options that decide what is trained on what; None where one was not given."""

    method: str
    data: str
    notion: str = "demographic_parity"
    sensitive: str | None = None
    target: str | None = None
    limit: int | None = None
    network: str | None = None
    hidden: int | None = None
    partition: str = "sensitive"
    clients: int | None = None
    alpha: float | None = None
    scheme: str | None = None
    train_share: float = 0.35
    calibration_share: float = 0.35
    rounds: int | None = None
    local_epochs: int | None = None
    learning_rate: float | None = None
    batch_size: int | None = None
    optimiser: str | None = None
    beta: float | None = None
    debias: str | None = None
    debias_step: float | None = None
    step: float | None = None
    tolerance: float | None = None
    step_size: float | None = None
    first_stage: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (method, _) in _METHOD_OPTIONS.items():
            if getattr(self, name) is not None and method != self.method:
                raise InputError(f"{_option(name)}: is a setting of {method}; leave it out for {self.method}.")
        if self.debias_step is not None and self.debias != "fairbatch":
            raise InputError("--debias-step: is the step of fairbatch; leave it out or add --debias fairbatch.")
        for name in _LOCAL[:-1] if self.method == "fcfl" else ():
            if getattr(self, name) is not None:
                raise InputError(f"{_option(name)}: fcfl takes no local steps; leave it out (its step is --step-size).")
        for name in ("alpha", "scheme") if self.partition == "natural" else ():
            if getattr(self, name) is not None:
                raise InputError(f"{_option(name)}: natural clients are not dealt by chance; leave it out.")
        if self.train_share + self.calibration_share > 1.0 - 1e-9:
            total = f"{self.train_share:g} + {self.calibration_share:g}"
            raise InputError(f"--calibration-share: {total} leave no rows for testing; make them less than 1.")
        if self.first_stage is not None and self.first_stage > self.n_rounds:
            longer = f"{self.first_stage:,} rounds are more than the {self.n_rounds:,} in all"
            raise InputError(f"--first-stage: {longer}; make it shorter or ask for more --rounds.")

    @property
    def n_rounds(self) -> int:
        """Rounds in all."""
        return self.rounds or _ROUNDS.get(self.method, _USUAL_ROUNDS)

    @property
    def shares(self) -> dict[str, float]:
        """The share of the rows in every part that has any."""
        rest = round(1.0 - self.train_share - self.calibration_share, 12)
        parts = {"train": self.train_share, "calibration": self.calibration_share, "test": rest}
        return {part: share for part, share in parts.items() if share > 0.0}

    def dealing(self) -> dict[str, Any]:
        """How rows are dealt to clients: the arguments of `logofair.datasets.partition.deal`."""
        if self.partition == "natural":
            return {"by": "natural", "n_clients": self.clients}
        return {
            "by": self.partition,
            "n_clients": self.clients or _USUAL_CLIENTS,
            "alpha": self.alpha or _USUAL_ALPHA,
            "scheme": self.scheme or "plain",
        }

    def federated_method(self) -> Method:
        """The method, with the options given."""
        options = _METHOD_OPTIONS.items()
        given = {inner: getattr(self, name) for name, (_, inner) in options if getattr(self, name) is not None}
        if self.method != "fedavg":
            given["notion"] = NOTIONS[self.notion]
        if self.method == "fcfl":
            usual = min(_FIRST_STAGE, self.n_rounds // 2)
            given["first_stage"] = usual if self.first_stage is None else self.first_stage
            given |= {} if self.batch_size is None else {"batch_size": self.batch_size}
        return METHODS[self.method](**given)

    def schedule(self) -> Schedule:
        """How clients take local steps; fcfl's clients take none."""
        given = {name: getattr(self, name) for name in _LOCAL}
        network = self.network or CATALOGUE[self.data].model
        usual: dict[str, Any] = {"learning_rate": _SMALL_STEPS[network]} if network in _SMALL_STEPS else {}
        return Schedule(**usual | {name: value for name, value in given.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        """All that a training state depends on but the number of rounds, with defaults filled in; ready for JSON."""
        method: Any = self.federated_method()
        own = {name: value for name, value in asdict(method).items() if name not in ("notion", "measure_every")}
        steps = {} if self.method == "fcfl" else asdict(self.schedule())
        return {
            "method": self.method,
            "notion": self.notion,
            **{f"method_{name}": value for name, value in own.items()},
            **{f"schedule_{name}": value for name, value in steps.items()},
            **{name: getattr(self, name) for name in ("data", "sensitive", "target", "limit", "seed")},
            **{f"dealing_{name}": value for name, value in self.dealing().items()},
            **{f"share_{part}": share for part, share in self.shares.items()},
        }


def _option(name: str) -> str:
    """An option as it is typed."""
    return "--" + name.replace("_", "-")


def _option_name(name: str) -> str:
    """The option for a parameter of the library, or for a stored setting."""
    bare = name
    for prefix in ("method_", "schedule_", "dealing_"):
        bare = bare.removeprefix(prefix)
    return _OPTIONS.get(name) or _OPTIONS.get(bare) or _option(bare)


@contextmanager
def naming_options() -> Iterator[None]:
    """Let errors raised in the block name the options in place of the library's parameters and of stored settings."""
    try:
        yield
    except OtherRunError as error:
        raise error.renamed(_option_name) from None
    except InputError as error:
        known = {*_OPTIONS, "device", *(field.name for field in fields(TrainSettings))}
        raise error.renamed(lambda name: _option_name(name) if name in known else name) from None


@dataclass(frozen=True, eq=False)
class RowPart:
    """Some rows of a data set; ``places`` are where they stand among those loaded."""

    places: npt.NDArray[np.intp]
    labels: npt.NDArray[np.int64]
    groups: npt.NDArray[np.str_]
    clients: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """A data set's rows by part: train, calibration (unless its share is 0) and test.

    ``left_out`` is the number of natural clients without a place in the run, ``unread`` whether the files named were
    not needed, since the data set was prepared before, ``digest`` what tells prepared data from others.
    """

    data: Dataset
    entry: DatasetInfo
    parts: Mapping[str, RowPart]
    groups: tuple[Label, ...]
    clients: tuple[Label, ...]
    left_out: int = 0
    unread: bool = False
    digest: str | None = None


def training_rows(
    settings: TrainSettings, progress: Progress, *, source: Path | None = None, cache: Path | None = None
) -> TrainingRows:
    """Load, deal and split the rows of a run; the same settings give the same rows."""
    # The third stream trains in logofair demo, which deals and splits alike.
    dealing, splitting, _, drawing = np.random.default_rng(settings.seed).spawn(4)
    entry = CATALOGUE[settings.data]
    if settings.partition == "natural" and entry.natural_clients is None:
        raise InputError(f"--partition: {entry.name} has no natural clients; use sensitive or label.")
    unread = _prepare(entry, source, cache, progress)
    (data,) = progress(map(_load, [settings], [entry], [cache], [drawing]), f"Reading {entry.name}", 1)
    dealt = deal(data, rng=dealing, **settings.dealing())
    rows, clients = dealt.rows, dealt.clients
    cut = split(rows.size, settings.shares, rng=splitting)
    parts = {
        name: RowPart(rows[places], data.labels[rows[places]], data.sensitive[rows[places]], clients[places])
        for name, places in cut.items()
    }
    groups, sites = encode(data.sensitive[rows], "groups").names, encode(clients, "clients")
    _check(parts["train"], sites, groups, settings)
    digest = digest_of(cache_folder(entry.name, cache)) if entry.needs_files else None
    return TrainingRows(data, entry, parts, groups, sites.names, len(dealt.left_out), unread, digest)


def _prepare(entry: DatasetInfo, source: Path | None, cache: Path | None, progress: Progress) -> bool:
    """Prepare a data set from files where that was not done yet; whether files were named and not needed."""
    if source is None:
        return False
    if entry.prepare is None:
        raise InputError(f"--from: {entry.name} needs no files; leave it out.")
    if not source.exists():
        raise InputError(f"--from: {source} is not there; check the path.")
    folder = cache_folder(entry.name, cache)
    if is_prepared(folder):
        return True
    entry.prepare(source, folder, progress=progress)
    return False


def _load(settings: TrainSettings, entry: DatasetInfo, cache: Path | None, drawing: np.random.Generator) -> Dataset:
    """The data set, or ``limit`` rows of it."""
    known, choices = choices_of(entry.load), dict[str, Any]()
    if settings.target is not None:
        if "target" not in known:
            raise InputError(f"--target: {entry.name} has one target alone; leave it out.")
        choices["target"] = settings.target
    if settings.limit is not None and "rows" in known:
        choices["rows"] = settings.limit
        if entry.needs_files and "rng" in known:
            choices["rng"] = drawing
    data = load(entry.name, sensitive=settings.sensitive, cache=cache, **choices)
    if settings.limit is None or "rows" in known:
        return data
    return data.take(random_rows(len(data), settings.limit, drawing))


def _check(train: RowPart, clients: Codes, groups: tuple[Label, ...], settings: TrainSettings) -> None:
    """Raise where the rows to train on lack a client, or hold one group or one label alone."""
    present = set(train.clients.tolist())
    missing = [place for place, client in enumerate(clients.names) if client not in present]
    if missing:
        advice = "use fewer --clients, a larger --alpha, or more rows"
        if settings.partition == "natural":
            by_size = np.argsort(-np.bincount(clients.codes), kind="stable")
            largest = max(1, int(np.isin(by_size, missing).argmax()))
            advice = f"take only the largest, such as --clients {largest}, or more rows"
        few = f"{len(missing):,} of {len(clients.names):,} have no rows to train on"
        raise InputError(f"--clients: {few} (such as client {clients.names[missing[0]]!r}); {advice}.")
    if len(groups) < 2:
        raise InputError(f"--data: all rows are of group {groups[0]!r}; fairness compares two or more groups.")
    if train.labels.min() == train.labels.max():
        only = f"all {train.places.size:,} rows to train on have label {train.labels[0]}"
        raise InputError(f"--data: {only}, and training needs both; use more rows or another target.")
