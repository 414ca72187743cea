"""Shares of a secret: enough of them give it back, fewer say nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.federation.secure.primitives import PRIME, SHARE_SIZE, combine, split
from support.examples import examples
from support.secure_sites import seeded

secrets = st.binary(min_size=32, max_size=32)


def value_through(points, place):
    """Lagrange's formula at any place, written anew."""
    total = 0
    for x, y in points.items():
        term = y
        for other in points:
            if other != x:
                term = term * (place - other) * pow(x - other, PRIME - 2, PRIME) % PRIME
        total += term
    return total % PRIME


def test_the_modulus_is_a_prime_that_holds_every_secret():
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 60):  # Miller and Rabin
        powers = [pow(base, odd << i, PRIME) for i in range(twos)]
        assert powers[0] == 1 or PRIME - 1 in powers
    assert PRIME > 2**256
    assert PRIME < 2 ** (8 * SHARE_SIZE)


def test_a_line_by_hand():
    shares = split((3).to_bytes(32, "big"), 2, 3, lambda size: (2).to_bytes(size, "big"))
    assert [int.from_bytes(share, "big") for share in shares] == [5, 7, 9]


@examples(40)
@given(secret=secrets, count=st.integers(2, 8), seed=st.integers(0, 2**32), data=st.data())
def test_any_set_of_enough_shares_gives_the_secret_back(secret, count, seed, data):
    threshold = data.draw(st.integers(1, count))
    shares = split(secret, threshold, count, seeded(seed))
    places = data.draw(st.sets(st.integers(1, count), min_size=threshold))
    assert combine({place: shares[place - 1] for place in places}) == secret


@examples(40)
@given(secret=secrets, other=secrets, count=st.integers(3, 8), seed=st.integers(0, 2**32), data=st.data())
def test_fewer_shares_are_consistent_with_every_secret(secret, other, count, seed, data):
    threshold = data.draw(st.integers(2, count))
    shares = split(secret, threshold, count, seeded(seed))
    known = data.draw(st.permutations(range(1, count + 1)))[: threshold - 1]
    points = {place: int.from_bytes(shares[place - 1], "big") for place in known}
    # Whatever the secret were, exactly one share of another place would fit it.
    missing = next(place for place in range(1, count + 1) if place not in known)
    fitting = value_through({**points, 0: int.from_bytes(other, "big")}, missing)
    guess = {place: shares[place - 1] for place in known} | {missing: fitting.to_bytes(SHARE_SIZE, "big")}
    assert combine(guess) == other


def test_a_share_alone_takes_every_value_equally_often():
    # With the slope running over all of a small range, the first share is the secret plus the slope: one to one.
    for secret in (0, 1, 12345):
        seen = {
            split(secret.to_bytes(32, "big"), 2, 1, lambda size, s=slope: s.to_bytes(size, "big"))[0]
            for slope in range(200)
        }
        assert seen == {(secret + slope).to_bytes(SHARE_SIZE, "big") for slope in range(200)}


@pytest.mark.parametrize("threshold", [2, 3, 4])
def test_too_few_shares_give_something_else(threshold):
    secret = bytes(range(32))
    shares = split(secret, threshold, 4, seeded(5))
    for places in itertools.combinations(range(1, 5), threshold - 1):
        assert combine({place: shares[place - 1] for place in places}) != secret
