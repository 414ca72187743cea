"""Numbers and names as people read them: points and percent, three digits, names cut in the middle."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate

from logofair.columns.checks import Label
from logofair.columns.harmless import harmless
from logofair.records import Intersection

NOTHING = "–"  # stands where there is no figure
_LONGEST_NAME = 60
_UNCUT = 10_000  # columns, which no name needs


def points(value: float | None, digits: int = 1) -> str:
    """Return a share in percentage points, or in percent.

    Examples
    --------
    >>> points(0.154), points(0.01), points(-0.00004), points(None)
    ('15.4', '1.0', '0.0', '–')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{100.0 * value:.{digits}f}"
    return text if float(text) else text.removeprefix("-")


def short_number(value: float | None) -> str:
    """Return a number with three digits that matter, never in exponents.

    Examples
    --------
    >>> short_number(0.27134), short_number(12345.6), short_number(2.0), short_number(0.0000031)
    ('0.271', '12,346', '2', '0.0000031')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(decimals, 8)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def in_objective(objective: str, difference: float, digits: int = 1) -> str:
    """Return a difference in what rules are best in: accuracy, or cost per person.

    Examples
    --------
    >>> in_objective("accuracy", 0.0213), in_objective("accuracy", 0.0213, 2), in_objective("cost", 0.0213)
    ('2.1 points of accuracy', '2.13 points of accuracy', '0.0213 per person')
    """
    return (
        f"{points(difference, digits)} points of accuracy"
        if objective == "accuracy"
        else f"{short_number(difference)} per person"
    )


def limit_points(value: float) -> str:
    """Return a limit in points, as few digits as it was typed with.

    Examples
    --------
    >>> limit_points(0.02), limit_points(0.015), limit_points(0.7)
    ('2', '1.5', '70')
    """
    return f"{100.0 * value:.6g}"


def in_words(number: str) -> str:
    """Return a number of points as it is written.

    Examples
    --------
    >>> in_words("1"), in_words("1.0"), in_words("20")
    ('1 point', '1.0 points', '20 points')
    """
    return f"{number} point{'' if number == '1' else 's'}"


def span(low: float | None, high: float | None, *, apart: float | None = None) -> str:
    """Return from where to where a figure in points could lie: no more exact than useful, and rounded outward.

    ``apart``: a limit, which an end on one side of it is not rounded to, nor beyond.

    Examples
    --------
    >>> span(0.0, 0.171), span(0.0161, 0.0204), span(None, 0.05), span(0.136, None)
    ('0 to 18', '1.6 to 2.1', 'up to 5', 'at least 13')
    >>> span(0.0, 0.046, apart=0.1), span(0.0, 0.046, apart=0.05), span(0.084, 0.16, apart=0.08)
    ('0 to 5', '0.0 to 4.6', '8.4 to 16.0')
    """
    ends = [
        (round(100.0 * end, 6), outward) for end, outward in ((low, math.floor), (high, math.ceil)) if end is not None
    ]
    if not ends:
        return NOTHING
    narrow = ends[1][0] - ends[0][0] < 3.0 if len(ends) == 2 else ends[0][0] < 1.0
    limit = math.inf if apart is None else round(100.0 * apart, 6)

    def rounded(digits: int) -> list[float]:
        return [outward(round(end * 10**digits, 6)) / 10**digits for end, outward in ends]

    def keeps_apart(digits: int) -> bool:
        pairs = zip(rounded(digits), ends, strict=True)
        return all((shown < limit, shown > limit) == (end < limit, end > limit) for shown, (end, _) in pairs)

    digits = next(filter(keeps_apart, range(narrow, 4)), int(narrow))
    shown = list(dict.fromkeys(f"{end:.{digits}f}" for end in rounded(digits)))
    return " to ".join(shown) if len(ends) == 2 else f"{'up to' if low is None else 'at least'} {shown[0]}"


def counted(number: float, what: str, many: str | None = None) -> str:
    """Return a number of things.

    Examples
    --------
    >>> counted(1, "site"), counted(1200, "site"), counted(2, "person", "people")
    ('1 site', '1,200 sites', '2 people')
    """
    return f"{number:,.0f} {what if number == 1 else many or plural(what)}"


def plural(word: str) -> str:
    """Return the plural of an English noun such as people call their places.

    Examples
    --------
    >>> [plural(word) for word in ("site", "city", "branch", "bay")]
    ['sites', 'cities', 'branches', 'bays']
    """
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


def people(number: float) -> str:
    """Return a number of people."""
    return counted(number, "person", "people")


def name_of(label: Label | None, most: int = _LONGEST_NAME) -> str:
    """Return the name of a site or a group; parts of an intersection stand beside one another, a long one is cut.

    Examples
    --------
    >>> name_of(("women", "over 60")), name_of(7), name_of(""), name_of("Department of Dermatology", 12)
    ('women, over 60', '7', '(blank)', 'Depart…ology')
    """
    beside = isinstance(label, tuple) and not isinstance(label, Intersection)
    name = ", ".join(map(str, label)) if beside else str(label)  # type: ignore[call-overload]
    return cut(harmless(name).replace("\n", " ").replace("\t", " ") or "(blank)", most)


def names_of(labels: Sequence[Label | None], most: int = _LONGEST_NAME) -> list[str]:
    """Return names that are told apart however short they are cut: what all begin with is cut first.

    Examples
    --------
    >>> names_of(["women", "men"], 12), names_of(["born in the northern region", "born in the southern region"], 12)
    (['women', 'men'], ['bor…northern', 'bor…southern'])
    """
    short, whole = ([name_of(label, room) for label in labels] for room in (most, _UNCUT))
    if len(set(short)) == len(set(whole)):
        return short
    alike = {each: [name for name, own in zip(whole, short, strict=True) if own == each] for each in short}
    begin = {each: _begin_alike(names).rfind(" ") + 1 for each, names in alike.items()}
    return [
        f"{name[: most // 4]}…{_first(name[begin[own] :], most - most // 4 - 1)}" if len(alike[own]) > 1 else own
        for name, own in zip(whole, short, strict=True)
    ]


def _begin_alike(names: Sequence[str]) -> str:
    """The letters with which all names begin."""
    first, last = min(names), max(names)
    differ = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differ, len(first))]


def _first(text: str, most: int) -> str:
    """As many letters from the front as fit so many columns, whole words where there are any."""
    while width(text) > most:
        text = text.rpartition(" ")[0] or text[:-1]
    return text


def group_names(labels: Sequence[Label | None], most: int = _LONGEST_NAME) -> list[str]:
    """Return names of groups within a sentence: a number by itself would be read with the figures beside it.

    Examples
    --------
    >>> group_names(["women", 2])
    ['women', 'group 2']
    """
    names = names_of(labels, most)
    return [f"group {name}" if name.replace(".", "", 1).isdigit() else name for name in names]


def group_name(label: Label | None, most: int = _LONGEST_NAME) -> str:
    """Return the name of one group within a sentence, as `group_names` does."""
    return group_names([label], most)[0]


def fitting(parts: Sequence[str], room: int, least: int = 1) -> int:
    """Return how many parts of a list fit so many columns, ``least`` at least.

    Examples
    --------
    >>> fitting(["women", "men", "others"], 12)
    2
    """
    ends = accumulate(width(part) + 2 for part in parts)
    return max(least, sum(end - 2 <= room for end in ends))


def cut(text: str, most: int) -> str:
    """Return text of at most so many columns, what is too much cut out of its middle."""
    if width(text) <= most:
        return text
    head, tail = text[: most // 2 + most % 2], text[len(text) - (most - 1) // 2 :]
    while width(head) + 1 + width(tail) > most:  # letters that are two columns wide
        head, tail = (head[:-1], tail) if width(head) >= width(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    without = sum(bool(unicodedata.combining(letter)) or letter in "\u200b\u200d\ufe0f" for letter in text)
    return len(text) + wide - without


def listed(names: Iterable[object], most: int = 4, last: str = " and ") -> str:
    """Return names as a sentence lists them; beyond so many the others are counted.

    Examples
    --------
    >>> listed(["a"]), listed("abc"), listed("abcdefg", 3)
    ('a', 'a, b and c', 'a, b, c and 4 more')
    """
    every = [each if isinstance(each, str) else str(each) for each in names]
    if len(every) > most:
        return f"{', '.join(every[:most])} and {len(every) - most:,} more"
    return last.join(part for part in (", ".join(every[:-1]), *every[-1:]) if part)


def capitalised(words: str) -> str:
    """Return words with a capital at their head, and all others as they are."""
    return f"{words[:1].upper()}{words[1:]}"


def sentence(words: str) -> str:
    """Return words as a sentence."""
    return f"{capitalised(words)}{'' if words.endswith(('.', '?', '!')) else '.'}"


def wrapped(text: str, most: int, first: int = 0) -> list[str]:
    """Return text as lines of at most so many columns, the first shorter by ``first``."""
    lines: list[str] = [""]
    room = most - first
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer) > room and lines[-1]:
            lines.append(word)
            room = most
        else:
            lines[-1] = longer
    return lines


def columns_text(lines: Sequence[Sequence[str]], align: str, *, apart: int = 3) -> list[str]:
    """Return lines of cells below one another; ``align`` has an l or an r for each column."""
    widths = [max((width(line[at]) for line in lines), default=0) for at in range(len(align))]

    def padded(text: str, at: int) -> str:
        space = " " * (widths[at] - width(text))
        return space + text if align[at] == "r" else text + space

    return [(" " * apart).join(padded(cell, at) for at, cell in enumerate(line)).rstrip() for line in lines]
