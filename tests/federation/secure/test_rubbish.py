"""Impostors, strangers, too few sites, and messages of any wrong kind; and what a masked vector shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from logofair.errors import GarbledTotalError, SecureRefusalError, SumError
from logofair.federation.secure import SecureClient, SecureRefusal, SecureServer
from logofair.federation.secure.primitives import context, pair_mask, public_half, self_mask, signature
from support.secure_sites import (
    REQUEST,
    STEP,
    Federation,
    names,
    public,
    refusal,
    seeded,
    signing,
    some_values,
    words_of,
)


def test_a_key_that_its_site_has_not_signed_for_this_run_roster_and_name_is_refused():
    federation = Federation(4)
    federation.keys()
    keys, client = dict(federation.server.keys), federation.clients["site-0"]
    peers = {site: public(site) for site in federation.sites}

    def forged(run="run-1", site="site-1", roster=federation.sites, key="site-1", number=1):
        return SecureClient.start(run, site, roster, signing(key), peers, number=number)[1]

    wrong = [
        forged(key="impostor"),
        forged(run="run-0"),
        forged(roster=federation.sites[:3]),
        forged(number=2),
        replace(forged(site="site-2", key="site-1"), site="site-1"),
        replace(keys["site-1"], channel=keys["site-2"].channel),
        replace(keys["site-1"], signature=b""),
    ]
    for message in wrong:
        assert refusal(client.shares, {**keys, "site-1": message}) is SecureRefusal.BAD_SIGNATURE
    for message in (None, keys["site-2"], replace(keys["site-1"], channel=b"short")):
        assert refusal(client.shares, {**keys, "site-1": message}) is SecureRefusal.BAD_KEY
    assert client.shares({**keys, "site-1": forged()})  # the genuine article passes


def test_a_site_notices_when_its_own_key_was_exchanged_or_left_out():
    federation = Federation(4)
    federation.keys()
    others = {site: keys for site, keys in federation.server.keys.items() if site != "site-0"}
    assert refusal(federation.clients["site-0"].shares, others) is SecureRefusal.LEFT_OUT
    other = Federation(4, seed=9).heard["site-0"]  # its own signature, another key
    code = refusal(federation.clients["site-0"].shares, {**federation.server.keys, "site-0": other})
    assert code is SecureRefusal.BAD_KEY


def test_a_public_key_of_low_order_is_refused():
    federation = Federation(3)
    client, keys = federation.clients["site-0"], dict(federation.heard)
    peers = {site: public(site) for site in federation.sites}
    start = SecureClient.start("run-1", "site-1", federation.sites, signing("site-1"), peers)
    zero = bytes(32)
    signed = signature(signing("site-1"), context("keys", client.roster.digest, "site-1", zero))
    keys["site-1"] = replace(start[1], channel=zero, signature=signed)
    assert refusal(client.shares, keys) is SecureRefusal.BAD_KEY


def test_strangers_are_refused_at_every_stage():
    federation = Federation(4).set_up()
    peers = {site: public(site) for site in federation.sites}
    with pytest.raises(SecureRefusalError, match="unknown_site"):  # its key is not known here
        SecureClient.start("run-1", "site-0", (*federation.sites, "stranger"), signing("site-0"), peers)
    with pytest.raises(SecureRefusalError, match="unknown_site"):
        SecureClient.start("run-1", "stranger", federation.sites, signing("stranger"), peers)
    fresh = Federation(4)
    keys = {**fresh.heard, "stranger": fresh.heard["site-1"]}
    assert refusal(fresh.clients["site-0"].shares, keys) is SecureRefusal.UNKNOWN_SITE
    assert "stranger" not in fresh.server.collect_keys(keys).keys
    federation.begin_sum([STEP])
    incoming = {**federation.server.deliveries["site-0"], "stranger": bytes(126)}
    client = federation.clients["site-0"]
    options = (1, REQUEST, incoming, np.zeros(1), np.array([STEP]), signing("site-0"))
    assert refusal(client.masked, *options) is SecureRefusal.UNKNOWN_SITE
    federation.contribute({site: [0.0] for site in federation.sites})
    listed = {**federation.server.fingerprints, "stranger": bytes(32)}
    assert refusal(federation.clients["site-0"].confirm, 1, listed, signing("site-0")) is SecureRefusal.UNKNOWN_SITE
    federation.confirm()
    confirmed = {**federation.server.confirmed, "stranger": b""}
    assert refusal(federation.clients["site-0"].unmask, 1, confirmed) is SecureRefusal.UNKNOWN_SITE


@pytest.mark.parametrize("n", [3, 4, 6, 9])
def test_fewer_than_three_or_than_two_thirds_are_refused_at_every_stage(n):
    federation = Federation(n, agreed_without=names(n))
    fewest = max(3, n - n // 3)
    few = federation.sites[: fewest - 1]
    some_keys = {site: federation.heard[site] for site in few}
    assert refusal(federation.clients["site-0"].shares, some_keys) is SecureRefusal.TOO_FEW_SITES
    with pytest.raises(SumError, match=rf"^keys: {fewest - 1} of {n} sites"):
        federation.server.collect_keys(some_keys)
    federation.set_up()
    federation.begin_sum([STEP])
    client, values, steps, key = federation.clients["site-0"], np.zeros(1), np.array([STEP]), signing("site-0")
    incoming = {site: blob for site, blob in federation.server.deliveries["site-0"].items() if site in few}
    assert refusal(client.masked, 1, REQUEST, incoming, values, steps, key) is SecureRefusal.TOO_FEW_SITES
    replies = federation.masked(dict.fromkeys(federation.sites, values))
    with pytest.raises(SumError, match=rf"^masked: {fewest - 1} of {n} sites"):
        federation.server.collect_masked({site: replies[site] for site in few})
    listed = {site: replies[site].fingerprint for site in few}
    assert refusal(federation.clients["site-0"].confirm, 1, listed, key) is SecureRefusal.TOO_FEW_SITES
    federation.server = federation.server.collect_masked(replies)
    federation.confirm()
    enough = federation.server.roster.threshold
    signed = dict(list(federation.server.confirmed.items())[: enough - 1])
    assert refusal(federation.clients["site-0"].unmask, 1, signed) is SecureRefusal.TOO_FEW_SITES


@pytest.mark.parametrize("sites", [(), ("a",), ("a", "b"), ("a", "a", "b")])
def test_two_sites_are_no_roster(sites):
    assert refusal(SecureServer.start, "run", sites) is SecureRefusal.TOO_FEW_SITES


def test_a_sealed_share_or_mask_key_with_one_altered_bit_is_refused():
    federation = Federation(3).set_up()
    federation.begin_sum([STEP])
    client, incoming = federation.clients["site-0"], federation.server.deliveries["site-0"]
    rest = (np.zeros(1), np.array([STEP]), signing("site-0"))
    for position in range(126):
        altered = bytearray(incoming["site-2"])
        altered[position] ^= 1
        wrong = {**incoming, "site-2": bytes(altered)}
        assert refusal(client.masked, 1, REQUEST, wrong, *rest) is SecureRefusal.BAD_SEAL
    for wrong in (b"", incoming["site-2"][:-1], incoming["site-1"], "text", None):
        delivered = {**incoming, "site-2": wrong}
        assert refusal(client.masked, 1, REQUEST, delivered, *rest) is SecureRefusal.BAD_SEAL


def test_replies_of_the_wrong_form_count_as_none():
    federation = Federation(4).set_up()
    values = some_values(federation.sites)
    federation.begin_sum([STEP] * 3)
    good = federation.masked(values)
    one = good["site-1"]
    material = one.material
    for wrong in (
        None,
        good["site-2"],
        replace(one, number=2),
        replace(one, vector=one.vector[:-8]),
        replace(one, vector="text"),
        replace(one, commitment=b"short"),
        replace(one, signature=None),
        replace(one, material=None),
        replace(one, material=replace(material, number=1)),
        replace(one, material=replace(material, mask_key=b"")),
        replace(one, material=replace(material, sealed={})),
        replace(one, material=replace(material, sealed={**material.sealed, "site-0": b"short"})),
    ):
        server = federation.server.collect_masked({**good, "site-1": wrong})
        assert server.contributors == ("site-0", "site-2", "site-3")
        assert server.missing == ("site-1",)


@pytest.mark.parametrize(
    ("spoiled", "sentence"),
    [
        ("seeds", "the shares of a seed do not fit together"),
        ("mask_keys", "the shares of a mask key do not fit together"),
    ],
)
def test_wrong_shares_are_noticed(spoiled, sentence):
    federation = Federation(4).set_up()
    federation.begin_sum([STEP] * 3)
    federation.gone = {"site-3"}
    federation.contribute(some_values(federation.sites))
    federation.confirm()
    answers = federation.shares_of()
    wrong = {name: bytes(33) for name in getattr(answers["site-1"], spoiled)}
    answers["site-1"] = replace(answers["site-1"], **{spoiled: wrong})
    with pytest.raises(GarbledTotalError, match=sentence):
        federation.server.collect_unmasked(answers)


def test_rubbish_in_place_of_a_contribution_is_noticed():
    federation = Federation(4).set_up()
    federation.begin_sum([STEP] * 3)
    replies = federation.masked(some_values(federation.sites))
    replies["site-1"] = replace(replies["site-1"], vector=seeded(1)(32))
    federation.server = federation.server.collect_masked(replies)
    federation.gone = {"site-1"}  # others cannot know what it signed; itself it would not confirm
    federation.confirm()
    with pytest.raises(GarbledTotalError, match=r"^sum 1: the masks did not cancel"):
        federation.reveal()


def test_a_list_with_another_contribution_than_ones_own_is_not_confirmed():
    federation = Federation(3).set_up()
    federation.begin_sum([STEP] * 3)
    federation.contribute(some_values(federation.sites))
    listed = {**federation.server.fingerprints, "site-0": bytes(32)}
    assert refusal(federation.clients["site-0"].confirm, 1, listed, signing("site-0")) is SecureRefusal.LEFT_OUT
    for wrong in ({**listed, "site-0": "text"}, {**listed, "site-0": b"short"}):
        assert refusal(federation.clients["site-0"].confirm, 1, wrong, signing("site-0")) is SecureRefusal.BAD_KEY


def test_masks_of_two_sites_cancel_under_the_same_request_only():
    first, second = seeded(1)(32), seeded(2)(32)

    def pair(request, other):
        one = pair_mask(first, {"b": public_half(second)}, "a", request, 50)
        return one + pair_mask(second, {"a": public_half(first)}, "b", other, 50)

    assert not np.any(pair(b"request", b"request"))
    assert np.all(pair(b"request", b"another"))
    assert np.all(self_mask(first, b"request", 50) != self_mask(first, b"another", 50))


def test_masked_zeros_look_uniform():
    federation = Federation(3, seed=11).set_up()
    federation.begin_sum(np.ones(4000))
    replies = federation.masked(dict.fromkeys(federation.sites, np.zeros(4000)))
    for reply in replies.values():
        counts = np.bincount(np.frombuffer(reply.vector, dtype=np.uint8), minlength=256)
        assert 0.001 < stats.chisquare(counts).pvalue < 0.999
    sums = words_of(replies["site-0"]) + words_of(replies["site-1"])  # nor do two of three
    assert 0.001 < stats.chisquare(np.bincount(sums.view(np.uint8), minlength=256)).pvalue < 0.999


def test_the_same_values_are_masked_differently_every_time():
    values = some_values(names(3))
    vectors = set()
    for seed in (1, 2):
        federation = Federation(3, seed=seed).set_up()
        for _ in range(2):
            federation.begin_sum([STEP] * 3)
            replies = federation.masked(values)
            vectors.add(replies["site-0"].vector)
            federation.server = federation.server.collect_masked(replies)
            federation.unmask()
    assert len(vectors) == 4
