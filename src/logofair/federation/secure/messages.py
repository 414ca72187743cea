"""What travels under secure sums: frozen types of names, numbers and bytes, and the checks of their form.

What is decoded from the wire has the right type but not necessarily the right fields, so receivers call
``well_formed`` first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from logofair.federation.secure.primitives import KEY_SIZE, SEAL_SIZE
from logofair.federation.secure.shamir import SHARE_SIZE

__all__ = ["Keys", "Masked", "Material", "Unmasked"]

PAIR_SIZE = 2 * SHARE_SIZE  # share of the mask key, then of the seed
SEALED_SIZE = PAIR_SIZE + SEAL_SIZE
DELIVERED_SIZE = KEY_SIZE + SEALED_SIZE


@dataclass(frozen=True)
class Keys:
    """First exchange: a site's key for this run, signed with its long-term key.

    Parameters
    ----------
    site
        Name of the sender.
    channel
        X25519 public key under which peers seal shares for the sender.
    signature
        ECDSA P-384 over run, roster, name and ``channel``.

    Examples
    --------
    >>> Keys("north", bytes(32), b"...").well_formed("north")
    True
    """

    site: str
    channel: bytes
    signature: bytes

    def well_formed(self, site: str) -> bool:
        """Whether every field has its form and the sender is ``site``."""
        return self.site == site and _is_bytes(self.channel, KEY_SIZE) and isinstance(self.signature, bytes)


@dataclass(frozen=True)
class SumMessage:
    """What a site sends for one sum.

    Parameters
    ----------
    site
        Name of the sender.
    number
        Number of the sum.
    """

    site: str
    number: int

    def _is_of(self, site: str, number: int) -> bool:
        return self.site == site and self.number == number


@dataclass(frozen=True)
class Material(SumMessage):
    """What a site deals for one sum to come; about 94 bytes per peer, unreadable to the server.

    Parameters
    ----------
    mask_key
        X25519 public key of the sender's pairwise masks in that sum; the seals vouch for it.
    sealed
        For each peer, sealed to it: shares of the private mask key and of the seed of the self mask.

    Examples
    --------
    >>> material = Material("north", 1, bytes(32), {"south": bytes(94)})
    >>> material.well_formed("north", 1, peers={"south"})
    True
    >>> len(material.delivered("south"))
    126
    """

    mask_key: bytes
    sealed: dict[str, bytes] = field(repr=False)

    def well_formed(self, site: str, number: int, peers: Collection[str]) -> bool:
        """Whether every field has its form and something is sealed for each peer."""
        formed = _is_bytes(self.mask_key, KEY_SIZE) and is_blobs(self.sealed, peers, SEALED_SIZE)
        return self._is_of(site, number) and formed

    def delivered(self, peer: str) -> bytes:
        """What the server passes on to one peer: the mask key, then what is sealed to the peer."""
        return self.mask_key + self.sealed[peer]


@dataclass(frozen=True)
class Masked(SumMessage):
    """A site's contribution to a sum, and its material for the next.

    Parameters
    ----------
    vector
        The masked integers modulo 2^64, little-endian: one per value, and one that counts contributors.
    material
        For sum ``number + 1``.

    Examples
    --------
    >>> material = Material("north", 2, bytes(32), {"south": bytes(94)})
    >>> Masked("north", 1, bytes(24), material).well_formed("north", 1, length=3, peers={"south"})
    True
    """

    vector: bytes = field(repr=False)
    material: Material

    def well_formed(self, site: str, number: int, length: int, peers: Collection[str]) -> bool:
        """Whether every field has its form; ``length`` counts the masked integers."""
        named = self._is_of(site, number) and _is_bytes(self.vector, 8 * length)
        return named and isinstance(self.material, Material) and self.material.well_formed(site, number + 1, peers)


@dataclass(frozen=True)
class Unmasked(SumMessage):
    """Shares that remove what is left of the masks from the contributors' total, and from nothing else.

    Parameters
    ----------
    seeds
        For each contributor the sender's share of the seed of its self mask.
    mask_keys
        For each participant that did not contribute the sender's share of its mask key.

    Examples
    --------
    >>> shares = Unmasked("north", 1, {"north": bytes(33)}, {"south": bytes(33)})
    >>> shares.well_formed("north", 1, contributors={"north"}, missing={"south"})
    True
    """

    seeds: dict[str, bytes] = field(repr=False)
    mask_keys: dict[str, bytes] = field(repr=False)

    def well_formed(self, site: str, number: int, contributors: Collection[str], missing: Collection[str]) -> bool:
        """Whether every field has its form and the shares are those requested."""
        shares = is_blobs(self.seeds, contributors, SHARE_SIZE) and is_blobs(self.mask_keys, missing, SHARE_SIZE)
        return self._is_of(site, number) and shares


def is_blobs(value: object, names: Collection[str], size: int) -> bool:
    """Whether a value maps exactly these names to bytes of this size."""
    return isinstance(value, dict) and set(value) == set(names) and all(_is_bytes(v, size) for v in value.values())


def _is_bytes(value: object, size: int) -> bool:
    return isinstance(value, bytes) and len(value) == size
