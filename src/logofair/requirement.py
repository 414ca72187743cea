"""One requirement: what must hold of which rates, where; a sentence for people, and the same as a value.

::

    selection rate gap <= 0.02 per site                    true positive rate ratio >= 0.8 overall
    equalized odds gap <= 0.05 per site except Lyon        selection rate gap <= 0.05 at Oslo, "New York"
    selection rate gap by sex and race <= 0.1 overall      true positive rate of sex=women >= 0.7 per site
    selection rate of women - selection rate of everyone >= -0.02 overall
    accepted <= 0.2 overall                                accepted = 150 people at Oslo
    precision of women >= 0.6 overall                      accuracy loss <= 0.01 per site
    cost loss from unconstrained <= 0.05 per site

The sentence is the same in Python, on the command line, in a federation's plan, in a policy's file and on every page.
The grammar is two tables: what is measured, each with the relations and bounds it may have (:data:`_MEASURES`), and
the phrases that these are made of (:data:`_PHRASES`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from typing import Any, TypeAlias

from logofair.columns.checks import nearest_name, shown
from logofair.errors import InputError
from logofair.notions import EQUALIZED_ODDS, KNOWN_RATES, Rate, as_number
from logofair.records import Condensed

TODAY = "today"
ALL = "all"  # by all attributes together: their intersections
# Above this a bound for rates of the user's own, in whatever unit, overflows sooner than it binds.
LARGEST_BOUND = 1e100
_MOST_PEOPLE = 10**15


@dataclass(frozen=True)
class People:
    """A bound in people: a share once the rows are counted.

    Examples
    --------
    >>> Requirement.parse("accepted = 150 people at Oslo").bound
    People(number=150)
    """

    number: int


@dataclass(frozen=True)
class Scope:
    """Where a requirement holds: "overall", "per site" (but at ``sites``), or "at" each of ``sites`` by itself."""

    where: str
    sites: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sites", tuple(dict.fromkeys(map(str, self.sites))))
        if self.where not in ("overall", "per site", "at") or bool(self.sites) < (self.where == "at"):
            raise InputError(f"require: got the scope {shown(self.where)}; use overall, per site, or at and sites.")
        if self.where == "overall" and self.sites:
            raise InputError("require: 'overall' is over all sites together; leave out the sites, or use 'at'.")

    @property
    def is_global(self) -> bool:
        """Whether it holds over all sites together."""
        return self.where == "overall"

    def covers(self, site: object) -> bool:
        """Whether it holds inside a site."""
        named = str(site) in self.sites
        return {"overall": False, "per site": not named, "at": named}[self.where]


# The groups that all people of a population belong to, each a value or (column, value); none: everyone.
Member: TypeAlias = "str | tuple[str, str]"
Population: TypeAlias = tuple[Member, ...]
_Bound: TypeAlias = "float | str | People"


@dataclass(frozen=True)
class _Measure:
    """How a measure is written, and the relations and bounds it may have."""

    subjects: tuple[str, ...]
    relations: tuple[str, ...]
    bounds: tuple[str, ...] = ("NUMBER", TODAY)


# Words in capitals are phrases of the next table, or what single words are read as; all others stand for themselves.
_MEASURES = {
    "gap": _Measure(("RATES gap", "RATES gap BY"), ("<=",)),
    "ratio": _Measure(("RATES ratio", "RATES ratio BY"), (">=",)),
    "difference": _Measure(("RATE of WHO - RATE of WHO",), ("<=", ">=")),
    "rate": _Measure(("RATE of WHO", "RATE", "RATE BY"), ("<=", ">=")),
    "accepted": _Measure(("accepted",), ("<=", ">=", "="), ("PEOPLE people", "NUMBER", TODAY)),
    "precision": _Measure(("precision of WHO",), ("<=", ">="), ("NUMBER",)),
    **{
        loss: _Measure((loss,), ("<=",), ("NUMBER",))
        for name in ("accuracy", "cost")
        for loss in (f"{name} loss", f"{name} loss from unconstrained")
    },
}
_ODDS = EQUALIZED_ODDS.name.replace("_", " ")
# With what each means; where that is nothing, it is what the words in it are read as.
_PHRASES: dict[str, dict[str, tuple[Any, ...]]] = {
    "RATES": {_ODDS: EQUALIZED_ODDS.rates, "RATE": ()},
    "RATE": {**{name: (rate,) for name, rate in KNOWN_RATES.items()}, "OWN": ()},
    "WHO": {"everyone": ((),), "GROUPS": ()},
    "BY": {f"by {ALL}": (ALL,), "by COLUMNS": ()},
    "SCOPE": {
        "overall": ("overall",),
        "per site except SITES": ("per site",),
        "per site": ("per site",),
        "at SITES": ("at",),
    },
}
# Phrases that are several words of a kind: what one of them is read as, and what stands between two.
_LISTS = {"SITES": ("NAME", ","), "COLUMNS": ("NAME", "and"), "GROUPS": ("GROUP", "and")}
# What a bare word cannot be.
_KEYWORDS = frozenset(
    word
    for text in (*(" ".join(m.subjects + m.bounds) for m in _MEASURES.values()), *map(" ".join, _PHRASES.values()))
    for word in text.split()
    if word.islower()
).union(word for _, word in _LISTS.values() if word.isalpha())

_NAME = r'(?:"(?:[^"]|"")*"|[^\s,"=<>]+)'
_WORD = re.compile(rf'{_NAME}={_NAME}|"(?:[^"]|"")*"|,|".*|[^\s,"]+', re.DOTALL)
_PAIR = re.compile(rf"({_NAME})=({_NAME})")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_BARE = re.compile(r'[^\s,"=<>]+')
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_PEOPLE = "a number of people is a whole number above 0"
_COUNT = re.compile(r"\d{1,16}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Requirement(Condensed):
    """What must hold, such as ``"selection rate gap <= 0.02 per site"``: :meth:`parse` reads it, ``str`` writes it.

    Parameters
    ----------
    measure : {"gap", "ratio", "rate", "difference", "accepted", "precision", "accuracy loss", "cost loss", ...}
        The largest rate of any group less the smallest; the smallest divided by the largest; a rate; one less another;
        the share of all people that is accepted; the share of the accepted that is positive; what accuracy or cost per
        person loses against the best rule that meets each site's own requirements, or (``... from unconstrained``, and
        over all sites) against the unconstrained rule.
    rates : tuple of Rate
        The rates: several for a gap or a ratio of each, two for a difference, otherwise none.
    who : tuple of tuple
        Whose rates, each the groups that the people belong to, as values or (column, value), ``()`` for everyone. None
        at all: each group by itself.
    by : tuple of str, or "all"
        The columns whose groups are meant, of several their intersections; ``"all"``: those of all columns. ``()``:
        each column by itself.
    relation : {"<=", ">=", "="}
        A gap is at most its bound, a ratio at least; "=" is for ``accepted`` alone.
    bound : float, "today" or People
        A number, the rate under the rule without any requirement, or (``accepted`` alone) a number of people.
    scope : Scope
        Over all sites, inside each, or inside those that are named.

    Examples
    --------
    >>> import logofair
    >>> requirement = logofair.Requirement.parse("true positive rate of women >= 0.70 per site except Lyon")
    >>> requirement.measure, requirement.bound, requirement.scope.sites
    ('rate', 0.7, ('Lyon',))
    >>> str(requirement)
    'true positive rate of women >= 0.7 per site except Lyon'

    Rates of your own are given beside the sentence:

    >>> benefit = logofair.Rate("benefit", constant=-1.0, slope=2.0, base=(1.0, 0.0))
    >>> str(logofair.Requirement.parse("benefit gap <= 0.1 overall", rates=[benefit]))
    'benefit gap <= 0.1 overall'
    """

    measure: str
    rates: tuple[Rate, ...] = ()
    who: tuple[Population, ...] = ()
    by: tuple[str, ...] | str = ()
    relation: str
    bound: _Bound
    scope: Scope

    def __post_init__(self) -> None:
        object.__setattr__(self, "who", tuple(tuple(map(_member, population)) for population in self.who))
        object.__setattr__(self, "by", self.by if self.by == ALL else tuple(dict.fromkeys(map(str, self.by))))
        known = _MEASURES.get(self.measure) if isinstance(self.measure, str) else None
        if known is None or self.relation not in known.relations or self._subject is None:
            raise InputError(
                f"require: got {shown(self.measure)} {shown(self.relation)} of {len(self.rates)} rates and "
                f"{len(self.who)} populations, which no sentence says; make requirements by Requirement.parse."
            )
        own_rates(self.rates)
        object.__setattr__(self, "bound", _checked_bound(self.measure, self.rates, self.bound))

    @property
    def is_loss(self) -> bool:
        """Whether it limits what is lost of the objective."""
        return "loss" in self.measure

    @property
    def needs_unconstrained(self) -> bool:
        """Whether it compares a rule with the unconstrained one."""
        return self.bound == TODAY or self.is_loss

    @property
    def is_loss_inside(self) -> bool:
        """Whether it limits what a site loses against the best rule that meets the site's own requirements."""
        return self.is_loss and "unconstrained" not in self.measure and not self.scope.is_global

    @classmethod
    def parse(cls, text: str, rates: Iterable[Rate] = ()) -> Requirement:
        """Read a sentence; ``rates`` are the user's own that it may name."""
        if not isinstance(text, str):
            advice = "pass a sentence, such as 'selection rate gap <= 0.02 overall'"
            raise InputError(f"require: got {shown(text)}; {advice}.")
        return _Sentence(text, own_rates(rates)).requirement()

    def condensed(self) -> Any:
        """Return the sentence; with the user's own rates where it names some."""
        own = [rate.condensed() for rate in own_rates(self.rates).values()]
        return {"require": str(self), "rates": own} if own else str(self)

    @classmethod
    def expanded(cls, value: Any) -> Requirement:
        """Return the requirement that :meth:`condensed` wrote."""
        text, own = (value["require"], value["rates"]) if isinstance(value, dict) else (value, [])
        return cls.parse(text, map(Rate.expanded, own))

    def __str__(self) -> str:
        bound = f"{self.bound.number} people" if isinstance(self.bound, People) else str(self.bound).removesuffix(".0")
        excepting = "except" * (self.scope.where == "per site" and bool(self.scope.sites))
        where = [self.scope.where, excepting, ", ".join(map(name_text, self.scope.sites))]
        return " ".join([*(self._subject or ()), self.relation, bound, *filter(None, where)])

    @property
    def _subject(self) -> list[str] | None:
        """The words before the relation; None: no sentence has as many rates and populations."""
        forms = _MEASURES[self.measure].subjects
        names = [each.name if each.name in KNOWN_RATES else name_text(each.name) for each in self.rates]
        if self.rates == EQUALIZED_ODDS.rates and "RATES" in forms[0]:
            names = [_ODDS]
        who = [" and ".join(map(_member_text, each)) or "everyone" for each in self.who]
        by = [f"by {ALL if self.by == ALL else ' and '.join(map(name_text, self.by))}"] if self.by else []
        for words in map(str.split, forms):
            counts = sum(word in ("RATE", "RATES") for word in words), words.count("WHO"), words.count("BY")
            if counts == (len(names), len(who), len(by)):
                left = {"RATE": (rest := iter(names)), "RATES": rest, "WHO": iter(who), "BY": iter(by)}
                return [next(left[word]) if word in left else word for word in words]
        return None


def own_rates(rates: Iterable[Rate]) -> dict[str, Rate]:
    """The user's own among some rates, by name; names that a sentence could not tell from its words are refused."""
    found: dict[str, Rate] = {}
    for rate in rates:
        if not isinstance(rate, Rate):
            raise InputError(f"require: got {shown(rate)} among the rates; pass logofair.Rate objects.")
        if KNOWN_RATES.get(rate.name) == rate:
            continue
        if rate.name in _KEYWORDS or rate.name in (*KNOWN_RATES, _ODDS):
            raise InputError(f"Rate {rate.name!r}: the name has a meaning of its own in requirements; choose another.")
        if found.setdefault(rate.name, rate) != rate:
            raise InputError(f"Rate {rate.name!r}: two rates have this name; give each a name of its own.")
    return found


def read_requirements(given: object) -> tuple[Requirement, ...]:
    """Requirements that were given as sentences, as such objects, or as a list of either; each counts once."""
    one = isinstance(given, str | Requirement)
    if not one and not isinstance(given, Iterable):
        raise InputError(f"require: got {shown(given)}; pass sentences or logofair.Requirement objects.")
    items: Iterable[Any] = (given,) if one else given  # type: ignore[assignment]
    return tuple(dict.fromkeys(each if isinstance(each, Requirement) else Requirement.parse(each) for each in items))


def _checked_bound(measure: str, rates: Sequence[Rate], bound: _Bound) -> _Bound:
    """A bound that means something: a number within what the measure can be."""
    if bound == TODAY:
        return TODAY
    if isinstance(bound, People):
        if measure == "accepted" and type(bound.number) is int and 0 < bound.number <= _MOST_PEOPLE:
            return bound
        raise InputError(f"require: got {bound.number!r} people; {_PEOPLE}, and for 'accepted' alone.")
    number, shares = as_number(bound), all(rate.is_share for rate in rates)
    if not abs(number) <= LARGEST_BOUND:
        raise InputError(f"require: got the bound {shown(bound)}; pass a number, or 'today'.")
    if measure == "ratio" and not shares:
        raise InputError("require: a ratio compares shares of people; use a gap for rates of your own.")
    if measure == "ratio" and not 0.0 < number <= 1.0:
        raise InputError(f"require: got a ratio of {number:g}; it is above 0 and at most 1, such as 0.8.")
    if measure == "gap" and (number < 0.0 or (shares and number >= 1.0)):
        raise InputError(
            f"require: got a gap of {number:g}; it is at least 0, and below 1 between shares of people: write 0.02 for "
            "2 points."
        )
    if measure.startswith("cost"):
        if number < 0.0:
            raise InputError(f"require: got a cost loss of {number:g}; it is 0 or more, per person.")
        return number + 0.0  # no -0.0
    if shares and not (-1.0 if measure == "difference" else 0.0) <= number <= 1.0:
        means = {
            "accuracy": "a loss of accuracy lies between 0 and 1: write 0.01 for 1 point",
            "precision": "precision lies between 0 and 1: write 0.6 for 60 percent",
        }.get(measure.partition(" ")[0], "rates lie between 0 and 1: write 0.6 for 60 percent, or 'today'")
        raise InputError(f"require: got a bound of {number:g}; {means}.")
    return number + 0.0  # no -0.0


def _name_of(word: str) -> str | None:
    """The group, site or rate that a word may stand for; None: it is none."""
    if _QUOTED.fullmatch(word):
        return word[1:-1].replace('""', '"')
    return word if _BARE.fullmatch(word) and word not in _KEYWORDS and word != "-" else None


def name_text(name: str) -> str:
    """A name as it is typed: in quotes where it could be taken for something else."""
    return name if _name_of(name) == name else '"{}"'.format(name.replace('"', '""'))


def population_name(population: Population) -> str:
    """A population in words."""
    return " and ".join(each if isinstance(each, str) else "=".join(each) for each in population) or "everyone"


def _member(given: Any) -> Member:
    """A group that people belong to: its value, or its column and value."""
    if isinstance(given, tuple):
        column, value = given
        return str(column), str(value)
    return str(given)


def _member_text(member: Member) -> str:
    """The same as it is typed."""
    return name_text(member) if isinstance(member, str) else "=".join(map(name_text, member))


class _Sentence:
    """A sentence, word by word, and what might have stood at the furthest word that was understood."""

    def __init__(self, text: str, rates: dict[str, Rate]) -> None:
        self.text, self.rates, self.words = text, rates, _WORD.findall(text.rstrip())
        self.furthest, self.allowed = 0, dict[str, None]()

    def requirement(self) -> Requirement:
        """What it says; an InputError points at the first word that cannot stand where it does."""
        for measure, known in _MEASURES.items():
            for subject, relation, bound in product(known.subjects, known.relations, known.bounds):
                for found, end in self._matches(f"{subject} {relation} {bound} SCOPE".split(), 0):
                    if end == len(self.words):
                        return self._made(measure, relation, found)
                    self._expected(end, "the end")
        if self.words[:1] == ["precision"] and self.words[1:2] in (["gap"], ["ratio"]):
            raise InputError(
                f"require: {shown(self.text)}: a {self.words[1]} in precision is not linear in who is accepted, so no "
                "rule could be proved best; require the precision of each group, such as 'precision of women >= 0.6 "
                "overall'."
            )
        if self.words[:1] == ["accepted"] and self.words[self.furthest : self.furthest + 1] == ["people"]:
            raise InputError(f"require: {shown(self.text)}: {_PEOPLE}.")
        got = self.words[self.furthest] if self.furthest < len(self.words) else "the end"
        allowed = list(self.allowed)
        near = nearest_name(got, [each.strip("'") for each in allowed])
        may = f"{', '.join(allowed[:-1])} or {allowed[-1]}" if len(allowed) > 1 else allowed[0]
        shown_got = got if got == "the end" or _QUOTED.fullmatch(got) else shown(got)
        raise InputError(f"require: {shown(self.text)}: {shown_got} stands where {may} may{near}.")

    def _made(self, measure: str, relation: str, found: list[tuple[str, Any]]) -> Requirement:
        """The requirement of what the phrases mean, in their order."""

        def of(*symbols: str) -> tuple[Any, ...]:
            return tuple(value for symbol, value in found if symbol in symbols)

        try:
            return Requirement(
                measure=measure,
                rates=of("RATES", "RATE", "OWN"),
                who=tuple(map(tuple, of("WHO", "GROUPS"))),
                by=(*of("BY", "COLUMNS"), ())[0],
                relation=relation,
                bound=(*of("NUMBER", "PEOPLE"), TODAY)[0],
                scope=Scope(*of("SCOPE", "SITES")),
            )
        except InputError as error:
            raise InputError(f"require: {shown(self.text)}: {str(error).removeprefix('require: ')}") from None

    def _matches(self, form: Sequence[str], at: int) -> Iterator[tuple[list[tuple[str, Any]], int]]:
        """Ways in which the words from one on begin with a form: what they mean by symbol, and the next word."""
        if not form:
            yield [], at
            return
        for found, then in self._match_first(form, at):
            for more, end in self._matches(form[1:], then):
                yield found + more, end

    def _match_first(self, form: Sequence[str], at: int) -> Iterator[tuple[list[tuple[str, Any]], int]]:
        """The same for the first word of a form."""
        symbol, word = form[0], self.words[at] if at < len(self.words) else ""
        if symbol in _PHRASES:
            for phrase, values in _PHRASES[symbol].items():
                for found, end in self._matches(phrase.split(), at):
                    yield [*((symbol, value) for value in values), *found], end
        elif symbol in _LISTS:
            names, end = self._listed(at, *_LISTS[symbol])
            if names:
                yield [(symbol, names)], end
        elif symbol.isupper():
            value, expected = self._read(symbol, word)
            if value is not None:
                yield [(symbol, value)], at + 1
            for each in expected if value is None else ():
                self._expected(at, each)
        elif word == symbol:
            yield [], at + 1
        else:
            self._expected(at, repr(" ".join(takewhile(str.islower, form)) or symbol))

    def _read(self, symbol: str, word: str) -> tuple[Any, Iterable[str]]:
        """What a single word means, None where it is another kind of word, and what may stand for it."""
        name = _name_of(word)
        if symbol == "NUMBER":
            return float(word) if _NUMBER.fullmatch(word) else None, ["a number"]
        if symbol == "PEOPLE":
            return People(int(word)) if _COUNT.fullmatch(word) else None, ["a whole number"]
        if symbol == "NAME":
            return name, ["a name"]
        if symbol == "GROUP":
            pair = _PAIR.fullmatch(word)
            parts = [] if pair is None else [_name_of(part) for part in pair.groups()]
            return name if None in parts or not parts else tuple(parts), ["a name"]
        return None if name is None else self.rates.get(name), map(name_text, self.rates)

    def _listed(self, at: int, kind: str, between: str) -> tuple[list[Any], int]:
        """What words mean that stand between others of their kind, and the word after them; none where one is not."""
        found: list[Any] = []
        while True:
            value, expected = self._read(kind, self.words[at] if at < len(self.words) else "")
            if value is None:
                for each in expected:
                    self._expected(at, each)
                return [], at
            found.append(value)
            at += 1
            self._expected(at, repr(between))
            if at >= len(self.words) or self.words[at] != between:
                return found, at
            at += 1

    def _expected(self, at: int, what: str) -> None:
        """Note what might have stood at a word, if none further on was reached."""
        if at > self.furthest:
            self.furthest, self.allowed = at, {}
        if at == self.furthest:
            self.allowed[what] = None
