"""What a run says at a glance: a few sentences, the figures first asked for, and all verdicts as one matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from logofair_reproduction.datasets.catalogue import CATALOGUE
from logofair_reproduction.experiments.claims import OURS, PAPER, Verdict, one_run, rounds_needed
from logofair_reproduction.experiments.experiment import METHODS
from logofair_reproduction.experiments.summaries import Line, difference

__all__ = ["LEGEND", "SIGNS", "SOURCES", "Matrix", "MatrixRow", "headline", "matrix", "sentences", "subject"]

SIGNS = {"confirmed": "✓", "not confirmed": "✗", "not testable": "○"}
LEGEND = (
    f"{SIGNS['confirmed']} confirmed, {SIGNS['not confirmed']} not confirmed, {SIGNS['not testable']} not testable: "
    "chance alone could decide; empty: not claimed there, or not run"
)
SOURCES = {PAPER: "The paper's claims", OURS: "Our claims, beyond the paper"}
_EXACT, _PUBLISHED = "logofair_lg", "algorithm1_lg"


@dataclass(frozen=True)
class MatrixRow:
    """A claim, and what became of it by column; a column without results for it is not in ``verdicts``."""

    source: str
    short: str
    claim: str
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True)
class Matrix:
    """Claims by places: columns are data sets and notions in short, such as ``Adult DP``."""

    columns: tuple[str, ...]
    rows: tuple[MatrixRow, ...]

    def of(self, source: str) -> list[MatrixRow]:
        """The rows of those who make the claims."""
        return [row for row in self.rows if row.source == source]


def matrix(verdicts: Sequence[Verdict]) -> Matrix:
    """Set every verdict that has results in the row of its claim and the column of its place.

    Examples
    --------
    >>> made = Verdict("Ours is fairer.", "paper", "confirmed", "2 of 2.", ("a",), "Adult", "Fairer", ("Adult DP",))
    >>> found = matrix([made])
    >>> found.columns, found.rows[0].short, found.rows[0].verdicts["Adult DP"].verdict
    (('Adult DP',), 'Fairer', 'confirmed')
    """
    rows: dict[str, MatrixRow] = {}
    for verdict in verdicts:
        if verdict.columns:
            row = rows.get(verdict.claim) or MatrixRow(verdict.source, verdict.short, verdict.claim, {})
            own = {**row.verdicts, **dict.fromkeys(verdict.columns, verdict)}
            rows[verdict.claim] = MatrixRow(row.source, row.short, row.claim, own)
    names = list(dict.fromkeys(column for row in rows.values() for column in row.verdicts))
    first = {part: number for number, name in reversed(list(enumerate(names))) for part in name.split()}
    order = sorted(names, key=lambda name: [first[part] for part in name.split()])
    return Matrix(tuple(order), tuple(rows.values()))


def sentences(lines: Sequence[Line], verdicts: Sequence[Verdict]) -> Iterator[tuple[str, str]]:
    """Say in a few sentences, each with a title, what became of the claims, what is reached, and what is beyond."""
    for source, title in SOURCES.items():
        if counts := "; ".join(_by_data([verdict for verdict in verdicts if verdict.source == source])):
            yield title, f"{counts[0].upper()}{counts[1:]}."
    shown = [line for line in headline(lines) if line.place["method"] == _EXACT]
    if shown:
        yield "What is reached", _reached(shown)
    beyond = [*_same_gaps(lines), *_rounds(lines)]
    if beyond:
        yield "What is beyond the paper", " ".join(beyond)


def _by_data(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """How many claims are confirmed, are not, and are not testable, for each data set that has results."""
    tested = [verdict for verdict in verdicts if verdict.columns]
    for data in dict.fromkeys(verdict.columns[0].split()[0] for verdict in tested):
        number = Counter(verdict.verdict for verdict in tested if verdict.columns[0].split()[0] == data)
        yield f"on {data}: " + ", ".join(f"{number[kind]} {kind}" for kind in SIGNS if number[kind])


def headline(lines: Sequence[Line]) -> list[Line]:
    """LoGoFair_l&g in the first comparison of a run: the exact solver's lines, then Algorithm 1's, by alpha."""
    found = [
        line
        for line in lines
        if line.place["experiment"].startswith("comparison_") and line.place["method"] in (_EXACT, _PUBLISHED)
    ]
    first = min(found, key=lambda line: line.place["experiment"], default=None)
    own = [line for line in found if first is not None and _place(line) == _place(first)]
    return sorted(one_run(own), key=lambda line: (line.place["method"] != _EXACT, line.place["alpha"]))


def _place(line: Line) -> tuple[str, str]:
    return line.place["experiment"], line.place["data"]


def subject(line: Line) -> str:
    """A line's data set and notion in words."""
    return f"{CATALOGUE[line.place['data']].title}, {line.place['notion'].replace('_', ' ')}"


def _reached(lines: Sequence[Line]) -> str:
    """Where the means are as good as the paper's, and where chance explains the local gap."""

    def number(holds: Callable[[Line], bool]) -> str:
        return f"{sum(map(holds, lines))} of {len(lines)}"

    said = (
        f"{lines[0].title}, solved exactly, on {subject(lines[0])}: mean accuracy at least the paper's at "
        f"{number(lambda line: _mean(line, 'accuracy') >= _of_paper(line, 'accuracy'))} degrees of heterogeneity "
        f"(alpha), global gap at most the paper's at "
        f"{number(lambda line: _mean(line, 'global_gap') <= _of_paper(line, 'global_gap'))}, local gap at most the "
        f"paper's at {number(lambda line: _mean(line, 'local_gap') <= _of_paper(line, 'local_gap'))}"
    )
    chance = number(lambda line: _mean(line, "local_gap") <= _mean(line, "floor_at_tolerance"))
    return f"{said}, and no larger than chance alone shows where the true gap is the tolerance at {chance}."


def _mean(line: Line, figure: str) -> float:
    """A mean; one that is undefined is as good as nothing."""
    found = line.figure(figure)
    return float("nan") if found is None else found.mean


def _of_paper(line: Line, figure: str) -> float:
    return (line.claimed or {}).get(figure, float("nan"))


def _same_gaps(lines: Sequence[Line]) -> Iterator[str]:
    """How much more accurate the first data set's results are than baselines at the baselines' own gaps."""
    shown = headline(lines)
    place = _place(shown[0]) if shown else None
    own = one_run([line for line in lines if _place(line) == place])
    differences: dict[str, list[float]] = {}
    for line in own:
        like = METHODS[line.place["method"]].like
        alike = (each for each in own if each.place["alpha"] == line.place["alpha"])
        other = next((each for each in alike if each.place["method"] == f"{like}_half"), None)
        found = difference(line, other, "accuracy") if other else None
        if found is not None:
            differences.setdefault(METHODS[like].title, []).append(found.mean)
    if differences:
        parts = [f"{name} {_range(values)}" for name, values in differences.items()]
        yield (
            f"On {subject(shown[0])}, with tolerances as large as a baseline's own gaps, accuracy less that of the "
            f"baseline trained on as many rows, over the alphas: {', '.join(parts)}."
        )


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):+.4f}", f"{max(values):+.4f}"
    return low if low == high else f"{low} to {high}"


def _rounds(lines: Sequence[Line]) -> Iterator[str]:
    """The rounds of the exact protocol beside Algorithm 1's, of the first data set."""
    for name in dict.fromkeys(line.place["experiment"] for line in lines):
        part = [line for line in lines if line.place["experiment"] == name and line.place["method"] == "protocol"]
        if part:
            data = part[0].place["data"]
            own = [line for line in lines if _place(line) == (name, data)]
            found = rounds_needed(one_run(own))
            if found is not None:
                beside = f"; {found.comparison}" if found.most is not None else ""
                yield f"On {subject(part[0])}, the exact protocol ends after {found.protocol.mean:.1f} rounds{beside}."
                return
