"""A completed sum as it is passed on to every site: from it each of them recomputes the total that the server has.

The server rebuilds the secrets that take the masks off; a seed must fit the commitment that its site signed with its
vector, and a private mask key its public half. So whoever holds the signed contributions and these secrets has the
total, and cannot be shown another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import GarbledTotalError
from logofair.federation.exchange import Body
from logofair.federation.secure.messages import Contributed, Unmasked, is_blobs
from logofair.federation.secure.primitives import KEY_SIZE, Words, combine, decoded, pair_mask, public_half, self_mask
from logofair.federation.secure.roster import Roster, context


def seed_commitment(mask_seed: bytes) -> bytes:
    """What a site signs of its seed before anybody may rebuild it."""
    return hashlib.sha256(context("seed", mask_seed)).digest()


def list_statement(digest: bytes, fingerprints: Mapping[str, bytes]) -> bytes:
    """What contributors sign of the list of contributions to the sum with this digest."""
    parts = [part for site in sorted(fingerprints) for part in (site, fingerprints[site])]
    return context("list of contributions", digest, *parts)


@dataclass(frozen=True)
class Relay(Body):
    """The signed contributions to a sum and the secrets that are left of its masks."""

    roster: int
    number: int
    contributions: dict[str, Contributed] = field(repr=False)
    seeds: dict[str, bytes] = field(repr=False)  # of the contributors' own masks
    mask_keys: dict[str, bytes] = field(repr=False)  # private ones of participants that did not contribute

    @classmethod
    def of(cls, roster: Roster, contributions: Mapping[str, Contributed], shares: Mapping[str, Unmasked]) -> Relay:
        """Rebuild the secrets from the shares that sites handed out."""
        answering = sorted(shares)[: roster.threshold]
        first = shares[answering[0]]
        seeds, mask_keys = (
            {
                site: combine({roster.place(one): getattr(shares[one], kind)[site] for one in answering})
                for site in sorted(getattr(first, kind))
            }
            for kind in ("seeds", "mask_keys")
        )
        return cls(roster.number, first.number, dict(contributions), seeds, mask_keys)

    def well_formed(self, number: int, length: int, participants: Mapping[str, bytes]) -> bool:
        """Whether every field has its form, for a sum of this length among these participants."""
        if not (self.number == number and isinstance(self.contributions, dict)):
            return False
        gone = set(participants) - set(self.contributions)
        named = set(self.contributions) <= set(participants)
        formed = is_blobs(self.seeds, self.contributions, KEY_SIZE) and is_blobs(self.mask_keys, gone, KEY_SIZE)
        return (
            named
            and formed
            and all(
                isinstance(each, Contributed) and each.is_contribution(site, number, length)
                for site, each in self.contributions.items()
            )
        )

    def total(self, digest: bytes, steps: Floats, mask_keys: Mapping[str, bytes]) -> Floats:
        """The contributors' total, given the participants' public mask keys; raise where it is none."""
        words = np.zeros(len(steps) + 1, dtype=np.uint64)
        for contribution in self.contributions.values():
            words = words + np.frombuffer(contribution.vector, dtype="<u8")
        words = words - self._remaining_masks(digest, words.size, mask_keys)
        total, count = decoded(words, steps)
        if count != len(self.contributions):
            raise GarbledTotalError(
                f"sum {self.number}: the masks did not cancel; a site could not answer, had another request or sent "
                "rubbish, and masks hide which: have every site look at its screen, then start a new run."
            )
        beyond = np.flatnonzero(~(np.abs(total) <= np.array(steps) * 2.0**62))
        if beyond.size:
            raise GarbledTotalError(
                f"sum {self.number}: entry {beyond[0]} of the total is beyond its limit; a site sent an impossible "
                "value, and masks hide which: have every site check its data, then start a new run."
            )
        return total

    def _remaining_masks(self, digest: bytes, length: int, mask_keys: Mapping[str, bytes]) -> Words:
        """Self masks of the contributors, and their pairwise masks with participants that did not contribute."""
        total = np.zeros(length, dtype=np.uint64)
        for site, mask_seed in self.seeds.items():
            _check_rebuilt("seed", seed_commitment(mask_seed) == self.contributions[site].commitment)
            total = total + self_mask(mask_seed, digest, length)
        contributors = {site: mask_keys[site] for site in self.contributions}
        for site, private in self.mask_keys.items():
            _check_rebuilt("mask key", public_half(private) == mask_keys[site])
            # What the missing site would have added are the negatives of what contributors added for it.
            total = total - pair_mask(private, contributors, site, digest, length)
        return total


def _check_rebuilt(what: str, fits: bool) -> None:
    if not fits:
        raise GarbledTotalError(
            f"unmask: the shares of a {what} do not fit together; a site sent rubbish: start a new run."
        )
