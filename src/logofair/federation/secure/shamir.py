"""Shamir's secret sharing over the integers modulo the smallest prime above 2^256.

A secret of 32 bytes is the value at 0 of a polynomial of degree ``threshold - 1`` whose other coefficients are chosen
at random; the share of place 1, 2, ... is its value there. Any ``threshold`` shares give the polynomial back, and any
fewer are consistent with every secret.
A. Shamir, "How to share a secret", Communications of the ACM 22 (1979).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

__all__ = ["PRIME", "SHARE_SIZE", "combine", "split"]

RandomBytes: TypeAlias = Callable[[int], bytes]

PRIME = 2**256 + 297
SECRET_SIZE = 32
SHARE_SIZE = 33  # a residue may need the 257th bit


def split(secret: bytes, threshold: int, count: int, random: RandomBytes) -> tuple[bytes, ...]:
    """Share a secret of 32 bytes among the places 1 to ``count``.

    Parameters
    ----------
    secret
        32 bytes.
    threshold
        Number of shares that give the secret back.
    count
        Number of shares.
    random
        Source of random bytes, such as ``os.urandom``.

    Returns
    -------
    tuple of bytes
        33 bytes for each place.

    Examples
    --------
    >>> import os
    >>> shares = split(b"k" * 32, threshold=2, count=3, random=os.urandom)
    >>> combine({1: shares[0], 3: shares[2]})
    b'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk'
    """
    # 128 bits more than the prime has: the remainder is uniform to within 2^-127.
    higher = [int.from_bytes(random(48), "big") % PRIME for _ in range(threshold - 1)]
    coefficients = [*higher, int.from_bytes(secret, "big")]
    return tuple(_value(coefficients, place).to_bytes(SHARE_SIZE, "big") for place in range(1, count + 1))


def combine(shares: Mapping[int, bytes]) -> bytes:
    """Rebuild a secret from at least as many of its shares as the threshold asks for.

    Parameters
    ----------
    shares
        Place to share.

    Returns
    -------
    bytes
        The secret; rubbish where shares are too few or do not belong together.

    Examples
    --------
    The line through (1, 5) and (2, 7) has the value 3 at 0:

    >>> combine({1: (5).to_bytes(33, "big"), 2: (7).to_bytes(33, "big")})[-1]
    3
    """
    places = tuple(sorted(shares))
    terms = zip(places, _weights(places), strict=True)
    value = sum(int.from_bytes(shares[place], "big") * weight for place, weight in terms) % PRIME
    return (value % 2**256).to_bytes(SECRET_SIZE, "big")  # shares of a secret never give more than 2^256


def _value(coefficients: list[int], place: int) -> int:
    """Horner's scheme, highest coefficient first."""
    value = 0
    for coefficient in coefficients:
        value = (value * place + coefficient) % PRIME
    return value


@lru_cache(maxsize=64)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """What each share counts in the value at 0 (Lagrange); one table serves all secrets of a sum."""
    weights = []
    for place in places:
        above = below = 1
        for other in places:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)
