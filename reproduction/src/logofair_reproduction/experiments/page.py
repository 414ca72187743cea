"""One page for a run of experiments: what it shows at a glance, claims, figures, tables, settings and commands."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from logofair.report.markup import Cell, Element, Node, Section, Trusted, folded, grid, note, paragraph, tag, text
from logofair.report.page import document, page_header
from logofair.report.wording import counted, figure, sentence, signed
from logofair_reproduction.datasets import CATALOGUE
from logofair_reproduction.experiments.drawing import in_page
from logofair_reproduction.experiments.experiment import METHODS, Experiment, load_experiment, trials
from logofair_reproduction.experiments.figures import Figure, by_experiment
from logofair_reproduction.experiments.glance import (
    LEGEND,
    SIGNS,
    SOURCES,
    Matrix,
    MatrixRow,
    headline,
    matrix,
    sentences,
    subject,
)
from logofair_reproduction.experiments.scores import ACCURACY_GIVEN, AIMS
from logofair_reproduction.experiments.summaries import Line, Summary

if TYPE_CHECKING:
    from logofair_reproduction.experiments import tables as tabulated
    from logofair_reproduction.experiments.claims import Verdict

__all__ = ["RunAbout", "page_html"]

_MARKS = {"confirmed": "met", "not confirmed": "missed", "not testable": "untested"}


@dataclass(frozen=True)
class RunAbout:
    """What a page says of the run it shows.

    Parameters
    ----------
    command : str
        What makes the same again, as it would be typed.
    made : str, optional
        On which days the results were measured, as it should be written.
    data : mapping, optional
        By a data set's name, what its rows are: how many, of which year, and what they are a sample of.
    versions : mapping, optional
        Versions by package, as the records have them.

    Examples
    --------
    >>> RunAbout("logofair reproduce all", data={"adult": "48,842 rows, all there are"}).data["adult"]
    '48,842 rows, all there are'
    """

    command: str
    made: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def page_html(
    lines: Sequence[Line],
    *,
    about: RunAbout,
    verdicts: Sequence[Verdict] = (),
    tables: Mapping[str, Sequence[tabulated.Table]] | None = None,
    figures: Mapping[str, Sequence[Figure]] | None = None,
) -> str:
    """Return the page of a run as one HTML document that needs nothing else.

    Parameters
    ----------
    lines : sequence of Line
        All lines of the run.
    about : RunAbout
        What was run, on which rows, when.
    verdicts : sequence of Verdict, optional
        What became of the claims.
    tables, figures : mapping, optional
        By an experiment's name, its tables and its figures; :func:`figures.by_experiment` parts
        the lines they are made from.

    Returns
    -------
    str

    Examples
    --------
    >>> page_html([], about=RunAbout("logofair reproduce all --quick"))[:15]
    '<!DOCTYPE html>'
    """
    parts = by_experiment(lines)
    drawn, style = _pictures(figures or {})
    plans = {name: load_experiment(name) for name in parts}
    sections = [
        _glance(lines, verdicts) if verdicts else None,
        _claimed(verdicts) if verdicts else None,
        *(
            _experiment(plans[name], part, drawn.get(name, ()), (tables or {}).get(name, ()))
            for name, part in parts.items()
        ),
        _settings(lines),
        _again(parts),
    ]
    header = page_header("Reproduction", "LoGoFair: claimed and obtained", _about(about, lines))
    return document(header, "LoGoFair: claimed and obtained", None, sections, style)


def _about(about: RunAbout, lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(line.place["data"] for line in lines):
        known = CATALOGUE[name]
        yield "Data", f"{known.title}: {known.summary} {sentence(about.data.get(name, 'rows not counted'))}"
    runs = sorted({found.of for line in lines if (found := line.figure("accuracy"))})
    if runs:
        many = f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else f"{runs[0]}"
        yield "Seeds", f"{many} for each figure; each deals the rows to clients and parts anew"
    if about.made:
        yield "Measured", about.made
    if about.versions:
        yield "Versions", ", ".join(f"{name} {version}" for name, version in about.versions.items())
    yield "Command", about.command


# At a glance


def _glance(lines: Sequence[Line], verdicts: Sequence[Verdict]) -> Section:
    said = [tag("div", tag("dt", title), tag("dd", words)) for title, words in sentences(lines, verdicts)]
    found = matrix(verdicts)
    body = (
        tag("dl", said, class_="said") if said else None,
        _matrix(found) if found.rows else paragraph("No claim has results in this run."),
        _headline(headline(lines)),
    )
    return Section("glance", "At a glance", body)


_HEADLINE = {
    "accuracy": "accuracy",
    "local_gap": "local gap",
    "floor_at_tolerance": "chance alone, at the tolerance",
    "global_gap": "global gap",
}


def _headline(lines: Sequence[Line]) -> Element | None:
    """LoGoFair_l&g's figures with the paper's below, for every alpha."""
    if not lines:
        return None
    rows: list[list[Cell]] = []
    for method, part in groupby(lines, lambda line: line.place["method"]):
        rows.append([Cell(("Solved exactly" if METHODS[method].solver == "exact" else "Algorithm 1, corrected",))])
        rows += [[_named(f"alpha {line.place['alpha']:g}"), *_short_figures(line)] for line in part]
    said = note(f"{subject(lines[0])}. Means on test rows with 95 % intervals; the paper's figures below them.")
    return tag("div", grid("LoGoFair_l&g and the paper.", ("Clients", *_HEADLINE.values()), rows, stacked=False), said)


def _short_figures(line: Line) -> Iterator[Cell]:
    from logofair_reproduction.experiments.tables import Cell as Figured

    for name in _HEADLINE:
        own = Figured(line.figure(name), bare=name == "floor_at_tolerance")
        claimed = None if name in line.doubtful else (line.claimed or {}).get(name)
        beside: list[Node] = [] if claimed is None else [" ", tag("small", f"paper {claimed:.4f}")]
        yield Cell((own.text(), *beside))


def _matrix(found: Matrix) -> Element:
    """Claims by places, one sign each, that lead to what a verdict rests on."""
    rows: list[list[Cell]] = []
    for source, title in SOURCES.items():
        own = found.of(source)
        rows += [[Cell((title,))], *(_matrix_row(row, found.columns) for row in own)] if own else []
    said = note(f"{LEGEND}. DP: demographic parity, EO: equalized odds. Every data set and notion is judged by itself.")
    table = grid("Verdicts by data set and notion.", ("Claim", *found.columns), rows, stacked=False, full=True)
    return tag("div", table, said, class_="matrix")


def _matrix_row(row: MatrixRow, columns: Sequence[str]) -> list[Cell]:
    link = f"#{_anchor(row.claim, row.short)}"
    cells = [Cell((tag("a", row.short, href=link),), heading=True, numeric=False)]
    for column in columns:
        verdict = row.verdicts.get(column)
        cells.append(Cell((), "none", numeric=False) if verdict is None else _sign(verdict.verdict, link))
    return cells


def _sign(verdict: str, link: str) -> Cell:
    sign = tag("span", SIGNS[verdict], aria_hidden="true")
    return Cell((tag("a", sign, tag("span", verdict, class_="unseen"), href=link),), _MARKS[verdict], numeric=False)


def _anchor(claim: str, short: str) -> str:
    """Where on the page a claim is."""
    return "claim-" + "-".join(re.findall(r"[a-z0-9]+", (short or claim).lower()))


# Claim by claim


def _claimed(verdicts: Sequence[Verdict]) -> Section:
    children = []
    for source, title in SOURCES.items():
        own = [verdict for verdict in verdicts if verdict.source == source]
        if own:
            children.append(Section(f"claims-{source}", title, (_tally(own), *_claims(own))))
    said = paragraph(
        "Confirmed: the figures of this run show it. Not confirmed: they show the contrary, for the reason given. Not "
        "testable: this run cannot tell. The end of a 95 % interval decides every comparison, in the paper's claims "
        "and in ours; one comparison alone refutes a claim only beyond what chance does among so many (Bonferroni)."
    )
    return Section("claims", "Claim by claim", (said,), tuple(children))


def _tally(verdicts: Sequence[Verdict]) -> Element:
    """How many of the verdicts are of each kind."""
    number = Counter(verdict.verdict for verdict in verdicts)
    marks = [(_badge(name, f"{number[name]} {name}"), " ") for name in _MARKS if number[name]]
    return paragraph(*(node for pair in marks for node in pair))


def _badge(verdict: str, words: str | None = None) -> Element:
    sign = tag("span", f"{SIGNS[verdict]} ", aria_hidden="true")
    return tag("span", sign, words or verdict, class_=f"badge {_MARKS[verdict]}")


def _claims(verdicts: Sequence[Verdict]) -> Iterator[Element]:
    """Each claim once, with what became of it where; those that nothing decides, or was run for, come last, folded."""
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.claim, []).append(verdict)
    tested = {claim: [each for each in own if each.figures] for claim, own in found.items()}
    undecided = [own for own in tested.values() if own and {each.verdict for each in own} == {"not testable"}]
    yield from (_claim(own) for own in tested.values() if own and own not in undecided)
    if undecided:
        yield folded(f"{counted(len(undecided), 'claim')} that this run leaves open", map(_claim, undecided))
    missing = [each for own in found.values() for each in own if not each.figures]
    if missing:
        items = [tag("li", tag("em", each.claim), " ", _where(each), each.reason) for each in missing]
        yield folded(f"{counted(len(missing), 'verdict')} without results in this run", tag("ul", items, class_="note"))


def _claim(own: Sequence[Verdict]) -> Element:
    kinds = [[verdict for verdict in own if verdict.verdict == kind] for kind in _MARKS]
    items = [_places(same) for same in kinds if same]
    reasons = [tag("li", _where(each), each.reason, _rests(each)) for same in kinds if len(same) > 1 for each in same]
    why = folded("Why", tag("ul", reasons, class_="reasons")) if reasons else None
    claim = own[0].claim
    anchor = _anchor(claim, own[0].short)
    return tag("div", tag("h4", claim), tag("ul", items, class_="kinds"), why, class_="claim", id=anchor)


def _places(same: Sequence[Verdict]) -> Element:
    """A verdict and where it holds; with its reason where there is one place."""
    if len(same) == 1:
        return tag("li", _badge(same[0].verdict), tag("div", _where(same[0]), same[0].reason, _rests(same[0])))
    where = ", ".join(dict.fromkeys(name for verdict in same for name in verdict.columns or (verdict.place,)))
    return tag("li", _badge(same[0].verdict), tag("div", where, class_="where"))


def _where(verdict: Verdict) -> Element | None:
    return tag("span", verdict.place + ". ", class_="where") if verdict.place else None


def _rests(verdict: Verdict) -> Element | None:
    """What a verdict rests on."""
    items = [tag("li", words) for words in verdict.figures]
    return folded(counted(len(items), "comparison"), tag("ol", items, class_="note")) if items else None


# One section for each experiment


def _experiment(
    plans: Sequence[Experiment],
    lines: Sequence[Line],
    figures: Sequence[Figure],
    tables: Sequence[tabulated.Table],
) -> Section:
    plan = plans[0]
    body: list[Node] = [paragraph(plan.about)]
    for number, drawn in enumerate(figures):
        body.append(_drawn(drawn) if number == 0 else folded(drawn.title, _drawn(drawn)))
    for table in tables:
        body.append(_table(table))
        body += [note(remark) for remark in table.remarks]
    return Section(plan.name, plan.title, tuple(body))


_DARK_BLUE = "#0072b2"  # too dark on a dark page


def _pictures(figures: Mapping[str, Sequence[Figure]]) -> tuple[dict[str, list[Figure]], str]:
    """The figures as they stand in this page, and the style that all of them have."""
    found = [(name, each) for name, own in figures.items() for each in own]
    shorter, style = in_page([each.svg.replace(_DARK_BLUE, "var(--plot-blue)") for _, each in found])
    drawn: dict[str, list[Figure]] = {}
    for (name, each), svg in zip(found, shorter, strict=True):
        drawn.setdefault(name, []).append(replace(each, svg=svg))
    return drawn, style


def _drawn(drawn: Figure) -> Element:
    """A figure in a frame that scrolls where the page is narrow."""
    plot = tag(
        "div",
        Trusted(drawn.svg),
        class_="plot",
        role="img",
        aria_label=drawn.title,
    )
    frame = tag("div", plot, class_="pan", tabindex="0", role="region", aria_label=drawn.title)
    return tag("figure", frame, tag("figcaption", tag("strong", f"{drawn.title}. "), drawn.caption))


def _table(table: tabulated.Table) -> Element:
    rows = [[_named(row[0]), *(_cell(cell) for cell in row[1:])] for row in table.rows]
    return grid(f"{table.title}. {table.caption}", table.head, rows, full=True)


def _named(first: tabulated.Cell | str) -> Cell:
    return Cell((str(first),), heading=True, numeric=False)


def _cell(cell: tabulated.Cell | str) -> Cell:
    """A figure with its interval below, and the paper's below that."""
    if isinstance(cell, str):
        return Cell((cell,), None if cell != "-" else "none")
    found = cell.obtained
    if found is None:
        return Cell(("–",), "none")
    shown = signed if cell.signed else figure
    content: list[Node] = [shown(found.mean) + cell.note]
    if not cell.bare:
        content += _interval(found, signed_=cell.signed)
    if cell.claimed is not None:
        content += [" ", tag("small", f"paper {cell.claimed_text}")]
    return Cell(tuple(content))


def _interval(found: Summary, *, signed_: bool) -> Iterable[Node]:
    shown = signed if signed_ else figure
    if found.low is not None and found.high is not None:
        yield from (" ", tag("small", f"{shown(found.low)} to {shown(found.high)}"))


# Settings


def _rule() -> str:
    """How settings are chosen, in words."""
    by_aim = {aim: [METHODS[name].title for name, own in AIMS.items() if own == aim] for aim in ("global", "local")}
    aims = "; ".join(f"for {' and '.join(names)} the {aim} gap" for aim, names in by_aim.items())
    return (
        "Settings are chosen on calibration rows, apart for every seed, degree of heterogeneity and notion; test rows "
        f"choose nothing. Of a method's settings that lose at most {ACCURACY_GIVEN:g} accuracy against its most "
        "accurate one, the one with the smallest gap of the kind it is made to lower is taken "
        f"({aims}); FedAvg's is the most accurate. Algorithm 1's is the one that exceeds its tolerances least, to the "
        "thousandth, and of those the most accurate."
    )


def _settings(lines: Sequence[Line]) -> Section | None:
    """Which setting was chosen how often, what the published one is, and what was tried."""
    chosen = _chosen(lines)
    if not chosen:
        return None
    children = []
    for data in dict.fromkeys(key[0] for key in chosen):
        own = {key[1:]: counts for key, counts in chosen.items() if key[0] == data}
        methods = dict.fromkeys(
            METHODS[key[1]].trains if METHODS[key[1]].kind == "trained" else "algorithm1" for key in own
        )
        listed = [_tried(data, method) for method in methods]
        children.append(Section(f"settings-{data}", CATALOGUE[data].title, (_chosen_table(own), *listed)))
    return Section("settings", "Settings", (paragraph(_rule()),), tuple(children))


Chosen = dict[tuple[str, str, str, str, int], Counter[str]]


def _chosen(lines: Sequence[Line]) -> Chosen:
    """How often each setting was chosen, by data set, experiment, method, alpha and how many were tried."""
    found: Chosen = {}
    for line in lines:
        place, plan = line.place, METHODS[line.place["method"]]
        trained = plan.kind == "trained" and not plan.published and place["budget"] > 1
        if trained or (plan.solver == "algorithm1" and place["level"] is None):
            alpha = "natural clients" if place["alpha"] is None else f"{place['alpha']:g}"
            own = _ALGORITHM1 if plan.solver == "algorithm1" else None
            runs = trials("", "algorithm1", place["solver_budget"])
            tried = sum(len(trial.rounds) for trial in runs) if own else place["budget"]
            counts = found.setdefault((place["data"], place["experiment"], plan.name, alpha, tried), Counter())
            for setting, times in line.settings.items():
                counts[_setting_words(json.loads(setting), own)] += times
    return found


_ALGORITHM1 = ("T", "S", "sharpness")


def _setting_words(setting: Mapping[str, Any], only: Sequence[str] | None = None) -> str:
    shown = {name: value for name, value in setting.items() if (name in only if only else True)}
    return ", ".join(
        f"{name.replace('_', ' ')} {value:g}" if isinstance(value, float) else f"{name.replace('_', ' ')} {value}"
        for name, value in shown.items()
    )


def _chosen_table(chosen: Mapping[tuple[str, str, str, int], Counter[str]]) -> Element:
    rows = []
    for (experiment, method, alpha, tried), counts in chosen.items():
        total = counts.total()
        for words, times in counts.most_common():
            named = Cell((METHODS[method].title,), heading=True, numeric=False)
            title = load_experiment(experiment)[0].title
            often = Cell((f"{times} of {total}",), key=times / total)
            rows.append([named, text(title), text(alpha), Cell((str(tried),)), text(words), often])
    titles = ("Method", "Experiment", "alpha", "Tried", "Setting", "Chosen")
    return grid("Which setting was chosen how often.", titles, rows, search="Search settings")


def _tried(data: str, method: str) -> Element:
    """The settings tried for a method, and that of its own paper."""
    title = "Algorithm 1" if method == "algorithm1" else METHODS[method].title
    tried = [each for trial in trials(data, method) for each in trial.as_dicts()]
    published = [] if method in ("fedavg", "algorithm1") else trials(data, method, published=True)
    theirs = [note(f"Its paper's own: {_setting_words(each)}.") for trial in published for each in trial.as_dicts()]
    listed = tag("ol", [tag("li", _setting_words(each)) for each in tried], class_="note")
    return folded(f"{title}: the {counted(len(tried), 'setting')} there are", *theirs, listed)


# Commands


def _again(parts: Mapping[str, Sequence[Line]]) -> Section | None:
    """How to run any cell again: a command for every table, and the names to put into it."""
    if not parts:
        return None
    said = (
        paragraph(
            "Any cell of any table is one command. Each of these measures one cell of a table, over its seeds; another "
            "method, or another alpha of the table, makes it another cell. Results that the folder (--out) has already "
            "are not measured again."
        ),
    )
    rows = [_again_row(own) for part in parts.values() for own in _by_table(part)]
    commands = grid("A command for every table.", ("Table", "Command", "alpha"), rows, full=True)
    methods = dict.fromkeys(line.place["method"] for part in parts.values() for line in part)
    pairs = [[Cell((METHODS[each].title,), heading=True, numeric=False), text(each, mark="code")] for each in methods]
    titles = ("Method", "after --method")
    listed = folded("Methods by their names", grid("Methods by their names on the command line.", titles, pairs))
    return Section("again", "Run any cell again", (*said, commands, listed))


def _by_table(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of one experiment by data set, and by how many settings are tried: each has another command."""
    found: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        found.setdefault((line.place["data"], line.place["budget"]), []).append(line)
    return list(found.values())


def _again_row(lines: Sequence[Line]) -> list[Cell]:
    line = next((line for line in lines if METHODS[line.place["method"]].kind == "trained"), lines[0])
    alphas = sorted({each.place["alpha"] for each in lines if each.place["alpha"] is not None})
    title = f"{load_experiment(line.place['experiment'])[0].title}: {CATALOGUE[line.place['data']].title}"
    return [
        Cell((title,), heading=True, numeric=False),
        text(tag("span", _unbroken(_command(line))), mark="code"),
        text(", ".join(f"{alpha:g}" for alpha in alphas) or "-", mark="code"),
    ]


def _unbroken(command: str) -> Iterator[Node]:
    """A command whose options stay beside their values."""
    for number, part in enumerate(re.split(r" (?=--)", command)):
        yield " " if number else None
        yield tag("span", part, class_="unbroken")


def _command(line: Line) -> str:
    """What measures a line again; the number of settings is said where it is not the experiment's own."""
    place, found = line.place, line.figure("accuracy")
    usual = {part.splits[0].data: part.budget for part in load_experiment(place["experiment"])}
    words = ["logofair reproduce", place["experiment"], f"--data {place['data']}"]
    words += [f"--alpha {place['alpha']:g}"] if place["alpha"] is not None else []
    words += [f"--method {place['method']}"]
    words += [f"--seeds {found.of}"] if found else []
    words += [f"--settings {place['budget']}"] if place["budget"] != usual.get(place["data"]) else []
    words += ["--quick"] if place["solver_budget"] is not None else []
    return " ".join(words)
