"""Why a site does not answer, and why a server has no total: codes and sentences that hold no data."""

from __future__ import annotations

from enum import Enum

__all__ = ["GarbledTotal", "Refusal", "Refused", "SumFailed"]


class Refusal(Enum):
    """Why a site refuses; the code is all that it tells.

    Examples
    --------
    >>> Refusal("out_of_order") is Refusal.OUT_OF_ORDER
    True
    """

    TOO_FEW_SITES = "too_few_sites"
    """Fewer than three sites, or fewer than two thirds of the roster."""
    UNKNOWN_SITE = "unknown_site"
    """A site that is not on the roster, or whose public key this site does not have."""
    BAD_SIGNATURE = "bad_signature"
    """A key that its site has not signed for this run, roster and name."""
    BAD_KEY = "bad_key"
    """A message that is no key, or this site's own key altered on the way."""
    BAD_SEAL = "bad_seal"
    """A sealed share that was altered, or made for another sum, roster or site."""
    OUT_OF_RANGE = "out_of_range"
    """An own value that is not finite, or too large for the sum not to wrap."""
    OUT_OF_ORDER = "out_of_order"
    """A stage or sum number that goes back or skips."""
    ASKED_OTHERWISE = "asked_otherwise"
    """Something else was asked under the same number before, and answered."""
    LEFT_OUT = "left_out"
    """The sites named do not include this site, which takes part."""
    ROSTER_CHANGED = "roster_changed"
    """A site that took part in the first total is missing, and this site has not agreed to go on without it."""


class Refused(Exception):
    """A site refuses; nothing about its data is in the message.

    Parameters
    ----------
    code
        The reason, all that may travel.

    Examples
    --------
    >>> print(Refused(Refusal.TOO_FEW_SITES))
    refused: too_few_sites
    """

    def __init__(self, code: Refusal) -> None:
        super().__init__(f"refused: {code.value}")
        self.code = code


class SumFailed(RuntimeError):
    """The server cannot form the total, say because too few sites answered; the sentence says what to do.

    Examples
    --------
    >>> isinstance(GarbledTotal("sum 3: ..."), SumFailed)
    True
    """


class GarbledTotal(SumFailed):
    """The masks did not cancel, or the total is impossible: somebody sent rubbish and nobody can tell who.

    Examples
    --------
    >>> raise GarbledTotal("sum 3: the masks did not cancel.")
    Traceback (most recent call last):
    logofair.federation.secure.refusals.GarbledTotal: sum 3: the masks did not cancel.
    """
