"""Cost against rows: how long ``fit`` takes and what memory it needs from ten thousand rows to a hundred million.

Every size runs in a process of its own, so that its peak of memory is its own; the figure is written as SVG, whose ink
follows the page it stands in.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.measurements import best
from benchmarks.memory import available, peak_of
from logofair.cli.console import showing_progress
from logofair.cli.options import examples

SITES = 1_000
_CALLS: dict[str, dict[str, Any]] = {
    "default call": {"pooling": "none"},
    "without calibration": {"calibration": "none", "pooling": "none"},
}
_BYTES_A_ROW = 150  # of a fit, at most: a size that would not fit into memory is left out
_PIECE = 1_000_000
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 400, 64, 44, 16, 150


def rows_of(rows: int) -> dict[str, Any]:
    """Scores, labels, groups and sites, made piece by piece so that the making needs little memory."""
    columns: dict[str, Any] = {"scores": np.empty(rows), "labels": np.empty(rows, dtype=np.int8)}
    columns |= {name: np.empty(rows, dtype=np.int32) for name in ("groups", "sites")}
    shift = np.random.default_rng(0).normal(0.0, 0.3, (SITES, 2)) + np.array([0.0, 0.5])
    for first in range(0, rows, _PIECE):
        rng, piece = np.random.default_rng([1, first]), slice(first, min(first + _PIECE, rows))
        size = piece.stop - first
        group, site = rng.integers(0, 2, size), rng.integers(0, SITES, size)
        score = 1.0 / (1.0 + np.exp(0.8 - shift[site, group] - rng.normal(0.0, 1.2, size)))
        columns["scores"][piece], columns["labels"][piece] = score, rng.random(size) < score
        columns["sensitive_features"][piece], columns["sites"][piece] = group, site
    return columns


def one(rows: int, call: str) -> dict[str, float]:
    """Seconds and memory of one call on so many rows, and the seconds of numpy's sort of their scores.

    Examples
    --------
    >>> found = one(10_000, "without calibration")
    >>> found["rows"], found["seconds"] > 0
    (10000, True)
    """
    import logofair

    columns = rows_of(rows)

    def fit(some: slice = slice(None)) -> None:
        scores, labels, groups, sites = (
            columns[name][some] for name in ("scores", "labels", "sensitive_features", "sites")
        )
        logofair.fit(scores, labels, sensitive_features=groups, sites=sites, **_CALLS[call])

    runs = 5 if rows <= 1_000_000 else 1
    fit(slice(None) if runs > 1 else slice(_PIECE))  # loads what it needs
    memory = peak_of(fit, sum(column.nbytes for column in columns.values()))
    seconds = best(fit, runs) if runs > 1 or memory is None else memory["seconds"]
    sort = best(lambda: np.sort(columns["scores"]), runs)
    return {
        "rows": rows,
        "seconds": seconds,
        "sort_seconds": sort,
        **({} if memory is None else {"peak_gb": memory["gb"]}),
    }


def measured(sizes: Sequence[int], call: str) -> Iterator[dict[str, float] | None]:
    """Each size in a process of its own; None where it does not fit into memory or failed."""
    for rows in sizes:
        code = f"import json; from benchmarks.scaling import one; print(json.dumps(one({rows}, {call!r})))"
        if rows * _BYTES_A_ROW > available():
            yield None
            continue
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
        yield json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else None


def drawn(lines: dict[str, list[dict[str, float]]]) -> str:
    """The figure as SVG: seconds against rows, both logarithmic, with what grows in proportion to the rows.

    Examples
    --------
    >>> drawn({"default call": [{"rows": 1e4, "seconds": 0.1}, {"rows": 1e5, "seconds": 1.0}]}).count("<polyline")
    2
    """
    points = [point for line in lines.values() for point in line]
    low, high = (f(math.log10(p["rows"]) for p in points) for f in (min, max))
    cheap = math.floor(min(math.log10(p["seconds"]) for p in points))
    dear = math.ceil(max(math.log10(p["seconds"]) for p in points))

    def place(rows: float, seconds: float) -> tuple[float, float]:
        right = (math.log10(rows) - low) / max(high - low, 1e-9)
        up = (math.log10(seconds) - cheap) / max(dear - cheap, 1)
        return _LEFT + right * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _BOTTOM - _TOP)

    parts = list(_axes(range(math.ceil(low), math.floor(high) + 1), range(cheap, dear + 1), place))
    for number, (name, line) in enumerate(lines.items()):
        path = " ".join("{:.1f},{:.1f}".format(*place(p["rows"], p["seconds"])) for p in line)
        dashes = "" if number == 0 else f' stroke-dasharray="{3 * number + 2} 3"'
        parts.append(f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="1.8"{dashes}/>')
        x, y = place(line[-1]["rows"], line[-1]["seconds"])
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 4:.1f}">{name}</text>')
    steepest = next(iter(lines.values()))[-1]
    first = steepest["seconds"] * 10**low / steepest["rows"]
    ends = [place(10**low, max(first, 10.0**cheap)), place(steepest["rows"], steepest["seconds"])]
    if first < 10.0**cheap:
        ends[0] = place(steepest["rows"] * 10.0**cheap / steepest["seconds"], 10.0**cheap)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    parts.append(
        f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="0.8" stroke-opacity="0.5"/>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" fill="currentColor"'
    title = (
        "<title>Seconds of logofair.fit against rows, both logarithmic; the thin line is in proportion to rows</title>"
    )
    return "\n".join([f'{head} font-family="sans-serif" font-size="12" role="img">', title, *parts, "</svg>", ""])


def _axes(rows: range, seconds: range, place: Any) -> Iterator[str]:
    """Lines and numbers at every power of ten."""
    for power in rows:
        x, bottom = place(10.0**power, 10.0 ** seconds[0])
        _, top = place(10.0**power, 10.0 ** seconds[-1])
        yield f'<path d="M{x:.1f} {bottom:.1f}V{top:.1f}" stroke="currentColor" stroke-opacity="0.15"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{10**power:,}</text>'
    for power in seconds:
        x, y = place(10.0 ** rows[0], 10.0**power)
        end, _ = place(10.0 ** rows[-1], 10.0**power)
        yield f'<path d="M{x:.1f} {y:.1f}H{end:.1f}" stroke="currentColor" stroke-opacity="0.15"/>'
        yield f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>'
    yield f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">rows</text>'


@click.command(
    epilog=examples(
        "python -m benchmarks.scaling --out docs/images/cost.svg",
        "python -m benchmarks.scaling --most 1000000 --out cost.svg",
    )
)
@click.option("--most", type=int, default=100_000_000, show_default=True, help="Rows of the largest fit.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to write the figure (SVG).")
def main(most: int, out: Path) -> None:
    """Draw how the time of a fit grows with the rows, 1,000 sites and two groups.

    Prints a line of JSON for each size: seconds, peak memory, and numpy's sort of
    the same scores beside them. A size that memory has no room for is left out.
    """
    sizes = [10**power * step for power in range(4, 9) for step in (1, 3) if 10**power * step <= most]
    lines: dict[str, list[dict[str, float]]] = {}
    with showing_progress() as progress:
        for call in _CALLS:
            for found, rows in zip(progress(measured(sizes, call), f"Fits, {call}", len(sizes)), sizes, strict=True):
                click.echo(json.dumps({"call": call} | (found or {"rows": rows, "left out": True})))
                if found is not None:
                    lines.setdefault(call, []).append(found)
    out.write_text(drawn(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
