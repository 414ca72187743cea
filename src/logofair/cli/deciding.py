"""Decisions on the rows of files, batch by batch: labels to the policy's numbers, coins by id or by the row's place."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from logofair.auditing.measure import plain
from logofair.columns.checks import Label, shown
from logofair.columns.labels import Codes
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles
from logofair.files.tables import Table, estimated_rows, open_table
from logofair.files.values import (
    as_chances,
    check_scores,
    group_expression,
    label_text,
    listed_names,
    number,
    plain_values,
)
from logofair.files.writing import TableWriter, replacing
from logofair.policy.policy import Policy

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

__all__ = ["BATCH", "Decider", "DecisionCounts", "decide_files"]


_INTEGER_KINDS = "^(0|-?[1-9][0-9]{0,17})$"  # how an integer of 64 bits is written, and one with any 18 digits fits


@dataclass
class DecisionCounts:
    """How many rows were decided and accepted, by group; grows batch by batch."""

    groups: tuple[Label, ...]
    counted: npt.NDArray[np.int64] = field(init=False)
    unknown: int = 0

    def __post_init__(self) -> None:
        self.counted = np.zeros((len(self.groups) + 1, 2), dtype=np.int64)  # the last line: unknown groups

    @property
    def rows(self) -> int:
        """Rows decided."""
        return int(self.counted.sum())

    @property
    def accepted(self) -> int:
        """Rows accepted."""
        return int(self.counted[:, 1].sum())

    def add(self, groups: npt.NDArray[np.int32], decided: npt.NDArray[np.int64], unknown: int) -> None:
        """Count a batch."""
        place = np.where(groups < 0, len(self.groups), groups)
        self.counted += np.bincount(2 * place + decided, minlength=self.counted.size).reshape(self.counted.shape)
        self.unknown += unknown

    def largest(self, most: int) -> Iterator[tuple[Label, int, int]]:
        """The groups with the most rows: name, rows, accepted."""
        sizes = self.counted.sum(1)
        for place in np.argsort(-sizes, kind="stable")[:most].tolist():
            if sizes[place]:
                name = self.groups[place] if place < len(self.groups) else "unknown groups"
                yield name, int(sizes[place]), int(self.counted[place, 1])

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        groups = [
            {"group": plain(name), "rows": rows, "accepted": accepted}
            for name, rows, accepted in self.largest(len(self.counted))
        ]
        return {"rows": self.rows, "accepted": self.accepted, "unknown_rows": self.unknown, "groups": groups}


class Batch(NamedTuple):
    """Rows of a file in the form that decides; ``first`` is the first one's number in it, ``position`` in all files."""

    rows: polars.DataFrame
    table: Table
    first: int
    position: int

    def number_of(self, flags: polars.Series) -> int:
        """The number in the file of the first row that is flagged."""
        return self.first + int(flags.arg_max() or 0)


@dataclass(frozen=True, eq=False)
class Decider:
    """A policy with the columns it reads and how it decides.

    Without ids its coins are keyed by the seed, and tossed for the rows' places in all files.
    """

    policy: Policy
    columns: ColumnNames
    id_column: str | None = None
    keep: tuple[str, ...] = ()
    on_unknown: str = "raise"
    seed: int | None = None
    deterministic: bool = False

    def __post_init__(self) -> None:
        if self.on_unknown == "merged" and self.policy.merged is None:
            raise InputError("--on-unknown: the policy lacks the rule of all clients together; use base or raise.")
        if self.by_position and self.seed is None:
            raise InputError(
                "--id: missing, but the policy tosses coins; name the column of ids, so that the same person always "
                "gets the same decision, or pass --seed (coins by the row's place) or --deterministic."
            )

    @cached_property
    def keyed(self) -> Policy:
        """The policy with the key of its coins."""
        return self.policy if self.seed is None or self.id_column is not None else replace(self.policy, key=self.seed)

    @property
    def by_position(self) -> bool:
        """Whether coins hang on the rows' places."""
        used = (self.policy.mixtures, self.policy.merged if self.on_unknown == "merged" else None)
        coins = any(rules is not None and rules.mixed.any() for rules in used)
        return coins and self.id_column is None and not self.deterministic

    def wanted(self) -> dict[str, str]:
        """The columns to read, by role."""
        kept = {f"keep {place}": name for place, name in enumerate(self.keep)}
        return self.columns.by_role() | ({} if self.id_column is None else {"id": self.id_column}) | kept

    def prepared(self, table: Table) -> polars.LazyFrame:
        """The columns of a file in the form that decides: numbers, codes (null: unknown), ids, and columns to keep."""
        pl, schema = polars_module(), table.rows.collect_schema()
        for role in table.names:
            if not role.startswith("keep "):
                expected = "numbers" if role == "score" else "text or numbers"
                plain_values(pl.Series([], dtype=schema[role]), table.where(role), expected)
        groups = group_expression([_text(role, schema[role]) for role in table.names if role.startswith("group ")])
        found = [number("score"), groups.alias("group")]
        found += [pl.col("score").alias("raw score")] if schema["score"] == pl.String else []
        found += [_text("client", schema["client"]).alias("client")] if "client" in table.names else []
        found += [pl.col(role) for role in table.names if role == "id" or role.startswith("keep ")]
        codes = [_code("group", self.policy.groups)]
        codes += [_code("client", self.policy.clients)] if "client" in table.names else []
        return table.rows.select(found).with_columns(codes)

    def decide(self, batch: Batch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], int]:
        """Decisions and groups of a batch, and how many rows are of unknown clients or groups."""
        scores, group = self._scores(batch), self._codes(batch, "group")
        client = self._client(batch) if self.policy.has_clients else None
        strange = (group < 0) if client is None else (group < 0) | (client < 0)
        decided = np.empty(batch.rows.height, dtype=np.int64)
        for rows, ids in self._ids(batch):
            decided[rows] = self.keyed.decide(
                scores[rows],
                groups=Codes(self.policy.groups, group[rows]),
                clients=None if client is None else Codes(self.policy.clients, client[rows]),
                ids=ids,
                on_unknown=self.on_unknown,
                deterministic=self.deterministic,
            )
        return decided, group, int(strange.sum())

    def _scores(self, batch: Batch) -> npt.NDArray[np.float64]:
        rows, column, where = batch.rows, batch.rows["score"], batch.table.where("score")
        if column.null_count():
            row = batch.number_of(column.is_null())
            raw = rows["raw score"][row - batch.first] if "raw score" in rows.columns else None
            got = "has no value" if raw is None else f"is {shown(raw)}"
            raise InputError(f"{where}: row {row} {got}, expected a number; repair such rows.")
        check_scores(float(column.min()), float(column.max()), self.columns.scale, where)  # type: ignore[arg-type]
        return np.asarray(as_chances(column, self.columns.scale).to_numpy(), dtype=np.float64)

    def _codes(self, batch: Batch, role: str) -> npt.NDArray[np.int32]:
        """Numbers of groups or clients, -1 where unknown; raise where a value is missing or may not be unknown."""
        labels, codes = batch.rows[role], batch.rows[f"{role} code"]
        allowed = ("merged", "base") if role == "client" else ("base",)
        for column in (codes if self.on_unknown not in allowed else labels, labels):
            if column.null_count():
                raise self._unknown_error(batch, role, batch.number_of(column.is_null()))
        return np.asarray(codes.fill_null(-1).cast(polars_module().Int32).to_numpy())

    def _unknown_error(self, batch: Batch, role: str, row: int) -> InputError:
        table, label = batch.table, batch.rows[role][row - batch.first]
        named = "group 0" if role == "group" else role
        where = table.where(named) if len(self.columns.group) == 1 or role == "client" else f"{table.file}: groups"
        if label is None:
            return InputError(f"{where}: row {row} has no value; fill it or drop such rows.")
        use = "--on-unknown base" if role == "group" else "--on-unknown merged, or base"
        known = listed_names(self.policy.groups if role == "group" else self.policy.clients, 6)
        does = f"a {role} the policy does not know (it knows {known})"
        return InputError(f"{where}: row {row} is {shown(label)}, {does}; use {use}.")

    def _client(self, batch: Batch) -> npt.NDArray[np.int32]:
        if "client" in batch.table.names:
            return self._codes(batch, "client")
        path, names = batch.table.file.path, [label_text(name) for name in self.policy.clients]
        if path.stem not in names and self.on_unknown == "raise":
            raise InputError(
                f"{path}: without --client the file's name is the client, and the policy does not know {path.stem!r} "
                f"(it knows {listed_names(names, 6)}); name the column of clients or use --on-unknown merged."
            )
        code = names.index(path.stem) if path.stem in names else -1
        return np.full(batch.rows.height, code, dtype=np.int32)

    def _ids(self, batch: Batch) -> Iterator[tuple[npt.NDArray[np.intp] | slice, Any]]:
        """Rows and their ids, or their places where there are no ids.

        A CSV cell that is how an integer is written is an integer, whatever stands in other rows: else a person's coin
        would hang on who else is in the file.
        """
        pl = polars_module()
        if self.id_column is None:
            yield slice(None), np.arange(batch.position, batch.position + batch.rows.height, dtype=np.uint64)
            return
        ids, where = batch.rows["id"], batch.table.where("id")
        if ids.null_count():
            row = batch.number_of(ids.is_null())
            raise InputError(f"{where}: row {row} has no value; ids must not be missing.")
        if ids.dtype.is_integer():
            yield slice(None), ids.to_numpy()
        elif ids.dtype not in (pl.String, pl.Categorical, pl.Enum):
            raise InputError(f"{where}: holds {ids.dtype}; ids are integers or text.")
        elif batch.table.kind != "CSV":
            yield slice(None), ids.cast(pl.String).to_list()
        else:
            complete = ids.str.contains(_INTEGER_KINDS)
            for chosen, kind in ((complete, pl.Int64), (~complete, pl.String)):
                if chosen.any():
                    part = ids.filter(chosen).cast(kind)
                    yield np.flatnonzero(chosen.to_numpy()), part.to_numpy() if kind == pl.Int64 else part.to_list()


def _text(role: str, kind: Any) -> Any:
    """A column of labels as text; whole floats as integers."""
    pl, column = polars_module(), polars_module().col(role)
    if kind not in (pl.Float32, pl.Float64):
        return column.cast(pl.String)
    complete = column == column.floor()
    return pl.when(complete).then(column.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(column.cast(pl.String))


def _code(role: str, names: Sequence[Label]) -> Any:
    """The place of a label among those of the policy; null where it is not."""
    pl, texts = polars_module(), [label_text(name) for name in names]
    if len(set(texts)) < len(texts):
        raise InputError(f"the policy: two {role}s are written alike in a file; rename one and fit again.")
    return pl.col(role).cast(pl.Enum(texts), strict=False).to_physical().alias(f"{role} code")


BATCH = 250_000


def decide_files(
    decider: Decider, files: DataFiles, out: Path, progress: Progress, *, batch: int = BATCH
) -> DecisionCounts:
    """Decide on all rows of the files and write the decisions; the file is there whole or not at all."""
    totals = DecisionCounts(decider.policy.groups)
    with replacing(out) as neighbour, closing(_batches(decider, files, totals, batch)) as steps:
        first = next(steps, None)
        if first is None:
            raise InputError(f"{files.name}: has columns but no rows; pass a file with at least one.")
        with TableWriter(neighbour, first.schema) as writer:
            writer.write(first)
            for table in progress(steps, "Deciding", max(1, sum(map(estimated_rows, files.paths)) // batch)):
                writer.write(table)
    return totals


def _batches(decider: Decider, files: DataFiles, totals: DecisionCounts, batch: int) -> Generator[polars.DataFrame]:
    """The output, batch by batch."""
    schema: Any = None
    for path in files.paths:
        with open_table(path, decider.wanted()) as table:
            first = 0
            for rows in table.batches(batch, decider.prepared(table)):
                decided, group, unknown = decider.decide(Batch(rows, table, first, totals.rows))
                totals.add(group, decided, unknown)
                output = _output(decider, rows, decided, first, path if len(files.paths) > 1 else None)
                schema = schema or output.schema
                if output.schema != schema:
                    raise InputError(
                        f"{path}: its columns hold other kinds than those of {files.paths[0]}; convert them."
                    )
                yield output
                first += rows.height


def _output(decider: Decider, rows: polars.DataFrame, decided: Any, first: int, path: Path | None) -> polars.DataFrame:
    """Id or row number, decision, and the columns to keep; of several files also the file's name."""
    pl = polars_module()
    columns: dict[str, Any] = {} if path is None else {"file": pl.Series([path.name]).new_from_index(0, rows.height)}
    if decider.id_column is None:
        columns["row"] = pl.arange(first, first + rows.height, eager=True, dtype=pl.Int64)
    else:
        columns[decider.id_column] = rows["id"]
    columns["decision"] = pl.Series(decided, dtype=pl.Int8)
    for place, name in enumerate(decider.keep):
        if name in columns and name != decider.id_column:
            raise InputError(f"--keep: {name!r} is a column of the output already; rename it in the data.")
        columns.setdefault(name, rows[f"keep {place}"])
    return pl.DataFrame(columns)  # type: ignore[no-any-return]
