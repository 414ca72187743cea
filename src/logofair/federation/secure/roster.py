"""The sites of a run, how many of them a sum takes, why a site refuses, and bytes that bind a message to its place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from logofair.columns.checks import Floats
from logofair.errors import SecureRefusalError

_FEWEST = 3


def context(label: str, *parts: bytes | str | int) -> bytes:
    """Label and parts as bytes that no other label or parts give: each is preceded by its length."""
    pieces = [part if isinstance(part, bytes) else str(part).encode() for part in (label, *parts)]
    return b"logofair secure sums 1" + b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces)


class SecureRefusal(Enum):
    """Why a site refuses; the code is all that it tells."""

    TOO_FEW_SITES = "too_few_sites"  # fewer than three sites, or fewer than two thirds of the roster
    UNKNOWN_SITE = "unknown_site"  # a site that is not on the roster, or whose public key this site does not have
    BAD_SIGNATURE = "bad_signature"  # a key that its site has not signed for this run, roster and name
    BAD_KEY = "bad_key"  # a message that is no key, or this site's own key altered on the way
    BAD_SEAL = "bad_seal"  # a sealed share that was altered, or made for another sum, roster or site
    OUT_OF_RANGE = "out_of_range"  # an own value that is not finite, or too large for the sum not to wrap
    OUT_OF_ORDER = "out_of_order"  # a stage or sum number that goes back or skips
    OTHER_REQUEST = "other_request"  # another request came under the same number before, and was answered
    LEFT_OUT = "left_out"  # the sites named do not include this site, which takes part, or not what it contributed
    BAD_RELAY = "bad_relay"  # what was passed on of the last sum is not what its contributors signed, or gives no total
    ROSTER_CHANGED = "roster_changed"  # a site of the first total is missing, and this one has not agreed to that


@dataclass(frozen=True)
class Roster:
    """The sites of one run, in order; a later roster of the same run has a higher number."""

    run: str
    number: int
    sites: tuple[str, ...]

    @classmethod
    def of(cls, run: str, sites: Iterable[str], number: int = 1) -> Roster:
        """Order the sites; refuse fewer than three."""
        roster = cls(run, number, tuple(sorted(set(sites))))
        if len(roster.sites) < _FEWEST:
            raise SecureRefusalError(SecureRefusal.TOO_FEW_SITES)
        return roster

    @property
    def threshold(self) -> int:
        """Shares that rebuild a secret: all but a third, so that a third may vanish.

        More than half, so that no two sets of this size are disjoint: nobody's two secrets can both be rebuilt from
        sites that each answer once.
        """
        return len(self.sites) - len(self.sites) // 3

    @property
    def fewest(self) -> int:
        """Contributors without whom no total is formed."""
        return max(_FEWEST, self.threshold)

    @cached_property
    def digest(self) -> bytes:
        """Stands for run, number and sites in everything that is signed, sealed or masked."""
        return hashlib.sha256(context("roster", json.dumps([self.run, self.number, self.sites]))).digest()

    def place(self, site: str) -> int:
        """Where the site's shares are taken: 1, 2, ..."""
        return self.sites.index(site) + 1

    def check_enough(self, sites: Collection[str]) -> None:
        """Refuse a set of sites that is not of this roster, or too small for a total."""
        if not set(sites) <= set(self.sites):
            raise SecureRefusalError(SecureRefusal.UNKNOWN_SITE)
        if len(set(sites)) < self.fewest:
            raise SecureRefusalError(SecureRefusal.TOO_FEW_SITES)

    def sum_digest(self, number: int, history: bytes, steps: Floats, participants: Iterable[str]) -> bytes:
        """Digest of all that sites must agree on for their masks to cancel."""
        return hashlib.sha256(
            context("sum", self.digest, number, history, steps.astype("<f8").tobytes(), *sorted(participants))
        ).digest()
