"""Why a site does not answer, and why a server has no total: codes and sentences that hold no data."""

from __future__ import annotations

from enum import Enum

__all__ = ["SecureRefusal"]


class SecureRefusal(Enum):
    """Why a site refuses; the code is all that it tells.

    Examples
    --------
    >>> SecureRefusal("out_of_order") is SecureRefusal.OUT_OF_ORDER
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
