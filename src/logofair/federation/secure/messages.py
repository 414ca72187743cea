"""What travels under secure sums: frozen types of names, numbers and bytes, and the checks of their form.

What is decoded has the right type but not necessarily the right fields, so receivers call
``well_formed`` first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field

from logofair.federation.exchange import Body
from logofair.federation.secure.primitives import KEY_SIZE, SEAL_SIZE, SHARE_SIZE
from logofair.federation.secure.roster import context

PAIR_SIZE = 2 * SHARE_SIZE  # share of the mask key, then of the seed
SEALED_SIZE = PAIR_SIZE + SEAL_SIZE
DELIVERED_SIZE = KEY_SIZE + SEALED_SIZE


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


def is_blobs(value: object, names: Collection[str], size: int) -> bool:
    """Whether a value maps exactly these names to bytes of this size."""
    return isinstance(value, dict) and set(value) == set(names) and all(_is_bytes(v, size) for v in value.values())


def _is_bytes(value: object, size: int) -> bool:
    return isinstance(value, bytes) and len(value) == size
