"""The rows of a training run: loaded, dealt to clients and split into parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.cli.training.settings import TrainSettings
from logofair.columns.checks import Label
from logofair.columns.labels import Codes, encode
from logofair.datasets import CATALOGUE, Dataset, deal, load, split
from logofair.datasets.catalogue import DatasetInfo, choices_of
from logofair.datasets.preparing import cache_folder, digest_of, is_prepared, random_rows
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair.progress import Progress

__all__ = ["RowPart", "TrainingRows", "training_rows"]


RowNumbers: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RowPart:
    """Some rows of a data set; ``places`` are where they stand among those loaded."""

    places: RowNumbers
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
