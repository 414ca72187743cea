"""Lines as tables: every figure with its interval and the paper's beside it, for a terminal, Markdown and LaTeX.

A table of results has one row for every line; where two methods were measured on the same splits, a second table has
their differences, split by split.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import Any

from logofair_reproduction.datasets.catalogue import CATALOGUE
from logofair_reproduction.experiments.experiment import METHODS, Experiment, load_experiment
from logofair_reproduction.experiments.summaries import Line, Summary, difference

__all__ = ["Cell", "Table", "as_latex", "as_markdown", "as_text", "tables_of"]

_REFERENCE = "logofair_lg"  # the method that all others are compared with
_WIDTH = 100  # of a terminal
_COLUMNS = {
    "accuracy": "accuracy",
    "local_gap": "local gap",
    "local_gap_30": "on 30+ rows",
    "floor": "floor",
    "floor_at_tolerance": "at tol.",
    "global_gap": "global gap",
}
_BARE = ("floor", "floor_at_tolerance")  # shown without an interval
_COMPARED = {"accuracy": "accuracy", "local_gap_30": "local gap, 30+ rows", "global_gap": "global gap"}
# What a table is about; its rows differ in the rest.
_SUBJECT = ("experiment", "data", "sensitive", "limit", "scheme", "notion", "budget")


@dataclass(frozen=True)
class Cell:
    """A figure of a table: what was obtained, and what the paper claims; each with the letters of its notes.

    ``signed``: a difference, shown with its sign. ``bare``: without its interval.
    """

    obtained: Summary | None
    claimed: float | None = None
    note: str = ""
    claimed_note: str = ""
    signed: bool = False
    bare: bool = False

    def text(self, decimals: int = 4) -> str:
        """What was obtained: the mean and how far its 95 % interval reaches, or from 0 to where; a dash if undefined.

        Examples
        --------
        >>> Cell(Summary(0.8123, 0.8023, 0.8223, 5, 5)).text(3)
        '0.812 ±0.010'
        """
        found = self.obtained
        if found is None:
            return "-"
        mean = f"{found.mean:{'+' if self.signed else ''}.{decimals}f}"
        if self.bare or found.high is None:
            return mean + self.note
        reach = found.high - found.mean
        if found.low is not None and found.low > found.mean - reach and not math.isclose(found.low, found.mean - reach):
            return f"{mean} 0–{found.high:.{decimals}f}{self.note}"
        return f"{mean} ±{reach:.{decimals}f}{self.note}"

    @property
    def claimed_text(self) -> str:
        """The paper's figure, to its four decimals; empty without one."""
        return "" if self.claimed is None else f"{self.claimed:.4f}{self.claimed_note}"

    def __str__(self) -> str:
        claimed = self.claimed_text
        return f"{self.text()} (paper {claimed})" if claimed else self.text()


@dataclass(frozen=True)
class Table:
    """A table before it is rendered. A row of one cell is a heading over the rows that follow it.

    ``notes`` explain the letters behind figures, in their order: a, b, c.
    """

    title: str
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes as sentences, each behind its letter."""
        return tuple(f"{_letter(number)} {note}." for number, note in enumerate(self.notes))


_LETTERS = dict(zip("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))


def _letter(number: int) -> str:
    """The letter of a note, two where the alphabet does not suffice."""
    before, last = divmod(number, len(_LETTERS))
    return (_letter(before - 1) if before else "") + list(_LETTERS.values())[last]


@dataclass
class _Notes:
    """Collects what must be said of single figures; the same note has one letter."""

    found: list[str] = field(default_factory=list)

    def letter(self, note: str) -> str:
        if not note:
            return ""
        if note not in self.found:
            self.found.append(note)
        return _letter(self.found.index(note))


def tables_of(lines: Sequence[Line]) -> list[Table]:
    """Make the tables of some lines: one for every experiment and data set, and one of differences where it has any.

    Examples
    --------
    >>> from logofair_reproduction.experiments.summaries import lines
    >>> place = {"experiment": "comparison_dp", "data": "adult", "alpha": 0.5, "clients": 5, "budget": 1}
    >>> figures = {"accuracy": 0.8500, "local_gap": 0.2, "global_gap": 0.18}
    >>> record = place | {"method": "fedavg", "notion": "demographic_parity", "random_state": 0, "figures": figures}
    >>> (table,) = tables_of(lines([record]))
    >>> table.title
    'Comparison, demographic parity: Adult (UCI)'
    >>> str(table.rows[1][1])
    '0.8500 (paper 0.8381)'
    """
    subjects: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        subjects.setdefault(tuple(line.place[name] for name in _SUBJECT), []).append(line)
    made = ([_results(part), _differences(part)] for part in subjects.values())
    return [table for pair in made for table in pair if table is not None]


def _results(lines: Sequence[Line]) -> Table:
    plan, notes = load_experiment(lines[0].place["experiment"])[0], _Notes()
    heading, label, first = _layout(plan)
    rows: list[tuple[Cell | str, ...]] = []
    for over, part in groupby(sorted(lines, key=_order(plan)), heading):
        rows.append((over,))
        rows += [(label(line), *_figures(line, notes), str(_seeds(line))) for line in part]
    head = (first, *_COLUMNS.values(), "seeds")
    return Table(f"{plan.title}: {_data_title(lines[0])}", _caption(plan, lines), head, tuple(rows), tuple(notes.found))


def _data_title(line: Line) -> str:
    place = line.place
    size = f", {place['limit']:,} rows of it" if place["limit"] else ""
    groups = f", groups by {place['sensitive']}" if place["sensitive"] else ""
    return CATALOGUE[place["data"]].title + size + groups


def _caption(plan: Experiment, lines: Sequence[Line]) -> str:
    """What the figures are; the experiment's own sentence first."""
    budget = lines[0].place["budget"]
    tried = f"{budget} settings of each training method" if budget > 1 else "one setting of each training method"
    published = [line.place for line in lines if METHODS[line.place["method"]].solver == "algorithm1"]
    if published:
        tried += f", {published[0]['solver_budget'] or 'all'} of Algorithm 1's"
    return (
        f"{plan.about} Means over seeds with 95 % intervals (a gap's is nowhere below 0), on test rows; {tried} tried. "
        "Local gap: the largest of any client; on 30+ rows: between rates on 30 rows or more. Floor: the largest local "
        "gap that a rule without any would show on these rows by chance; at tol.: one whose true gap is the tolerance."
        + "".join(f" {sentence}" for sentence in _remarks(lines))
    )


def _remarks(lines: Sequence[Line]) -> Iterator[str]:
    """What must be said of some methods, where a table has them."""
    kinds = {line.title: METHODS[line.place["method"]].kind for line in lines}
    if {*kinds.values()} - {"trained", "bound"}:
        yield "Rules that toss coins are measured by their chances."
    if bounds := [title for title, kind in kinds.items() if kind == "bound"]:
        yield f"Bounds are not methods; they are found with the test rows' labels: {'; '.join(bounds)}."
    if any(line.claimed for line in lines):
        yield "'Paper': the figure that the paper claims."


Layout = tuple[Callable[[Line], str], Callable[[Line], str], str]


def _layout(plan: Experiment) -> Layout:
    """What stands over some rows, what at the start of each, and the title of that column."""
    if plan.shows == "curve":
        return _method, lambda line: _point(plan.along, line), _axis(plan)
    if len(plan.tolerances) > 1:
        return _method, _tolerances, "local, global tolerance"
    return _dealing, _method, "method"


def _method(line: Line) -> str:
    return line.title


def _axis(plan: Experiment) -> str:
    return {"level": "epsilon" if plan.name.startswith("privacy") else "rounds"}.get(plan.along, plan.along)


def _point(along: str, line: Line) -> str:
    """Where on a curve a line is; the protocol's rounds are measured, not set."""
    if along == "level" and (took := line.figure("rounds")) is not None:
        return f"{took.mean:.1f}, then it ends"
    value = line.place[along]
    return "-" if value is None else f"{value:g}"


def _tolerances(line: Line) -> str:
    sides = (line.place["local_tolerance"], line.place["global_tolerance"])
    return ", ".join("none" if side is None else f"{side:.2f}" for side in sides)


def _dealing(line: Line) -> str:
    return "natural clients" if line.place["alpha"] is None else f"alpha {line.place['alpha']:g}"


def _order(plan: Experiment) -> Callable[[Line], tuple[Any, ...]]:
    """Rows in the order of tables: by heading first; methods as they are listed, with the bounds last."""
    methods = list(METHODS)

    def numbers(line: Line, *names: str) -> tuple[float, ...]:
        return tuple(-1.0 if line.place[name] is None else float(line.place[name]) for name in names)

    def key(line: Line) -> tuple[Any, ...]:
        dealt, method = numbers(line, "alpha", "clients"), (methods.index(line.place["method"]),)
        sized = numbers(line, "global_tolerance", "local_tolerance", "level")
        return (dealt, method, sized) if _layout(plan)[0] is _dealing else (method, dealt, sized)

    return key


def _seeds(line: Line) -> int:
    return max((len(values) for values in line.values.values()), default=0)


def _figures(line: Line, notes: _Notes) -> Iterator[Cell]:
    """The figures of a line, with a note where one is defined in few seeds, or the paper's is no target."""
    claimed, doubtful = line.claimed or {}, line.doubtful
    for name in _COLUMNS:
        found = line.figure(name)
        why = f"no target: the paper's figure {doubtful[name]}" if name in doubtful else ""
        yield Cell(
            found,
            claimed.get(name),
            notes.letter(found.undefined if found else ""),
            notes.letter(why),
            bare=name in _BARE,
        )


def _differences(lines: Sequence[Line]) -> Table | None:
    """LoGoFair_l&g less every other method on the same splits; None where there is nothing to compare."""
    plan = load_experiment(lines[0].place["experiment"])[0]
    if _layout(plan)[0] is not _dealing:
        return None
    rows: list[tuple[Cell | str, ...]] = []
    notes = _Notes()
    for over, part in groupby(sorted(lines, key=_order(plan)), _dealing):
        found = [(label, *_compared(one, other, notes)) for label, one, other in _pairs(list(part))]
        rows += [(over,), *found] if found else []
    if not rows:
        return None
    head = ("less", *(title for each in _COMPARED.values() for title in (each, "p")), "seeds")
    caption = (
        f"{METHODS[_REFERENCE].title} less each other method, split by split: above 0 is better for accuracy, below 0 "
        "for gaps. 'At its own gaps': with tolerances as large as the other method's gaps on the calibration rows, so "
        "that accuracy decides; 'on half the rows': trained on as many as the model that LoGoFair post-processes. 95 % "
        "intervals and p of paired t tests, enlarged because splits overlap (Nadeau and Bengio, 2003), not corrected "
        "for their number."
    )
    title = f"Compared on the same splits. {plan.title}: {_data_title(lines[0])}"
    return Table(title, caption, head, tuple(rows), tuple(notes.found))


def _pairs(lines: Sequence[Line]) -> Iterator[tuple[str, Line, Line]]:
    """What is compared with what at one degree of heterogeneity, each with its label."""
    named: Mapping[str, Line] = {line.place["method"]: line for line in lines}
    for name, line in named.items():
        plan = METHODS[name]
        if plan.kind == "bound":
            continue
        if plan.like:
            for other in (plan.like, f"{plan.like}_half"):
                if other in named:
                    yield f"{named[other].title}, at its own gaps", line, named[other]
        elif name != _REFERENCE and _REFERENCE in named:
            yield line.title, named[_REFERENCE], line


def _compared(line: Line, other: Line, notes: _Notes) -> Iterator[Cell | str]:
    """Differences with their p; how many splits both have."""
    common = 0
    for name in _COMPARED:
        found = difference(line, other, name)
        common = max(common, found.of if found else 0)
        yield Cell(found, note=notes.letter(found.undefined if found else ""), signed=True)
        yield _p_text(found)
    yield str(common)


def _p_text(found: Summary | None) -> str:
    if found is None or found.p is None:
        return "-"
    return "<0.001" if found.p < 0.001 else f"{found.p:.3f}"


def as_text(table: Table) -> str:
    """Render a table for a terminal of 100 columns; the paper's figures stand below those obtained.

    Examples
    --------
    >>> cell = Cell(Summary(0.8123, 0.8023, 0.8223, 5, 5), 0.8214)
    >>> print(as_text(Table("Adult", "", ("method", "accuracy"), (("alpha 5",), ("LoGoFair_l&g", cell)))))
    Adult
    <BLANKLINE>
    method            accuracy
    --------------------------
    alpha 5
    LoGoFair_l&g  0.812 ±0.010
      paper             0.8214
    """
    over = [textwrap.wrap(title, 12) for title in table.head[1:]]
    full = [row for row in table.rows if len(row) > 1]
    widths = [
        max(map(len, [*title, *(text for row in full for text in (_plain(row[place]), _claimed(row[place])))]))
        for place, title in enumerate(over, 1)
    ]
    taken = sum(width + 2 for width in widths)
    first = min(_WIDTH - taken, max(len(str(row[0])) for row in full))
    titles = [textwrap.wrap(table.head[0], first), *over]
    printed = [_line(part, [first, *widths]) for part in _from_below(titles)]
    printed.append("-" * (first + taken))
    for place, row in enumerate(table.rows):
        printed += [""] if place and len(row) == 1 else []
        printed += _printed(row, first, widths)
    notes = [line for note in table.remarks for line in textwrap.wrap(note, _WIDTH, subsequent_indent="   ")]
    about = textwrap.wrap(table.caption, _WIDTH)
    return "\n".join([*textwrap.wrap(table.title, _WIDTH), *about, "", *printed, *notes])


def _from_below(columns: Sequence[list[str]]) -> Iterator[tuple[str, ...]]:
    """Titles of several lines, ending on the same one."""
    lines = list(zip_longest(*(list(reversed(column)) for column in columns), fillvalue=""))
    return iter(lines[::-1])


def _printed(row: Sequence[Cell | str], first: int, widths: list[int]) -> list[str]:
    """One row's lines: its name, broken where it is long, its figures, and the paper's below them."""
    if len(row) == 1:
        return [str(row[0])]
    name, *more = textwrap.wrap(str(row[0]), first, subsequent_indent="  ") or [""]
    lines = [_line([name, *map(_plain, row[1:])], [first, *widths]), *more]
    claimed = [_claimed(cell) for cell in row[1:]]
    return [*lines, _line(["  paper", *claimed], [first, *widths])] if any(claimed) else lines


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    shown = [cells[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(cells[1:], widths[1:], strict=True))]
    return "  ".join(shown).rstrip()


def _plain(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.text(3)


def _claimed(cell: Cell | str) -> str:
    return "" if isinstance(cell, str) else cell.claimed_text


def as_markdown(table: Table) -> str:
    """Render a table as Markdown; the paper's figures stand behind those obtained.

    Examples
    --------
    >>> cell = Cell(Summary(0.8123, 0.8023, 0.8223, 5, 5), 0.8214)
    >>> print(as_markdown(Table("Adult", "All rows.", ("method", "accuracy"), (("LoGoFair_l&g", cell),))))
    ### Adult
    <BLANKLINE>
    All rows.
    <BLANKLINE>
    | method | accuracy |
    |---|---:|
    | LoGoFair_l&g | 0.8123 ±0.0100 (paper 0.8214) |
    """
    rows = [
        [f"**{_markdown(row[0])}**", *[""] * (len(table.head) - 1)] if len(row) == 1 else [_markdown(c) for c in row]
        for row in table.rows
    ]
    ruled = "|".join(["---", *["---:"] * (len(table.head) - 1)])
    lines = [f"| {' | '.join(cells)} |" for cells in [[_markdown(title) for title in table.head], *rows]]
    notes = ["", *(f"{_markdown(note)}  " for note in table.remarks)] if table.notes else []
    about = [_markdown(table.caption), ""] if table.caption else []
    return "\n".join([f"### {_markdown(table.title)}", "", *about, lines[0], f"|{ruled}|", *lines[1:], *notes])


def _markdown(cell: Cell | str) -> str:
    return re.sub(r"([|*<>\\])", r"\\\1", str(cell))


def as_latex(table: Table) -> str:
    r"""Render a table as LaTeX; needs the package booktabs. The paper's figures stand below those obtained.

    Examples
    --------
    >>> cell = Cell(Summary(0.8123, 0.8023, 0.8223, 5, 5), 0.8214)
    >>> print(as_latex(Table("Adult", "All rows.", ("method", "accuracy"), (("LoGoFair_l&g", cell),))))
    \begin{table}
    \caption{Adult. All rows.}
    \small
    \begin{tabular}{lr}
    \toprule
    method & accuracy \\
    \midrule
    LoGoFair\_l\&g & 0.8123 $\pm$0.0100 \\
    \quad paper & 0.8214 \\
    \bottomrule
    \end{tabular}
    \end{table}
    """
    lines = [line for row in table.rows for line in _latex_rows(row, len(table.head))]
    notes = [rf"\par{{\footnotesize {_latex(note)}}}" for note in table.remarks]
    about = f"{table.title}. {table.caption}".strip()
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_latex(about)}}}",
            r"\small",
            rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
            r"\toprule",
            rf"{' & '.join(_latex(title) for title in table.head)} \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
        ]
    )


def _latex_rows(row: Sequence[Cell | str], columns: int) -> list[str]:
    """A heading with some room above it; or the figures, and the paper's below them."""
    if len(row) == 1:
        return [r"\addlinespace", rf"\multicolumn{{{columns}}}{{l}}{{\textit{{{_latex(str(row[0]))}}}}} \\"]
    obtained = [_latex(cell if isinstance(cell, str) else cell.text()) for cell in row]
    claimed = [_latex(_claimed(cell)) for cell in row[1:]]
    rows = [obtained, [r"\quad paper", *claimed]] if any(claimed) else [obtained]
    return [rf"{' & '.join(cells)} \\" for cells in rows]


_LATEX = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    **{raised: rf"\textsuperscript{{{letter}}}" for letter, raised in _LETTERS.items()},
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)
