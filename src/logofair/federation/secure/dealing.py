"""A site's secrets for one sum: made, shared among its peers under seal, and opened by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logofair.federation.secure.messages import DELIVERED_SIZE, PAIR_SIZE, Material, is_blobs
from logofair.federation.secure.primitives import KEY_SIZE, NONCE_SIZE, agreed, public_half, seal, unseal
from logofair.federation.secure.refusals import Refusal, Refused
from logofair.federation.secure.roster import Roster, bound
from logofair.federation.secure.shamir import RandomBytes, split

__all__ = ["Dealt", "channel_key", "deal", "opened"]


@dataclass(frozen=True)
class Dealt:
    """What a site keeps of its secrets for one sum (all but ``material`` is secret)."""

    mask_key: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    own_pair: bytes = field(repr=False)
    material: Material


def channel_key(roster: Roster, private: bytes, public: bytes, sites: tuple[str, str]) -> bytes:
    """The key under which two sites seal what they send each other."""
    return agreed(private, public, bound("channel", roster.digest, *sorted(sites)))


def deal(roster: Roster, site: str, number: int, channels: Mapping[str, bytes], random: RandomBytes) -> Dealt:
    """Make fresh secrets for a sum and seal their shares to every peer that has a channel."""
    mask_key, seed = random(KEY_SIZE), random(KEY_SIZE)
    shared = [split(secret, roster.threshold, len(roster.sites), random) for secret in (mask_key, seed)]
    pairs = {name: first + second for name, first, second in zip(roster.sites, *shared, strict=True)}
    public = public_half(mask_key)
    sealed = {
        peer: seal(key, random(NONCE_SIZE), pairs[peer], _place(roster, number, site, peer, public))
        for peer, key in channels.items()
    }
    return Dealt(mask_key, seed, pairs[site], Material(site, number, public, sealed))


def opened(
    roster: Roster, site: str, number: int, channels: Mapping[str, bytes], incoming: Mapping[str, bytes]
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the mask key of each peer and the pair of shares it dealt to this site, or refuse."""
    if not is_blobs(incoming, incoming, DELIVERED_SIZE):
        raise Refused(Refusal.BAD_SEAL)
    mask_keys, pairs = {}, {}
    for peer, delivered in incoming.items():
        mask_keys[peer], sealed = delivered[:KEY_SIZE], delivered[KEY_SIZE:]
        pairs[peer] = unseal(channels[peer], sealed, _place(roster, number, peer, site, mask_keys[peer]))
        if len(pairs[peer]) != PAIR_SIZE:
            raise Refused(Refusal.BAD_SEAL)
    return mask_keys, pairs


def _place(roster: Roster, number: int, sender: str, receiver: str, mask_key: bytes) -> bytes:
    """What a seal is bound to: it opens for this sum, direction and mask key only."""
    return bound("shares", roster.digest, number, sender, receiver, mask_key)
