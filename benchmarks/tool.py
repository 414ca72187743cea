"""The speed of the command line: fit and audit beside the library and reading, apply's memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.measurements import Size, best, federation

# Audit as a multiple of reading the file, fit as one of reading and fitting in memory, apply's peak memory in GB.
GOALS = {"audit": 4.0, "fit": 4.0, "apply": 1.5}
_SITES = tuple(f"site {place}" for place in range(5))
_BATCH = 500_000


def tool_speed(repeat: int, shrink: int = 1) -> dict[str, Any] | None:
    """Measure all, on a million rows to audit, ten to fit and a hundred million to decide on; None without polars.

    ``shrink`` divides the rows.
    """
    try:
        import polars  # noqa: F401
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        audit = audit_ratio(repeat, 1_000_000 // shrink, Path(folder))
        fit = {form: fit_ratio(10_000_000 // shrink, Path(folder), form) for form in ("text", "dictionaries")}
        apply = apply_memory(100_000_000 // shrink, Path(folder))
    return {"audit": audit, "fit": fit, "apply": apply}


def audit_ratio(repeat: int, rows: int, folder: Path) -> dict[str, float]:
    """Seconds to read a Parquet file with polars, to audit it for all notions, and their ratio.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(audit_ratio(1, 1000, Path(folder)))
    ['audit_seconds', 'ratio', 'read_seconds', 'rows']
    """
    import polars

    from logofair.auditing.files import examine
    from logofair.files.inputs import ColumnNames

    file = folder / "audit.parquet"
    _write(file, rows)
    columns = ColumnNames(score="score", label="label", group=("sex",), site="site")
    read = best(lambda: polars.read_parquet(file), max(repeat, 3))
    from logofair.cli.console import showing_progress

    with showing_progress(quiet=True) as progress:
        seconds = best(lambda: examine([str(file)], columns, 0.5, (), progress), max(repeat, 3))
    return {"rows": rows, "read_seconds": read, "audit_seconds": seconds, "ratio": seconds / read}


def fit_ratio(rows: int, folder: Path, form: str = "text") -> dict[str, float]:
    """Seconds to read a Parquet file and fit its columns in memory, of the command that does both, and their ratio.

    Groups and sites are columns of "text" or of "dictionaries".

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(fit_ratio(1000, Path(folder)))
    ['command_seconds', 'memory_seconds', 'ratio', 'rows']
    """
    import polars

    from logofair.fitting.fit import fit

    file = folder / "fit.parquet"
    _write(file, rows, form)

    def in_memory() -> None:
        table = polars.read_parquet(file)
        fit(table["score"], table["label"], sensitive_features=table["sex"], sites=table["site"])

    names = ["--score", "score", "--label", "label", "--group", "sex", "--site", "site", "--json"]
    words = ["fit", str(file), *names, "--out", str(folder / "fitted.json"), "--force"]
    command = [sys.executable, "-m", "logofair", *words]
    memory = best(in_memory, 2)
    seconds = best(lambda: subprocess.run(command, capture_output=True, check=True), 2)
    return {"rows": rows, "memory_seconds": memory, "command_seconds": seconds, "ratio": seconds / memory}


def apply_memory(rows: int, folder: Path) -> dict[str, float] | None:
    """Peak memory in GB and seconds of ``logofair apply`` in a process of its own; None where it cannot be read."""
    from logofair.fitting.fit import fit

    scores, groups, sites = federation(Size(5, 4000))
    named = {"sensitive_features": np.array(["F", "M"])[groups], "sites": np.array(_SITES)[sites]}
    policy = fit(scores, None, calibration="none", notion="equalized_odds", **named).policy
    policy.save(folder / "policy.json")
    _write(folder / "new.parquet", rows)
    options = ["--score", "score", "--group", "sex", "--site", "site", "--id", "id", "--json"]
    words = ["apply", str(folder / "policy.json"), str(folder / "new.parquet"), *options]
    done = subprocess.run(
        [sys.executable, "-c", _APPLY, *words, "--out", str(folder / "out.parquet")],
        capture_output=True,
        text=True,
        check=False,
    )
    return {"rows": rows, **json.loads(done.stderr)} if done.returncode == 0 else None


_APPLY = """
import json, sys, time
from benchmarks.memory import own_peak
from logofair.cli.commands.apply import apply
begin = time.perf_counter()
apply(sys.argv[2:], standalone_mode=False)
print(json.dumps({"peak_gb": own_peak() / 1e9, "seconds": time.perf_counter() - begin}), file=sys.stderr)
"""


def _write(path: Path, rows: int, form: str = "text") -> None:
    """Write generated rows, piece by piece."""
    import polars as pl
    from polars.io.plugins import register_io_source

    kinds: dict[str, Any] = {"text": pl.String, "dictionaries": pl.Categorical}
    schema = {"id": pl.Int64, "score": pl.Float64, "label": pl.Int8, "sex": kinds[form], "site": kinds[form]}

    def pieces(*_: Any) -> Iterator[pl.DataFrame]:
        for first in range(0, rows, _BATCH):
            size = min(_BATCH, rows - first)
            rng = np.random.default_rng(first)
            score = rng.random(size)
            sex, site = pl.Series(rng.integers(0, 2, size)), pl.Series(rng.integers(0, 5, size))
            columns = {
                "id": pl.arange(first, first + size, eager=True),
                "score": score,
                "label": (rng.random(size) < score).astype(np.int8),
                "sex": sex.replace_strict([0, 1], ["F", "M"]),
                "site": site.replace_strict(list(range(5)), list(_SITES)),
            }
            yield pl.DataFrame(columns, schema=schema)

    register_io_source(pieces, schema=schema).sink_parquet(path)


def show_tool(found: dict[str, Any] | None, console: Console) -> None:
    """Print the measurements."""
    if found is None:
        console.print("polars is not installed: the tool is not measured (pip install 'logofair[data]').")
        return
    audit, apply = found["audit"], found["apply"]
    console.print(
        f"audit of {audit['rows']:,} rows of Parquet: {audit['ratio']:.1f} times the time to read the file "
        f"({1e3 * audit['read_seconds']:.0f} ms); goal {GOALS['audit']:g}"
    )
    for form, fit in found["fit"].items():
        console.print(
            f"fit of {fit['rows']:,} rows of Parquet, groups and sites as {form}: {fit['ratio']:.1f} times reading "
            f"and fitting in memory ({fit['memory_seconds']:.1f} s); goal {GOALS['fit']:g}"
        )
    if apply is not None:
        speed = apply["rows"] / apply["seconds"] / 1e6
        console.print(
            f"apply to {apply['rows']:,} rows: peak memory {apply['peak_gb']:.2f} GB; goal {GOALS['apply']:g} "
            f"({speed:.1f} million rows per second)"
        )
