"""From files to a file of decisions, batch by batch: this thread decides, another writes."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

from logofair.cli.apply_rows import Decider, Totals
from logofair.cli.data import DataFiles
from logofair.cli.data_out import replacing
from logofair.cli.data_scan import Scan, scanned
from logofair.inputs import InputError
from logofair.tables import polars_module, readable

if TYPE_CHECKING:
    import polars

    from logofair.cli.console import Watch

__all__ = ["BATCH", "decide_files"]

BATCH = 250_000
_WAITING = 4  # batches that may wait to be written


def decide_files(decider: Decider, files: DataFiles, out: Path, watch: Watch, *, batch: int = BATCH) -> Totals:
    """Decide on all rows of the files and write the decisions; the file is there whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> import logofair
    >>> from logofair.cli.console import watching
    >>> from logofair.cli.data import Columns, find_files
    >>> policy = logofair.fit([0.9, 0.2], None, groups=["F", "M"], calibration="none", local_tolerance=None,
    ...     global_tolerance=None).policy
    >>> decider = Decider.of(policy, Columns(score="p", group=("sex",)), None, (), "raise", seed=0, deterministic=False)
    >>> with tempfile.TemporaryDirectory() as folder, watching(quiet=True) as watch:
    ...     with Path(folder, "new.csv").open("w") as file:
    ...         print("p,sex", "0.75,F", "0.25,M", sep=chr(10), file=file)
    ...     out = Path(folder, "decisions.csv")
    ...     totals = decide_files(decider, find_files([f"{folder}/new.csv"]), out, watch)
    ...     out.read_text().split()
    ['row,decision', '0,1', '1,0']
    """
    totals = Totals(decider.policy.groups)
    with replacing(out) as neighbour, closing(_batches(decider, files, totals, batch)) as steps:
        first = next(steps, None)
        if first is None:
            raise InputError(f"{files.name}: has columns but no rows; pass a file with at least one.")
        with _Writer(neighbour, first.schema) as writer:
            writer.write(first)
            for table in watch(steps, "Deciding", max(1, sum(map(_rows, files.paths)) // batch)):
                writer.write(table)
    return totals


def _batches(decider: Decider, files: DataFiles, totals: Totals, batch: int) -> Generator[polars.DataFrame]:
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
