"""Decisions on a batch of rows: labels to the policy's numbers, coins by id or by the row's place, totals."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.measure import plain
from logofair.cli.data import ColumnNames, DataFiles
from logofair.columns.checks import Label, shown
from logofair.errors import InputError
from logofair.files.output import replacing
from logofair.files.scan import Scan, scanned
from logofair.files.tables import plain_values, polars_module, readable
from logofair.files.values import as_chances, check_scores, joined_groups
from logofair.policy.policy import Policy

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

__all__ = ["BATCH", "Decider", "DecisionCounts", "decide_files", "spelling"]


_WHOLE = "^(0|-?[1-9][0-9]{0,17})$"  # how an integer of 64 bits is written, and one with any 18 digits fits


def spelling(label: Label) -> str:
    """A label of a policy as a file spells it.

    Examples
    --------
    >>> spelling("Female"), spelling(2.0), spelling(True), spelling(("Female", "Black"))
    ('Female', '2', 'true', 'Female, Black')
    """
    if isinstance(label, tuple):
        parts = (spelling(part) for part in label)
        return ", ".join('"' + p.replace('"', '""') + '"' if ", " in p or p.startswith('"') else p for p in parts)
    if isinstance(label, bool):
        return str(label).lower()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


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

    @staticmethod
    def share(part: int, rows: int) -> str:
        """A share for people."""
        return f"{part / rows:.1%}" if rows else "none"

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


@dataclass(frozen=True, eq=False)
class Decider:
    """A policy whose labels are numbered, with the columns it reads and how it decides."""

    policy: Policy
    numbered: Policy
    columns: ColumnNames
    record: str | None
    keep: tuple[str, ...]
    on_unknown: str
    deterministic: bool

    @classmethod
    def of(
        cls,
        policy: Policy,
        columns: ColumnNames,
        record: str | None,
        keep: Sequence[str],
        on_unknown: str,
        *,
        seed: int,
        deterministic: bool,
    ) -> Decider:
        """Number the policy's labels; without ids its coins are keyed by the seed and tossed for the rows' places."""
        if on_unknown == "merged" and policy.merged is None:
            raise InputError("--on-unknown: the policy lacks the rule of all clients together; use base or raise.")
        numbered = replace(
            policy,
            groups=tuple(range(len(policy.groups))),
            clients=tuple(range(len(policy.clients))) if policy.has_clients else policy.clients,
            key=policy.key if record is not None else seed,
        )
        return cls(policy, numbered, columns, record, tuple(dict.fromkeys(keep)), on_unknown, deterministic)

    @property
    def by_position(self) -> bool:
        """Whether coins hang on the rows' places."""
        return self.record is None and not self.deterministic

    def wanted(self) -> dict[str, str]:
        """The columns to read, by role."""
        kept = {f"keep {place}": name for place, name in enumerate(self.keep)}
        return self.columns.by_role() | ({} if self.record is None else {"id": self.record}) | kept

    def prepared(self, scan: Scan) -> polars.LazyFrame:
        """The columns of a file in the form that decides: numbers, codes (null: unknown), ids, and columns to keep."""
        pl, schema = polars_module(), scan.table.collect_schema()
        for role in scan.names:
            if not role.startswith("keep "):
                expected = "numbers" if role == "score" else "text or numbers"
                plain_values(pl.Series([], dtype=schema[role]), scan.where(role), expected)
        groups = joined_groups([_text(role, schema[role]) for role in scan.names if role.startswith("group ")])
        found = [pl.col("score").cast(pl.Float64, strict=False), groups.alias("group")]
        found += [pl.col("score").alias("raw score")] if schema["score"] == pl.String else []
        found += [_text("client", schema["client"]).alias("client")] if "client" in scan.names else []
        found += [pl.col(role) for role in scan.names if role == "id" or role.startswith("keep ")]
        codes = [_code("group", self.policy.groups)]
        codes += [_code("client", self.policy.clients)] if "client" in scan.names else []
        return scan.table.select(found).with_columns(codes)

    def decide(
        self, batch: polars.DataFrame, scan: Scan, first: int, position: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], int]:
        """Decisions and groups of a batch, and how many rows are of unknown clients or groups.

        ``first`` is the batch's first row in its file, ``position`` that in all files.
        """
        scores = self._scores(batch, scan, first)
        group = self._codes(batch, "group", scan, first)
        client = self._client(batch, scan, first) if self.policy.has_clients else None
        strange = (group < 0) if client is None else (group < 0) | (client < 0)
        decided = np.empty(batch.height, dtype=np.int64)
        for rows, ids in self._ids(batch, scan, first, position):
            decided[rows] = self.numbered.decide(
                scores[rows],
                groups=group[rows],
                clients=None if client is None else client[rows],
                ids=ids,
                on_unknown=self.on_unknown,
                deterministic=self.deterministic,
            )
        return decided, group, int(strange.sum())

    def _scores(self, batch: polars.DataFrame, scan: Scan, first: int) -> npt.NDArray[np.float64]:
        pl, column = polars_module(), batch["score"].fill_nan(None)
        if column.null_count():
            row = int(column.is_null().arg_max() or 0)
            raw = batch["raw score"][row] if "raw score" in batch.columns else None
            got = "has no value" if raw is None else f"is {shown(raw)}"
            raise InputError(f"{scan.where('score')}: row {first + row} {got}, expected a number; repair such rows.")
        low, high = batch.select(pl.col("score").min(), pl.col("score").max().alias("high")).row(0)
        check_scores(low, high, self.columns.scale, scan.where("score"))
        return np.asarray(as_chances(column, self.columns.scale).to_numpy(), dtype=np.float64)

    def _codes(self, batch: polars.DataFrame, role: str, scan: Scan, first: int) -> npt.NDArray[np.int32]:
        """Numbers of groups or clients, -1 where unknown; raise where a value is missing or may not be unknown."""
        codes = batch[f"{role} code"]
        known, allowed = self.policy.groups if role == "group" else self.policy.clients, ("merged", "base")
        if codes.null_count() and self.on_unknown not in (allowed if role == "client" else ("base",)):
            self._refuse(batch, codes, role, scan, first, known)
        if batch[role].null_count():
            self._refuse(batch, batch[role], role, scan, first, known)
        return np.asarray(codes.fill_null(-1).cast(polars_module().Int32).to_numpy())

    def _refuse(
        self,
        batch: polars.DataFrame,
        column: polars.Series,
        role: str,
        scan: Scan,
        first: int,
        known: tuple[Label, ...],
    ) -> None:
        row = int(column.is_null().arg_max() or 0)
        named = "group 0" if role == "group" else role
        where = scan.where(named) if len(self.columns.group) == 1 or role == "client" else f"{scan.source}: groups"
        if batch[role][row] is None:
            raise InputError(f"{where}: row {first + row} has no value; fill it or drop such rows.")
        listed = ", ".join(map(shown, known[:6])) + (f" and {len(known) - 6} more" if len(known) > 6 else "")
        use = "--on-unknown base" if role == "group" else "--on-unknown merged, or base"
        value = shown(batch[role][row])
        raise InputError(
            f"{where}: row {first + row} is {value}, a {role} the policy does not know (it knows {listed}); use {use}."
        )

    def _client(self, batch: polars.DataFrame, scan: Scan, first: int) -> npt.NDArray[np.int32]:
        if "client" in scan.names:
            return self._codes(batch, "client", scan, first)
        names = [spelling(name) for name in self.policy.clients]
        if scan.source.stem in names:
            return np.full(batch.height, names.index(scan.source.stem), dtype=np.int32)
        if self.on_unknown == "raise":
            listed = ", ".join(map(shown, names[:6])) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            raise InputError(
                f"{scan.source}: without --client the file's name is the client, and the policy does not know "
                f"{scan.source.stem!r} (it knows {listed}); name the column of clients or use --on-unknown merged."
            )
        return np.full(batch.height, -1, dtype=np.int32)

    def _ids(
        self, batch: polars.DataFrame, scan: Scan, first: int, position: int
    ) -> Iterator[tuple[npt.NDArray[np.intp] | slice, Any]]:
        """Rows and their ids, or their places where there are no ids.

        A CSV cell that is how an integer is written is an integer, whatever stands in other rows: else a person's coin
        would hang on who else is in the file.
        """
        pl = polars_module()
        if self.record is None:
            yield slice(None), np.arange(position, position + batch.height, dtype=np.uint64)
            return
        ids = batch["id"]
        if ids.null_count():
            row = first + int(ids.is_null().arg_max() or 0)
            raise InputError(f"{scan.where('id')}: row {row} has no value; ids must not be missing.")
        if ids.dtype.is_integer():
            yield slice(None), ids.to_numpy()
        elif ids.dtype not in (pl.String, pl.Categorical, pl.Enum):
            raise InputError(f"{scan.where('id')}: holds {ids.dtype}; ids are integers or text.")
        elif scan.kind != "CSV":
            yield slice(None), ids.cast(pl.String).to_list()
        else:
            whole = ids.str.contains(_WHOLE)
            for chosen, kind in ((whole, pl.Int64), (~whole, pl.String)):
                if chosen.any():
                    part = ids.filter(chosen).cast(kind)
                    yield np.flatnonzero(chosen.to_numpy()), part.to_numpy() if kind == pl.Int64 else part.to_list()


def _text(role: str, kind: Any) -> Any:
    """A column of labels as text; whole floats as integers."""
    pl, column = polars_module(), polars_module().col(role)
    if kind not in (pl.Float32, pl.Float64):
        return column.cast(pl.String)
    whole = column == column.floor()
    return pl.when(whole).then(column.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(column.cast(pl.String))


def _code(role: str, names: Sequence[Label]) -> Any:
    """The place of a label among those of the policy; null where it is not."""
    pl, spelled = polars_module(), [spelling(name) for name in names]
    if len(set(spelled)) < len(spelled):
        raise InputError(f"the policy: two {role}s are spelled alike in a file; rename one and fit again.")
    return pl.col(role).cast(pl.Enum(spelled), strict=False).to_physical().alias(f"{role} code")


BATCH = 250_000
_WAITING = 4  # batches that may wait to be written


def decide_files(
    decider: Decider, files: DataFiles, out: Path, progress: Progress, *, batch: int = BATCH
) -> DecisionCounts:
    """Decide on all rows of the files and write the decisions; the file is there whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> import logofair
    >>> from logofair.cli.pages.console import showing_progress
    >>> from logofair.cli.data import ColumnNames, find_files
    >>> policy = logofair.fit([0.9, 0.2], None, groups=["F", "M"], calibration="none", local_tolerance=None,
    ...     global_tolerance=None).policy
    >>> decider = Decider.of(policy, ColumnNames(score="p", group=("sex",)), None, (), "raise", seed=0, deterministic=False)
    >>> with tempfile.TemporaryDirectory() as folder, showing_progress(quiet=True) as progress:
    ...     with Path(folder, "new.csv").open("w") as file:
    ...         print("p,sex", "0.75,F", "0.25,M", sep=chr(10), file=file)
    ...     out = Path(folder, "decisions.csv")
    ...     totals = decide_files(decider, find_files([f"{folder}/new.csv"]), out, progress)
    ...     out.read_text().split()
    ['row,decision', '0,1', '1,0']
    """
    totals = DecisionCounts(decider.policy.groups)
    with replacing(out) as neighbour, closing(_batches(decider, files, totals, batch)) as steps:
        first = next(steps, None)
        if first is None:
            raise InputError(f"{files.name}: has columns but no rows; pass a file with at least one.")
        with _Writer(neighbour, first.schema) as writer:
            writer.write(first)
            for table in progress(steps, "Deciding", max(1, sum(map(_rows, files.paths)) // batch)):
                writer.write(table)
    return totals


def _batches(decider: Decider, files: DataFiles, totals: DecisionCounts, batch: int) -> Generator[polars.DataFrame]:
    """The output, piece by piece."""
    schema: Any = None
    for path in files.paths:
        with scanned(path, decider.wanted()) as scan:
            first, pieces = 0, decider.prepared(scan).collect_batches(chunk_size=batch, maintain_order=True)
            for piece in _read(pieces, scan):
                decided, group, unknown = decider.decide(piece, scan, first, totals.rows)
                totals.add(group, decided, unknown)
                table = _output(decider, piece, decided, first, path if len(files.paths) > 1 else None)
                schema = schema or table.schema
                if table.schema != schema:
                    raise InputError(
                        f"{path}: its columns hold other kinds than those of {files.paths[0]}; convert them."
                    )
                yield table
                first += piece.height


def _read(pieces: Any, scan: Scan) -> Iterator[polars.DataFrame]:
    """Pieces of a file, with the reader's failures as one sentence."""
    while True:
        with readable(scan.source, scan.kind):
            piece = next(pieces, None)
        if piece is None:
            return
        if piece.height:
            yield piece


def _output(decider: Decider, piece: polars.DataFrame, decided: Any, first: int, path: Path | None) -> polars.DataFrame:
    """Record id or row number, decision, and the columns to keep; of several files also the file's name."""
    pl = polars_module()
    columns: dict[str, Any] = {} if path is None else {"file": pl.Series([path.name]).new_from_index(0, piece.height)}
    if decider.record is None:
        columns["row"] = pl.arange(first, first + piece.height, eager=True, dtype=pl.Int64)
    else:
        columns[decider.record] = piece["id"]
    columns["decision"] = pl.Series(decided, dtype=pl.Int8)
    for place, name in enumerate(decider.keep):
        if name in columns and name != decider.record:
            raise InputError(f"--keep: {name!r} is a column of the output already; rename it in the data.")
        columns.setdefault(name, piece[f"keep {place}"])
    return pl.DataFrame(columns)  # type: ignore[no-any-return]


class _Writer:
    """Writes tables in another thread; whatever goes wrong on either side ends both, and neither waits for ever."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.path, self.schema = path, schema
        self.queue: Queue[polars.DataFrame | None] = Queue(_WAITING)
        self.stopped, self.ended = threading.Event(), threading.Event()
        self.failed: list[BaseException] = []
        self.thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> _Writer:
        self.thread.start()
        return self

    def write(self, table: polars.DataFrame) -> None:
        """Hand a table over; raise if writing has failed."""
        if self.failed:
            raise _told(self.failed[0])
        self.queue.put(table)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.stopped.set()
        self.queue.put(None)
        self.thread.join()
        if self.failed and kind is None:
            raise _told(self.failed[0])

    def _work(self) -> None:
        from polars.io.plugins import register_io_source

        try:
            _sink(register_io_source(self._source, schema=self.schema), self.path)
        except BaseException as error:  # told to the thread that decides
            self.failed.append(error)
        finally:
            while not self.ended.is_set():  # take what is still to come, so that the other thread can go on
                list(self._tables())

    def _tables(self) -> Iterator[polars.DataFrame]:
        while (table := self.queue.get()) is not None:
            yield table
        self.ended.set()

    def _source(self, *_: Any) -> Iterator[polars.DataFrame]:
        yield from self._tables()
        if self.stopped.is_set():
            raise InterruptedError("no more rows")


def _told(error: BaseException) -> BaseException:
    """A failure of the writer as the other thread tells it."""
    if isinstance(error, KeyboardInterrupt):  # polars listens to interrupts in every thread
        return KeyboardInterrupt()
    return OSError(" ".join(str(error).split())[:200])


def _sink(table: polars.LazyFrame, path: Path) -> None:
    """Write a table as its name's ending says."""
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        table.sink_csv(path, separator="\t" if ending == ".tsv" else ",", check_extension=False)
    elif ending in (".parquet", ".pq"):
        table.sink_parquet(path)
    else:
        table.sink_ipc(path)


def _rows(path: Path) -> int:
    """About how many rows a file has, for the progress bar: of CSV by the length of its first lines."""
    pl = polars_module()
    if path.suffix.lower() in (".parquet", ".pq"):
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    if path.suffix.lower() in (".arrow", ".feather", ".ipc"):
        return int(pl.scan_ipc(path, glob=False).select(pl.len()).collect().item())
    with path.open("rb") as file:
        head = file.read(1 << 16)
    return path.stat().st_size * head.count(b"\n") // max(1, len(head))
