"""Values as integers modulo 2^64, and the masks that hide them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from logofair.federation.secure.primitives import Words, agreed, derived, stream
from logofair.federation.secure.refusals import Refusal, Refused
from logofair.federation.secure.roster import bound
from logofair.inputs import Floats, InputError

__all__ = ["checked_steps", "decoded", "encoded", "pair_mask", "self_mask"]


def checked_steps(steps: Floats) -> Floats:
    """Return the fixed-point steps as an array, or say what is wrong with them."""
    array = np.asarray(steps, dtype=np.float64)
    if array.ndim != 1 or not np.all((array > 0) & np.isfinite(array)):
        raise InputError(
            "steps: expected one positive finite number per entry of the vector; pass the steps of the plan."
        )
    return array


def encoded(values: Floats, steps: Floats, sites: int) -> Words:
    """Values in units of their steps, and a one that will count the contributors; refuse what could wrap."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != steps.shape:
        raise InputError(f"values: got shape {array.shape} for {steps.size} steps; pass one value per step.")
    with np.errstate(over="ignore"):
        units = array / steps
    if not np.all(np.abs(units) <= 2.0**62 / sites):  # also where a value is not a number
        raise Refused(Refusal.OUT_OF_RANGE)
    return np.append(np.rint(units).astype(np.int64), 1).view(np.uint64)


def decoded(words: Words, steps: Floats) -> tuple[Floats, int]:
    """The totals, and the number of contributors they carry with them."""
    units = words.view(np.int64)
    return units[:-1].astype(np.float64) * steps, int(units[-1])


def self_mask(seed: bytes, question: bytes, length: int) -> Words:
    """The mask of one site that stays until its seed is rebuilt."""
    return stream(derived(seed, bound("self mask", question)), length)


def pair_mask(private: bytes, peer_keys: Mapping[str, bytes], site: str, question: bytes, length: int) -> Words:
    """A site's pairwise masks: added for later names, subtracted for earlier ones, so that they cancel."""
    total = np.zeros(length, dtype=np.uint64)
    for peer, public in peer_keys.items():
        mask = stream(agreed(private, public, bound("pair mask", question)), length)
        total = total + mask if site < peer else total - mask
    return total
