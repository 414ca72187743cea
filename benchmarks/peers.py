"""``python -m benchmarks.peers``: other libraries beside ours on the same rows: fair thresholds, and calibration alone.

One site and two groups, which is what all of them know. Every library runs in a process of its own; one that takes
more than two minutes for a fit, or more memory than there is, is given a tenth of the rows, and ours is shown at these
too. Rules are judged on the rows they were fitted to, by labels and in expectation over coins.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.text import Text

from benchmarks.frontiers import PEERS, Frontier, GivenScores, Rows, Rule, accuracy, gap, ours
from benchmarks.measurements import Size, best, drawn_labels, federation, lined, sort_seconds
from benchmarks.memory import available
from logofair.calibration import cross_fit, fit_calibrator
from logofair.cli.console import showing_progress
from logofair.cli.options import examples
from logofair.columns.checks import Floats
from logofair.columns.labels import Codes
from logofair.columns.rows import Rows as Columns
from logofair.progress import Progress

TOLERANCE = 0.02
_MOST_SECONDS = 120.0
_PARTS = (1, 10, 100)  # of the rows, tried one after the other


@dataclass(frozen=True)
class Contender:
    """A library's fit: of which module, what it does, and the work, which gives a rule or a map to be asked."""

    module: str
    does: str
    fit: Callable[[Rows], Rule]

    @property
    def is_ours(self) -> bool:
        """Whether it is this library's."""
        return self.module == "logofair"


def _rule(ask: Frontier, notion: str, rows: Rows) -> Rule:
    return ask(rows, notion, [TOLERANCE])[0]


def _thresholds(notion: str) -> dict[str, Contender]:
    """Fits of fair thresholds."""
    does = {
        "Fairlearn": "`ThresholdOptimizer`, a grid of 1,000 rates",
        "error-parity": "`RelaxedThresholdOptimizer`, a convex program on the ROC curves",
        "OxonFair": "`FairPredictor.fit`, a grid of thresholds without coins",
    }
    if notion == "equalized_odds":
        does["Fairlearn"] += ", no tolerance: mixed with score >= 1/2"
    mine: dict[str, tuple[str, dict[str, Any]]] = {
        "ours, on labels": ("the optimum on these labels, certified", {"calibration": "none", "basis": "labels"}),
        "ours, calibration none": ("the optimum if scores are chances, certified", {"calibration": "none"}),
        "ours, default call": ("the same after beta calibration out of fold", {}),
    }
    found = {name: Contender(module, does[name], partial(_rule, ask, notion)) for name, (module, ask) in PEERS.items()}
    return found | {
        name: Contender("logofair", words, partial(_rule, ours(**given), notion))
        for name, (words, given) in mine.items()
    }


def _by_sklearn(method: str, rows: Rows) -> Rule:
    """CalibratedClassifierCV of a model that is fitted already."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    fitted = CalibratedClassifierCV(FrozenEstimator(GivenScores()), method=method)
    fitted.fit(rows.scores[:, None], rows.labels)
    return lambda others: np.asarray(fitted.predict_proba(others.scores[:, None])[:, 1])


def _sample(rows: Rows, groups: int) -> Columns:
    group, site = (rows.groups if groups > 1 else np.zeros_like(rows.groups)), np.zeros_like(rows.groups)
    labels, codes = rows.labels.astype(np.int8), Codes(tuple(range(groups)), group.astype(np.int32))
    return Columns(rows.scores, labels, codes, Codes((0,), site.astype(np.int32)), None)


def _one_map(method: str, rows: Rows) -> Rule:
    """Our map of all rows together."""
    fitted = fit_calibrator(_sample(rows, 1), method)

    def chances(others: Rows) -> Floats:
        sample = _sample(others, 1)
        return fitted(others.scores, sample.groups.codes, sample.sites.codes)

    return chances


def _out_of_fold(method: str, rows: Rows) -> Rule:
    """What the default call does: a map for each group, and the chance of every row by a map that has not seen it."""
    fitted = cross_fit(_sample(rows, 2), method, rng=np.random.default_rng(0))
    return lambda others: fitted.eta


def _calibrations() -> dict[str, Contender]:
    """Calibration alone."""
    found = {
        f"scikit-learn, {method}": Contender(
            "sklearn", "`CalibratedClassifierCV`, frozen: one map of all rows", partial(_by_sklearn, method)
        )
        for method in ("sigmoid", "isotonic")
    }
    for method in ("beta", "isotonic"):
        found[f"ours, {method}"] = Contender("logofair", "one map of all rows", partial(_one_map, method))
        words = "a map for each group, and five that leave out a fold"
        found[f"ours, {method}, as in a fit"] = Contender("logofair", words, partial(_out_of_fold, method))
    return found


def _judged_rule(notion: str, chances: Floats, rows: Rows) -> dict[str, float]:
    return {"accuracy": accuracy(chances, rows), "gap": gap(chances, rows, notion)}


def _judged_map(chances: Floats, rows: Rows) -> dict[str, float]:
    right = np.where(rows.labels == 1, chances, 1.0 - chances)
    return {"log-loss": float(-np.log(np.maximum(right, 1e-12)).mean())}


@dataclass(frozen=True)
class Case:
    """Contenders for one kind of work, and how what they make is judged."""

    contenders: dict[str, Contender]
    judged: Callable[[Floats, Rows], dict[str, float]]


CASES: dict[str, Case] = {
    f"{notion.replace('_', ' ')} to {TOLERANCE:g}": Case(_thresholds(notion), partial(_judged_rule, notion))
    for notion in ("demographic_parity", "equalized_odds")
}
CASES["calibration alone"] = Case(_calibrations(), _judged_map)


def made(rows: int) -> Rows:
    """Rows of one site and two groups."""
    scores, groups, _ = federation(Size(1, rows))
    return Rows(scores, drawn_labels(scores).astype(np.int64), groups)


def one(case: str, name: str, rows: int) -> dict[str, float]:
    """Seconds of one contender's fit, and how good it is; after a fit of few rows, which loads what it needs.

    Examples
    --------
    >>> sorted(one("calibration alone", "ours, beta", 500))
    ['log-loss', 'seconds']
    """
    contender = CASES[case].contenders[name]
    contender.fit(made(1_000))
    known = made(rows)
    begin = time.perf_counter()
    rule = contender.fit(known)
    seconds = time.perf_counter() - begin
    if seconds < 0.1 * _MOST_SECONDS:
        seconds = min(seconds, best(lambda: contender.fit(known), 2))
    return {"seconds": seconds, **CASES[case].judged(rule(known), known)}


def one_alone(case: str, name: str, rows: int) -> None:
    """Print the same as JSON, from a process that may not take more memory than there is."""
    limit = available()
    if limit != float("inf"):
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    print(json.dumps(one(case, name, rows)))


def measured(case: str, name: str, rows: int) -> dict[str, float] | None:
    """The same in a process of its own; None where it takes too long or too much."""
    code = f"from benchmarks.peers import one_alone; one_alone({case!r}, {name!r}, {rows})"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=1.5 * _MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode < 0 or (done.returncode and "MemoryError" in done.stderr):
        return None  # killed, or refused, for want of memory
    if done.returncode:
        raise RuntimeError(f"{name}, {case}, {rows:,} rows: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found if found["seconds"] <= _MOST_SECONDS else None


def beside(rows: int, progress: Progress) -> dict[str, list[dict[str, Any]]]:
    """Every case: its contenders with their rows, seconds, multiples of the sort and what they reached."""
    found: dict[str, list[dict[str, Any]]] = {}
    units: dict[int, float] = {}
    steps = [(case, name) for case in CASES for name in CASES[case].contenders]
    for case, name in progress(steps, "Beside other libraries", len(steps)):
        contender, lines = CASES[case].contenders[name], found.setdefault(case, [])
        if find_spec(contender.module) is None:
            lines.append({"name": name, "does": "not installed"})
            continue
        sizes = sorted({rows} | {line["rows"] for line in lines if "rows" in line}, reverse=True)
        for size in sizes if contender.is_ours else [rows // part for part in _PARTS]:
            answer = measured(case, name, size)
            if answer is not None:
                if size not in units:
                    units[size] = min(sort_seconds(made(size).scores, 3).values())
                about = {"rows": size, "multiple": answer["seconds"] / units[size], "does": contender.does}
                lines.append({"name": name, **about, **answer})
                if not contender.is_ours:
                    break
        else:
            if not contender.is_ours:
                lines.append({"name": name, "does": f"not in {_MOST_SECONDS:g} s on {rows // _PARTS[-1]:,} rows"})
    return found


def table(lines: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The lines of one case as text, under a head."""
    known = [name for name in ("accuracy", "gap", "log-loss") if any(name in line for line in lines)]
    found = [["", "rows", "seconds", "sorts", *known, "what it does"]]
    for line in lines:
        numbers = ["", "", ""]
        if "rows" in line:
            numbers = [f"{line['rows']:,}", f"{line['seconds']:.3g}", f"{line['multiple']:.3g}"]
        reached = [f"{line[name]:.5f}" if name in line else "" for name in known]
        found.append([line["name"], *numbers, *reached, line["does"]])
    return found


def show_peers(found: dict[str, list[dict[str, Any]]], console: Console) -> None:
    """Print the tables."""
    for case, lines in found.items():
        console.print(Text(f"beside other libraries, one site: {case}", style="bold"))
        console.print(lined(table(lines)))


def markdown(found: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """The same for a page."""
    for case, lines in found.items():
        head, *others = table(lines)
        yield f"\n{case}:\n"
        yield f"| {' | '.join(head)} |"
        yield "|" + "---|" * len(head)
        for cells in others:
            yield f"| {' | '.join(cells)} |"


@click.command(epilog=examples("python -m benchmarks.peers", "python -m benchmarks.peers --rows 100000"))
@click.option("--rows", default=1_000_000, show_default=True, help="How many rows every library is given.")
def main(rows: int) -> None:
    """Measure fits of fair thresholds and calibrations beside other libraries', as Markdown."""
    with showing_progress() as progress:
        found = beside(rows, progress)
    for name in ("scikit-learn", "fairlearn", "oxonfair", "error-parity"):
        with suppress(PackageNotFoundError):
            click.echo(f"{name} {version(name)}")
    for line in markdown(found):
        click.echo(line)


if __name__ == "__main__":
    main()
