"""The table of outcomes as people read it: the verdict in a sentence, the few limits to show first, and the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from logofair.auditing.measure import counting_labels
from logofair.outcomes import (
    CALIBRATION_ROWS,
    EXCEEDED,
    MET,
    NEW_ROWS,
    NOT_MEASURED,
    TEST_ROWS,
    UNCLEAR,
    Outcome,
    Outcomes,
)
from logofair.requirement import ALL, TODAY, Requirement, population_name
from logofair.words.charts import Dumbbell, dumbbells
from logofair.words.phrases import (
    NOTHING,
    capitalised,
    counted,
    in_objective,
    in_words,
    limit_points,
    listed,
    name_of,
    people,
    plural,
    points,
    short_number,
    span,
)
from logofair.words.sections import Cell, CellText, Column, Picture, Table, Verdict, number, table_of

_FIRST = 4  # limits on the first screen
_DRAWN = 8  # places in a picture
_SMALL_NAMED = 3
_CERTIFIED = "Before and after are of the people of the fit."
_OF_THE_FIT = "On the people of the fit alone, of whom it is proved."
_BASES = {
    TEST_ROWS: "measured on people who took no part in the fit",
    NEW_ROWS: "certified for new people drawn like these",
    CALIBRATION_ROWS: "proved of the people of the fit alone",
}
_POINTS, _PERCENT, _NUMBER = "points", "%", ""


@dataclass(frozen=True)
class Places:
    """What places are called: the user's word for a site, whether there are several, and the word for a label."""

    word: str = "site"
    several: bool = True
    label: str = "label"

    def all(self) -> str:
        """All sites together."""
        return f"all {plural(self.word)}" if self.several else "everyone"

    def name(self, outcome: Outcome, most: int = 40) -> str:
        """Where an outcome is."""
        return self.all() if outcome.site is None else name_of(outcome.site, most)

    def at(self, outcome: Outcome) -> str:
        """The same within a sentence."""
        return f" at {name_of(outcome.site)}" if outcome.site is not None and self.several else ""

    def who_counts(self, outcome: Outcome) -> str:
        """The label of those whom its rate counts alone, such as "label 1"; empty: it counts everyone."""
        rates = [rate for rate in outcome.requirement.rates if outcome.rate in (None, rate.name)]
        counting = [counting_labels(rate) for rate in rates]
        alone = counting and counting[0] if all(each == counting[0] for each in counting) else []
        return f"{self.label} {alone[0]}" if len(alone) == 1 else ""


def unit_of(outcome: Outcome) -> str:
    """Return what a figure is shown in: points between shares, percent of people, or its own unit."""
    requirement = outcome.requirement
    if (
        requirement.measure.startswith("cost")
        or requirement.measure == "ratio"
        or not all(rate.is_share for rate in requirement.rates)
    ):
        return _NUMBER
    return _POINTS if requirement.is_loss or requirement.measure in ("gap", "difference") else _PERCENT


def figure(outcome: Outcome, value: float | None) -> str:
    """Return a figure of an outcome in its unit, without it."""
    return short_number(value) if unit_of(outcome) == _NUMBER else points(value)


def limit(outcome: Outcome) -> str:
    """Return the limit as it is read beside the figure: of a gap the number alone, else which way it binds."""
    if outcome.limit is None:
        return "today" if outcome.requirement.bound == "today" else NOTHING
    number = short_number(outcome.limit) if unit_of(outcome) == _NUMBER else limit_points(round(outcome.limit, 4))
    return number if outcome.requirement.measure == "gap" else f"{outcome.requirement.relation} {number}"


def limit_words(outcome: Outcome, value: float | None) -> str:
    """Return a limit of so much as the subject or the object of a sentence.

    Examples
    --------
    >>> from logofair import Requirement
    >>> gap = Outcome(Requirement.parse("selection rate gap <= 0.01 overall"), None, *[None] * 6, "met", "test rows")
    >>> limit_words(gap, 0.01), limit_words(gap, 0.2)
    ('1 point', '20 points')
    """
    unit = unit_of(outcome)
    if value is None or unit == _NUMBER:
        return f"a ratio of {short_number(value)}" if outcome.requirement.measure == "ratio" else short_number(value)
    number = limit_points(round(value, 4))
    return in_words(number) if unit == _POINTS else f"{number} {unit}"


def could_be(outcome: Outcome) -> str:
    """Return where the true figure could lie."""
    if unit_of(outcome) != _NUMBER:
        return span(outcome.low, outcome.high, apart=outcome.limit)
    ends = [short_number(end) for end in (outcome.low, outcome.high) if end is not None]
    return " to ".join(ends) or NOTHING


def _level(outcomes: Iterable[Outcome]) -> str:
    """The head of the column of what figures could be, with the level of what was measured on other people."""
    return "could be, 95 %" if all(each.basis == TEST_ROWS for each in outcomes) else "could be"


def shown_to_hold(outcome: Outcome) -> str:
    """Return the tightest limit on a gap or a ratio that this result shows to be met: the end of its interval."""
    measure = outcome.requirement.measure
    end = outcome.low if measure == "ratio" else outcome.high
    if outcome.basis != TEST_ROWS or measure not in ("gap", "ratio") or end is None or not 0 < end < 1:
        return ""
    ends = could_be(outcome).split(" to ")
    if measure == "ratio":
        return f"a ratio of {ends[0]}"
    return in_words(ends[-1]) if unit_of(outcome) == _POINTS else ends[-1]


def subject(outcome: Outcome) -> str:
    """Return what is limited, in words.

    Examples
    --------
    >>> from logofair import Requirement
    >>> def of(text):
    ...     return subject(Outcome(Requirement.parse(text), None, *[None] * 6, "met", "test rows"))
    >>> of("selection rate gap <= 0.02 overall"), of("true positive rate of women >= 0.7 overall")
    ('gap in selection rate', 'true positive rate of women')
    """
    requirement = outcome.requirement
    rates = [outcome.rate] if outcome.rate else [rate.name for rate in requirement.rates]
    rate = listed(rates) or requirement.measure
    if requirement.measure in ("gap", "ratio"):
        by = "" if not requirement.by else f" by {'all' if requirement.by == ALL else listed(requirement.by)}"
        return f"{requirement.measure} in {rate}{by}" if requirement.measure == "gap" else f"ratio of {rate}s{by}"
    if requirement.measure == "accepted":
        return "share accepted"
    if requirement.is_loss:
        return requirement.measure
    who = list(map(population_name, requirement.who))
    if not who and outcome.groups:  # of each: before and after are the worst ones, which need not be of one group
        if requirement.bound != TODAY and requirement.relation != "=":
            return f"{'lowest' if requirement.relation == '>=' else 'highest'} {rate}"
        who = [name_of(outcome.groups[0])]
    if requirement.measure == "difference":
        return f"{rate} of {who[0]} less that of {who[1]}"
    return f"{rate} of {who[0]}" if who else rate


def _shown_first(outcomes: Iterable[Outcome], most: int = _FIRST) -> list[Outcome]:
    """Return the few to show: exceeded ones, then those over all sites, then those with the least room."""
    known = [each for each in outcomes if each.after is not None or each.low is not None or each.high is not None]
    judged = [each for each in known if not each.too_small or each.state == EXCEEDED] or known

    def order(each: Outcome) -> tuple[bool, bool, float]:
        return each.state != EXCEEDED, each.site is not None, each.room if each.room is not None else 0.0

    return sorted(judged, key=order)[:most]


def headline(outcomes: Iterable[Outcome]) -> Outcome | None:
    """Return the one to tell first."""
    return next(iter(_shown_first(outcomes, 1)), None)


def shown_outcomes(outcomes: Outcomes) -> Outcomes:
    """Return those that a page shows: the evidence or, for want of any, what is proved of the people of the fit.

    What is certified for new people stands beside what was found of the people of the fit, before and after.
    """
    fitted = outcomes.where(basis=CALIBRATION_ROWS)
    if not len(outcomes.evidence):
        return fitted
    known = {(each.requirement, each.site): each for each in fitted}

    def filled(each: Outcome) -> Outcome:
        own = known.get((each.requirement, each.site))
        if each.basis != NEW_ROWS or own is None or each.after is not None:
            return each
        return replace(each, before=own.before, after=own.after, groups=own.groups, rate=own.rate)

    return Outcomes(tuple(map(filled, outcomes.evidence)))


def limits_table(outcomes: Outcomes, places: Places, most: int = _FIRST) -> Table | None:
    """Return the table of the first screen; what it leaves out is counted below it."""
    first = _shown_first(outcomes, most + (len(outcomes) == most + 1))  # a line that counts one would take as much room
    if not first:
        return None
    if len({subject(each) for each in first}) > 1:  # of whom each has a line of its own
        first = first[:most]
    subjects, units = [subject(each) for each in first], {unit_of(each) for each in first}
    first.sort(key=lambda each: subjects.index(subject(each)))
    several = len(set(subjects)) > 1
    before, now = any(each.before is not None for each in first), any(each.after is not None for each in first)
    known = any(each.low is not None or each.high is not None for each in first)
    fitted = all(each.basis == CALIBRATION_ROWS for each in first)
    states = not fitted and {each.state for each in first} != {MET}
    unit = units.pop() if len(units) == 1 else None
    gaps = several and all(each.requirement.measure == "gap" and each.rate for each in first)
    title = "gap" if gaps else "limit on" if several else subject(first[0])
    title = f"{title}, {unit}" if unit else title

    def after(each: Outcome) -> str:
        own = "" if unit is not None else f" {unit_of(each)}".rstrip().replace(" points", " pts")
        return f"{figure(each, each.after)}{own}"

    of_fit = _OF_THE_FIT if fitted else _CERTIFIED if before and first[0].basis == NEW_ROWS else ""
    columns: list[Column[Outcome] | None] = [
        (title, "l", lambda each: f"{'  ' if several else ''}{places.name(each)}"),
        ("before", "r", lambda each: figure(each, each.before)) if before else None,
        ("after" if before else "now", "r", after) if now else None,
        (_level(first), "r", could_be) if known else None,
        ("limit", "r", limit),
        ("", "l", lambda each: Cell(each.state, state=each.state)) if states else None,
    ]
    below = " ".join(filter(None, (_left_out(outcomes, first, places), of_fit)))
    table = table_of(capitalised(title), columns, first, after=below)
    if not several:
        return table
    rows: list[tuple[CellText, ...]] = []
    for each, row in zip(first, table.rows, strict=True):
        heading = subject(each).removeprefix("gap in ") if gaps else subject(each)
        if all(heading != above[0] for above in rows):
            rows.append((heading, *[""] * (len(row) - 1)))
        rows.append(row)
    return replace(table, rows=tuple(rows))


def _left_out(outcomes: Outcomes, first: Sequence[Outcome], places: Places) -> str:
    """What the table does not list: how many are in which state, and the sites that are too small."""
    others = [each for each in outcomes if each not in first]
    small = [
        each
        for each in others
        if each.state in (UNCLEAR, NOT_MEASURED)
        and (each.too_small or (each.after is None and not each.requirement.is_loss))  # of which a file knows no rule
    ]
    rest = Outcomes(tuple(each for each in others if each not in small))
    words = []
    if len(rest):
        states = [
            f"{len(those):,} {state}"
            for state in (EXCEEDED, UNCLEAR, MET, NOT_MEASURED)
            if (those := rest.where(state=state))
        ]
        found = ", ".join(states) if len(states) > 1 else f"{'both' if len(rest) == 2 else 'all'} {rest[0].state}"
        alike = len(rest.requirements) == 1 and subject(rest[0]) in map(subject, first)
        one_each = alike and all(each.site is not None for each in rest)
        what = counted(len(rest), f"more {places.word if one_each else 'limit'}")
        words.append(f"{what}: {found if len(rest) > 1 else rest[0].state}.")
    sites = list(dict.fromkeys(each.site for each in small if each.site is not None))
    if sites:
        rows = {site: min(each.rows or 0 for each in small if each.site == site) for site in sites}
        named = listed([f"{name_of(site, 24)} ({rows[site]})" for site in sites], _SMALL_NAMED)
        labels = {places.who_counts(each) for each in small}
        who = f" with {labels.pop()}" if len(labels) == 1 and labels != {""} else ""
        words.append(f"Too few people{who} to judge: {named}.")
    elif small:
        words.append(f"Too few people to judge: {listed([subject(each) for each in small], _SMALL_NAMED)}.")
    return " ".join(words)


def every_limit(outcomes: Outcomes, places: Places, caption: str) -> Table:
    """Return all outcomes as one table that can be searched; a requirement stands as it was typed."""
    certifying = all(each.basis == NEW_ROWS for each in outcomes)

    def needed(each: Outcome) -> str:
        return f"{each.rows_needed:,}" if each.rows_needed and each.state != MET else NOTHING

    columns: list[Column[Outcome] | None] = [
        (places.word if places.several else "where", "l", places.name),
        ("requirement", "l", lambda each: str(each.requirement)) if len(outcomes.requirements) > 1 else None,
        None if certifying else ("before", "r", lambda each: Cell(figure(each, each.before), each.before)),
        ("now" if certifying else "after", "r", lambda each: Cell(figure(each, each.after), each.after)),
        (_level(outcomes), "r", could_be),
        ("limit", "r", limit),
        ("people", "r", lambda each: number(each.rows)),
        ("needed", "r", needed) if certifying else None,
        ("state", "l", lambda each: Cell(each.state, state=each.state)),
    ]
    return table_of(caption, columns, outcomes, search=f"Find a {places.word}" if len(outcomes) > _FIRST else None)


def limit_tables(outcomes: Outcomes, places: Places) -> Iterator[Table]:
    """Return all outcomes as a table for each basis and requirement."""
    for basis in dict.fromkeys(each.basis for each in outcomes):
        found = outcomes.where(basis=basis)
        for requirement in found.requirements:
            yield every_limit(found.where(requirement=requirement), places, f"{requirement}: {_BASES[basis]}")


def limits_picture(outcomes: Outcomes, places: Places) -> Picture | None:
    """Return the places of the headline's requirement before and after, with interval and limit."""
    worst = headline(outcomes)
    if worst is None:
        return None
    same = [each for each in outcomes if unit_of(each) == unit_of(worst) and subject(each) == subject(worst)]
    first = [each for each in _shown_first(same, _DRAWN) if each.after is not None]
    first = first if places.several else first[:1]  # one site is everyone
    if not first:
        return None
    what, unit = subject(worst), unit_of(worst)
    scale = 1.0 if unit == _NUMBER else 100.0
    lines = []
    for each in first:
        before, low, high, bound = (
            None if value is None else scale * value for value in (each.before, each.low, each.high, each.limit)
        )
        change = "" if before is None else f"{figure(each, each.before)} to "
        could = f", could be {could_be(each)}" if could_be(each) != NOTHING else ""
        note = " ".join(filter(None, (f"{change}{figure(each, each.after)}", f"{unit}{could}, {each.state}")))
        lines.append(Dumbbell(places.name(each, 22), before, scale * (each.after or 0.0), low, high, bound, note))
    marks = "○ before, ● after" if any(line.before is not None for line in lines) else "● now"
    bar = ", with its 95 % interval" if any(line.low is not None for line in lines) else ""
    caption = f"{capitalised(what)}{f' in {unit}' if unit else ''}: {marks}{bar}; dashed: limit"
    table = limits_table(Outcomes(tuple(first)), places, _DRAWN)
    after = " ".join(filter(None, (_left_out(outcomes, first, places), "" if table is None else table.after)))
    return Picture(dumbbells(lines, caption), caption, table, after)


def verdict(outcomes: Outcomes, places: Places, how_to_know: str) -> Verdict | None:
    """Return the verdict on what was required and the sentence that says it in figures; None: nothing was required.

    What is proved of the calibration rows is said, and judges nothing: ``how_to_know`` says what would.
    """
    if not len(outcomes):
        return None
    evidence = outcomes.evidence
    if not len(evidence):
        worst = headline(outcomes.where(basis=CALIBRATION_ROWS))
        found = "" if worst is None else f" On the rows of the fit {_moved(worst, places)}."
        return Verdict(NOT_MEASURED, f"Not tested on other people{': ' if how_to_know else ''}{how_to_know}.{found}")
    state, worst = outcomes.verdict, headline(evidence)
    if all(each.basis == NEW_ROWS for each in evidence):
        return Verdict(state, _promise(evidence, places))
    if worst is None:
        return Verdict(state, f"None of {counted(len(evidence), 'limit')} could be measured: too few people.")
    return Verdict(state, _measured(worst, places) + _covered(evidence, places))


def _moved(each: Outcome, places: Places) -> str:
    """From what to what a figure went, as the main clause of a sentence."""
    what, unit = f"the {subject(each)}{places.at(each)}", f" {unit_of(each)}".rstrip()
    after = figure(each, each.after)
    if each.before is None:
        return f"{what} is {after}{unit}"
    before = figure(each, each.before)
    if before == after:
        return f"{what} stays at {after}{unit}"
    return f"{what} {'fell' if (each.after or 0.0) < each.before else 'rose'} from {before} to {after}{unit}"


def _measured(worst: Outcome, places: Places) -> str:
    """What other rows show of the outcome to tell first."""
    first, bound, could = capitalised(_moved(worst, places)), limit(worst), could_be(worst)
    if worst.state == EXCEEDED:
        return f"{first}, beyond your limit ({bound}): chance does not explain it."
    if worst.state == MET:
        return f"{first}, within your limit ({bound}{f'; could be {could}' if could != NOTHING else ''})."
    if could == NOTHING:
        return f"{first}; your limit is {bound}."
    who = f" ({label})" if (label := places.who_counts(worst)) else ""
    smallest = " in the smallest group" if worst.requirement.measure in ("gap", "ratio", "difference") else ""
    rows = "" if worst.rows is None else f" with {people(worst.rows)}{who}{smallest}"
    return f"{first}. Your limit is {bound};{rows} it could be {could}."


def _covered(evidence: Outcomes, places: Places) -> str:
    """How many places the verdict covers, where there are several."""
    local = Outcomes(tuple(each for each in evidence if each.site is not None))
    sites = len({each.site for each in local})
    if sites < 2:
        return ""
    open_ = [each for each in local if each.state in (UNCLEAR, NOT_MEASURED)]
    small = {each.site for each in open_ if each.too_small or each.rows is None}
    left = {each.site for each in local} - small
    words = []
    for state in (EXCEEDED, UNCLEAR, NOT_MEASURED, MET):
        here = {each.site for each in local if each.state == state} & left
        left -= here
        words += [f"{len(here):,} {state}"] if here else []
    words += [f"{len(small):,} too small to judge"] if small else []
    return f" Of {counted(sites, places.word)}: {', '.join(words)}."


def _promise(evidence: Outcomes, places: Places) -> str:
    """What is certified for people yet to come."""
    met, what = len(evidence.where(state=MET)), counted(len(evidence), "limit")
    if met == len(evidence):
        return f"Certified for new people: {'your limit holds' if met == 1 else f'all {what} hold'}."
    if not met:
        return f"None of {what} can be certified for new people: too few rows."
    where = [f"{subject(each)}{places.at(each)}" for each in evidence if each.state == MET]
    return f"Certified for new people: {met:,} of {what} ({listed(where, 2)}); too few rows for the others."


def certified_places(outcomes: Outcomes, places: Places) -> str:
    """Return where all that was to be certified for new people is; empty: nowhere."""
    asked = outcomes.where(basis=NEW_ROWS)
    names = {each.site: places.name(each, 16) for each in asked}
    open_ = {each.site for each in asked if each.state != MET}
    if len(open_) == len(names):
        return ""
    where = [name for site, name in names.items() if site not in open_]
    left = [name for site, name in names.items() if site in open_]
    if open_ == {None}:
        where = [f"every {places.word}"]
    few = f" at {listed(where, 2)}" if None in open_ or len(where) < len(left) else ""
    few = few or (f" everywhere but {listed(left, 2)}" if left else "")
    return f"certified for new people{few}"


def prices(outcomes: Outcomes, objective: str) -> tuple[str, ...]:
    """Return what looser limits would buy, the dearest first; empty where no limit costs anything."""
    found = []
    for requirement in outcomes.requirements:
        own = [each for each in outcomes.where(requirement=requirement) if each.price]
        price = sum(each.price or 0.0 for each in own) * 0.01
        if price < 5e-6:
            continue
        won = in_objective(objective, price, 2)
        found.append((price, f"{requirement}: one more point would buy {won}."))
    return tuple(words for _, words in sorted(found, reverse=True))


def least_changes(least_relaxation: Mapping[Requirement, float | None]) -> list[Requirement] | None:
    """Return the requirements of a conflict loosened just enough, any of which resolves it; None: no number says it."""
    changed = []
    for each, amount in least_relaxation.items():
        if not isinstance(each.bound, float) or each.relation == "=":
            return None
        if amount is not None:  # four digits, rounded so that the change is enough
            more = math.ceil(1e4 * (each.bound + amount) - 1e-6) / 1e4
            less = math.floor(1e4 * (each.bound - amount) + 1e-6) / 1e4
            changed.append(replace(each, bound=more if each.relation == "<=" else less))
    return changed


def conflict_lines(least_relaxation: Mapping[Requirement, float | None]) -> str | None:
    """Return what conflicts, and the least change that resolves it, as two lines; None: no number can be typed.

    Examples
    --------
    >>> capacity, floor = map(Requirement.parse, ("accepted <= 0.2 overall", "selection rate >= 0.3 overall"))
    >>> print(conflict_lines({capacity: 0.10001, floor: None}))
    no rule meets 'accepted <= 0.2 overall' together with 'selection rate >= 0.3 overall'.
    Least change: 'accepted <= 0.3001 overall'.
    """
    changed = least_changes(least_relaxation)
    if changed is None:
        return None
    first, *others = [f"'{each}'" for each in least_relaxation]
    together = f" together with {listed(others)}" if others else ""
    changes = ", or ".join(f"'{each}'" for each in changed)
    least = f"Least change: {changes}." if changed else "Loosening one of them alone is not enough."
    return f"no rule meets {first}{together}.\n{least}"
