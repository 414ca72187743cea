"""Who takes part in secure sums, and what travels: names, numbers and bytes, and the checks of their form.

What is decoded has the right type but not necessarily the right fields, so receivers call ``well_formed`` first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import GarbledTotalError, SecureRefusalError
from logofair.federation.exchange import Body
from logofair.federation.secure.primitives import (
    KEY_SIZE,
    SEAL_SIZE,
    SHARE_SIZE,
    SecureRefusal,
    Words,
    combine,
    context,
    decoded,
    pair_mask,
    public_half,
    self_mask,
)

PAIR_SIZE = 2 * SHARE_SIZE  # share of the mask key, then of the seed
SEALED_SIZE = PAIR_SIZE + SEAL_SIZE
DELIVERED_SIZE = KEY_SIZE + SEALED_SIZE
_FEWEST = 3


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


@dataclass(frozen=True)
class Keys(Body):
    """First exchange: a site's key for this run, signed with its long-term key."""

    site: str
    channel: bytes  # X25519 public key under which peers seal shares for the sender
    signature: bytes  # ECDSA P-384 over run, roster, name and ``channel``

    def well_formed(self, site: str) -> bool:
        """Whether every field has its form and the sender is ``site``."""
        return self.site == site and _is_bytes(self.channel, KEY_SIZE) and isinstance(self.signature, bytes)


@dataclass(frozen=True)
class SumMessage(Body):
    """What a site sends for one sum."""

    site: str
    number: int

    def _is_of(self, site: str, number: int) -> bool:
        return self.site == site and self.number == number


@dataclass(frozen=True)
class Material(SumMessage):
    """What a site deals for one sum to come; about 94 bytes per peer, unreadable to the server."""

    mask_key: bytes  # X25519 public key of the sender's pairwise masks in that sum; the seals vouch for it
    sealed: dict[str, bytes] = field(repr=False)  # for each peer: shares of the private mask key and of the seed

    def well_formed(self, site: str, number: int, peers: Collection[str]) -> bool:
        """Whether every field has its form and something is sealed for each peer."""
        formed = _is_bytes(self.mask_key, KEY_SIZE) and is_blobs(self.sealed, peers, SEALED_SIZE)
        return self._is_of(site, number) and formed

    def delivered(self, peer: str) -> bytes:
        """What the server passes on to one peer: the mask key, then what is sealed to the peer."""
        return self.mask_key + self.sealed[peer]


@dataclass(frozen=True)
class Contributed(SumMessage):
    """A site's masked numbers for a sum, signed, so that every site can recompute the total from them."""

    vector: bytes = field(repr=False)  # integers modulo 2^64, little-endian; the last one counts contributors
    commitment: bytes  # to the seed of the sender's own mask
    signature: bytes = field(repr=False)  # ECDSA P-384 over :meth:`statement`

    @property
    def fingerprint(self) -> bytes:
        """Stands for the contribution in what contributors confirm."""
        parts = context("contribution", self.site, self.number, self.vector, self.commitment)
        return hashlib.sha256(parts).digest()

    def statement(self, digest: bytes, mask_key: bytes) -> bytes:
        """What the site signs: its contribution and public mask key, for the sum with this digest."""
        return context("signed contribution", digest, mask_key, self.fingerprint)

    def is_contribution(self, site: str, number: int, length: int) -> bool:
        """Whether every field has its form; ``length`` counts the masked integers."""
        formed = _is_bytes(self.vector, 8 * length) and _is_bytes(self.commitment, KEY_SIZE)
        return self._is_of(site, number) and formed and isinstance(self.signature, bytes)


@dataclass(frozen=True)
class Masked(Contributed):
    """A site's contribution to a sum, and its material for the next."""

    material: Material  # for sum ``number + 1``

    @property
    def contribution(self) -> Contributed:
        """What is passed on to the other sites."""
        return Contributed(self.site, self.number, self.vector, self.commitment, self.signature)

    def well_formed(self, site: str, number: int, length: int, peers: Collection[str]) -> bool:
        """Whether every field has its form; ``length`` counts the masked integers."""
        formed = self.is_contribution(site, number, length)
        return formed and isinstance(self.material, Material) and self.material.well_formed(site, number + 1, peers)


@dataclass(frozen=True)
class Confirmed(SumMessage):
    """A contributor's signature of the list of contributions; before enough of them no share is handed out."""

    signature: bytes = field(repr=False)

    def well_formed(self, site: str, number: int) -> bool:
        """Whether every field has its form."""
        return self._is_of(site, number) and isinstance(self.signature, bytes)


@dataclass(frozen=True)
class Unmasked(SumMessage):
    """Shares that remove what is left of the masks from the contributors' total, and from nothing else."""

    seeds: dict[str, bytes] = field(repr=False)  # shares of the seeds of the contributors' own masks
    mask_keys: dict[str, bytes] = field(repr=False)  # shares of the mask keys of those who did not contribute

    def well_formed(self, site: str, number: int, contributors: Collection[str], missing: Collection[str]) -> bool:
        """Whether every field has its form and the shares are those requested."""
        shares = is_blobs(self.seeds, contributors, SHARE_SIZE) and is_blobs(self.mask_keys, missing, SHARE_SIZE)
        return self._is_of(site, number) and shares


def seed_commitment(mask_seed: bytes) -> bytes:
    """What a site signs of its seed before anybody may rebuild it."""
    return hashlib.sha256(context("seed", mask_seed)).digest()


def list_statement(digest: bytes, fingerprints: Mapping[str, bytes]) -> bytes:
    """What contributors sign of the list of contributions to the sum with this digest."""
    parts = [part for site in sorted(fingerprints) for part in (site, fingerprints[site])]
    return context("list of contributions", digest, *parts)


@dataclass(frozen=True)
class Relay(Body):
    """A completed sum as it is passed on to every site: from it each of them recomputes the total that the server has.

    It holds the signed contributions and the secrets that take the masks off, which the server rebuilds; a seed must
    fit the commitment that its site signed with its vector, and a private mask key its public half. So whoever holds
    all that has the total, and cannot be shown another one.
    """

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


def is_blobs(value: object, names: Collection[str], size: int) -> bool:
    """Whether a value maps exactly these names to bytes of this size."""
    return isinstance(value, dict) and set(value) == set(names) and all(_is_bytes(v, size) for v in value.values())


def _is_bytes(value: object, size: int) -> bool:
    return isinstance(value, bytes) and len(value) == size
