"""Reproducible coins, and rows on which chance decides: each by its own coin, or all in one pass with exact counts.

A coin is a keyed 64-bit mix of a row's site, its group, and its id or position.

The same key, site, group and id always give the same number in [0, 1), on any machine: a person who is decided upon
twice gets the same answer twice. Another policy (its key is another), site or group tosses another coin, so that
nobody is unlucky everywhere and sites whose ids run alike do not accept alike. The mix is SplitMix64's finaliser
(Steele, Lea and Flood 2014), applied to one word after another (text: character by character). It is fair, not secret:
whoever knows the key can foretell the coin.

The pass is systematic sampling (Madow 1949): rows lie one after another on a line, each as long as its chance, and of
the points ``start``, ``start + 1``, ``start + 2``, ... each accepts the row that it falls on. A stretch of the line of
length s holds s points but for less than one. So where the rows of a cell follow each other, and so do the cells of a
site, every cell, every site and all together are within one of their summed chances; and where the start is
uniform, each row keeps its chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Integers, column
from logofair.columns.segments import Booleans
from logofair.errors import InputError

Words = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PRIME = 2**64 - 59


def _mix(words: Words) -> Words:
    """SplitMix64's finaliser, in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


def coin_words(words: Words, places: Words, key: int) -> Words:
    """One random word per row, by the key, the word of its site and group (:func:`place_words`) and its own word."""
    # The mix of 0 is 0: unless the key is moved first, id 0 under key 0 would always win.
    start = _mix(np.array([(key + int(_GOLDEN)) % 2**64], dtype=np.uint64))
    return _step(words, _step(places, start))


def coins(random: Words) -> Floats:
    """One coin per random word: its top 53 bits as a number in [0, 1)."""
    return np.asarray((random >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def place_words(sites: Sequence[str], groups: Sequence[str]) -> Words:
    """The words of all sites' groups by their texts, site by site; last the groups of sites not known."""
    site_words, group_words = (_text_words(np.array(names, dtype=np.str_)) for names in (sites, groups))
    # The word of no text at all: no site's.
    site_words = np.append(site_words, np.uint64(0))
    return _step(np.tile(group_words, site_words.size), np.repeat(site_words, group_words.size))


def _step(words: Words, state: Words) -> Words:
    """Mix the next word into a state."""
    with np.errstate(over="ignore"):
        return _mix(words * _GOLDEN + state)


def read_ids(ids: object) -> npt.NDArray[Any]:
    """Return a column of ids as 64-bit words (integers) or as text; raise on anything else."""
    # Left alone, numpy makes 1 into "1" beside text, and 2**63 beside -1 into a float.
    array = np.fromiter(ids, dtype=object, count=len(ids)) if isinstance(ids, list | tuple) else column(ids, "ids")
    if array.dtype.kind in "iu":
        return array.astype(np.uint64)
    if array.dtype.kind == "U":
        return array.astype(array.dtype.newbyteorder("="))
    rows = array.tolist()
    types = set(map(type, rows))
    if all(issubclass(t, str) for t in types):
        return np.array(rows, dtype=np.str_)
    if all(_is_whole(t) for t in types):
        # One that has more than 64 bits is reduced by a prime, so that each of its bits counts.
        numbers = [int(i) for i in rows]
        return np.array([i % 2**64 if -(2**63) <= i < 2**64 else i % _PRIME for i in numbers], dtype=np.uint64)
    for row, value in enumerate(rows):
        if not (isinstance(value, str) or _is_whole(type(value))):
            raise InputError(f"ids: row {row} is {value!r}; ids are integers or text, and none may be missing.")
    raise InputError("ids: integers and text are mixed; use one kind, so that the same id has one spelling.")


def _is_whole(kind: type) -> bool:
    return issubclass(kind, int | np.integer) and kind is not bool


def id_words(ids: object) -> Words:
    """One word per id (integers or text)."""
    array = read_ids(ids)
    return array if array.dtype.kind == "u" else _text_words(array)


def _text_words(texts: npt.NDArray[np.str_]) -> Words:
    width = texts.dtype.itemsize // 4
    characters = (
        np.ascontiguousarray(texts).view(np.uint32).reshape(texts.size, width) if width else np.zeros((texts.size, 0))
    )
    state = np.zeros(texts.size, dtype=np.uint64)
    for position in range(width):
        character = characters[:, position].astype(np.uint64)
        # numpy pads shorter texts with zeros: padding must not change the word
        state = np.where(character != 0, _step(state, character + np.uint64(position + 1)), state)
    return state


@dataclass(frozen=True, eq=False)
class Tosses:
    """Rows as far as they are decided without chance, and what decides on the others.

    ``decided`` is of all rows, 0 where chance decides: on ``rows``, whose chances of acceptance, numbers of their
    cells and random words (:func:`coin_words`) are ``chance``, ``cells`` and ``words``.
    """

    decided: npt.NDArray[np.int64]
    rows: npt.NDArray[np.intp]
    chance: Floats
    cells: Integers
    words: Words

    def decisions(self, accepted: Booleans) -> npt.NDArray[np.int64]:
        """All decisions, given which of the rows on which chance decides are accepted."""
        self.decided[self.rows] = accepted
        return self.decided

    def by_coin(self) -> Booleans:
        """Which rows are accepted where each has a coin of its own."""
        return np.asarray(coins(self.words) < self.chance)


def exact_counts(chance: Floats, cells: Integers, words: Words) -> Booleans:
    """Which rows are accepted, so that every run of cells is within one of its summed chances.

    By what is known of the rows, not by their order. The start is the sum of all random words: as uniform as a coin,
    of a single row its own coin, and another in another batch, so that batches are not all lucky at the same places.
    """
    order = np.lexsort((chance, words, cells))  # rows that share an id and a cell by their chances
    accepted = np.empty(order.size, dtype=np.bool_)
    accepted[order] = in_steps(chance[order], words.sum(dtype=np.uint64))
    return accepted


def in_steps(chance: Floats, start: np.uint64) -> Booleans:
    """Which rows, in this order, the points ``start``, ``start + 1``, ... fall on; ``start`` in steps of 2**-64.

    Chances between 0 and 1 are counted in the same steps. Whole numbers of 64 bits wrap round at 1, which is all that
    matters here, and lose nothing: a sum of floats would drift.

    Examples
    --------
    >>> in_steps(np.full(8, 0.25), np.uint64(2**63)).tolist()
    [False, False, True, False, False, False, True, False]
    """
    length = (chance * 2.0**64).astype(np.uint64)
    begins = np.cumsum(length, dtype=np.uint64) - length
    return np.asarray(start - begins < length)
