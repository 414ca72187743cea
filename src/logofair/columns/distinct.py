"""Equal rows found by hashing: text of a fixed width, or the objects of a column, numbered without sorting.

A row's words are hashed to a slot of a table, which keeps the first row that it gets; other rows are compared with that
one, word by word. The few that differ from it go to the next round, with another hash. So the answer is exact whatever
the hash does, and a million rows cost a few passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Integers
from logofair.columns.segments import Indices

Words = npt.NDArray[Any]  # unsigned integers, (rows, words)

_FIRST_BITS, _MOST_BITS = 16, 22  # of a table's size: the first round's stays in the cache and mostly suffices
_MOST_ROUNDS = 32  # only rows made to collide need more
_RUNS, _RUN = 64, 64  # objects looked at beforehand
_CHUNK = 1 << 15
_GOLDEN = 0x9E3779B97F4A7C15


def text_words(texts: npt.NDArray[np.str_]) -> Words:
    """The characters of each text as words: equal exactly where the texts are."""
    width = texts.dtype.itemsize // 4
    characters = np.zeros((texts.size, width), dtype=np.uint32)
    if characters.size:
        characters = np.ascontiguousarray(texts).view(np.uint32).reshape(texts.size, width)
    # Numpy keeps four bytes for each character, of which most texts need one: fewer words are hashed and compared.
    kind = np.min_scalar_type(int(characters.max(initial=0)))
    words = -(-max(width, 1) * kind.itemsize // 8)
    packed = np.zeros((texts.size, words * 8 // kind.itemsize), dtype=kind)
    for first in range(0, texts.size, _CHUNK):
        packed[first : first + _CHUNK, :width] = characters[first : first + _CHUNK]
    return packed.view(np.uint64)


def object_words(objects: npt.NDArray[np.object_]) -> Words:
    """The identity of each object of an array."""
    return np.frombuffer(np.ascontiguousarray(objects), dtype=np.uintp).reshape(-1, 1)


def distinct_rows(words: Words) -> tuple[Integers, Indices] | None:
    """Number the distinct rows: each row's number, and the first row of each number, rising.

    None where rows collide on purpose, so that a dictionary is faster.
    """
    numbers = np.empty(words.shape[0], dtype=np.int32)
    left: Indices | None = None  # None: all rows
    found: list[Indices] = []
    for turn in range(_MOST_ROUNDS):
        rows = words if left is None else words[left]
        rest = rows.shape[0]
        bits = _FIRST_BITS if turn == 0 else min(max(rest.bit_length() + 1, 8), _MOST_BITS)
        firsts, place, equal = _one_round(rows, turn, bits)
        place += sum(each.size for each in found)
        here = np.arange(rest) if left is None else left
        found.append(here[firsts])
        if left is None:
            numbers = place
        else:
            numbers[left[equal]] = place[equal]
        left = here[~equal]
        if left.size == 0:
            firsts = np.concatenate(found)
            order = np.argsort(firsts)
            rank = np.empty(order.size, dtype=np.int32)
            rank[order] = np.arange(order.size, dtype=np.int32)
            return rank[numbers], firsts[order]
    return None


def mostly_distinct(objects: Sequence[Any] | npt.NDArray[np.object_]) -> bool:
    """Whether of many rows, in runs sampled evenly, hardly two are the same object."""
    if len(objects) < 16 * _RUNS * _RUN:
        return False
    first = np.linspace(0, len(objects) - _RUN, _RUNS).astype(np.int64)
    some = {id(objects[row]) for row in (first[:, None] + np.arange(_RUN)).ravel().tolist()}
    return len(some) >= 0.999 * _RUNS * _RUN


def _one_round(rows: Words, turn: int, bits: int) -> tuple[Indices, Integers, npt.NDArray[np.bool_]]:
    """Each slot's first row, every row's slot in the order of these, and whether the row equals that first one."""
    slots = np.empty(rows.shape[0], dtype=np.int32)
    for first in range(0, slots.size, _CHUNK):
        slots[first : first + _CHUNK] = _slots(rows[first : first + _CHUNK], turn, bits)
    table = np.full(1 << bits, -1, dtype=np.int32)
    table[slots[::-1]] = np.arange(slots.size - 1, -1, -1, dtype=np.int32)  # of equal slots the last one written stays
    used = np.flatnonzero(table >= 0)
    firsts = table[used].astype(np.int64)
    table[used] = np.arange(used.size, dtype=np.int32)
    place, equal, known = table[slots], np.empty(slots.size, dtype=bool), rows[firsts]
    for first in range(0, slots.size, _CHUNK):
        piece = slice(first, first + _CHUNK)
        equal[piece] = True
        for word in range(rows.shape[1]):
            equal[piece] &= rows[piece, word] == known[place[piece], word]
    return firsts, place, equal


def _slots(rows: Words, turn: int, bits: int) -> npt.NDArray[np.uint64]:
    """A sum of the words, each times an odd number of its own, of which the upper bits depend on all."""
    factors = [np.uint64((_GOLDEN * (2 * (turn * rows.shape[1] + word) + 1)) % 2**64) for word in range(rows.shape[1])]
    hashed = rows[:, 0] * factors[0]
    for word in range(1, rows.shape[1]):
        hashed += rows[:, word] * factors[word]
    hashed ^= hashed >> np.uint64(32)  # a second word of text counts in the upper half alone
    hashed *= factors[0]
    return hashed >> np.uint64(64 - bits)
