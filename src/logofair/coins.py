"""Reproducible coins: a keyed 64-bit mix of a record's id, or of its row position.

The same key and id always give the same number in [0, 1), on any machine: a person who is decided upon twice gets
the same answer twice. The mix is SplitMix64's finaliser (Steele, Lea and Flood 2014), applied to the key and the id
(text: character by character). It is fair, not secret: whoever knows the key can foretell the coin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.inputs import Floats, InputError

Words = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: Words) -> Words:
    """SplitMix64's finaliser, in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


def _uniform(words: Words) -> Floats:
    """The top 53 bits as a number in [0, 1)."""
    return np.asarray((words >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def row_coins(n: int, seed: int) -> Floats:
    """One coin per row position."""
    return _coins(np.arange(n, dtype=np.uint64), seed)


def id_coins(ids: npt.NDArray[Any], key: int) -> Floats:
    """One coin per record id (integers or text).

    Examples
    --------
    >>> import numpy as np
    >>> coins = id_coins(np.array(["ann", "bob", "ann"]), key=7)
    >>> bool(coins[0] == coins[2]), bool(coins[0] == coins[1])
    (True, False)
    """
    if ids.dtype.kind in "bui":
        return _coins(ids.astype(np.uint64), key)
    if ids.dtype.kind == "O" and any(isinstance(i, int | np.integer) for i in ids):
        if not all(isinstance(i, int | np.integer) for i in ids):
            raise InputError("ids: integers and text are mixed; use one kind, so that the same id has one spelling.")
        return _coins(np.array([int(i) % 2**64 for i in ids], dtype=np.uint64), key)
    if ids.dtype.kind not in "OUS":
        raise InputError(f"ids: expected integers or text, got values of type {ids.dtype}.")
    return _text_coins(ids.astype(np.str_), key)


def _coins(words: Words, key: int) -> Floats:
    with np.errstate(over="ignore"):
        mixed = words * _GOLDEN
        mixed += _mix(np.array([key % 2**64], dtype=np.uint64))[0]
        return _uniform(_mix(mixed))


def _text_coins(ids: npt.NDArray[np.str_], key: int) -> Floats:
    width = ids.dtype.itemsize // 4
    characters = (
        np.ascontiguousarray(ids).view(np.uint32).reshape(ids.size, width) if width else np.zeros((ids.size, 0))
    )
    state = np.zeros(ids.size, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for position in range(width):
            character = characters[:, position].astype(np.uint64)
            # numpy pads shorter texts with zeros: padding must not change the coin
            present = character != 0
            stepped = _mix(state * _GOLDEN + character + np.uint64(position + 1))
            state = np.where(present, stepped, state)
    return _coins(state, key)
