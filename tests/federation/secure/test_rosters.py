"""A server that replays, mixes rounds, asks different things, or asks two rosters for the same."""

from __future__ import annotations

import numpy as np
import pytest

from logofair.errors import SecureRefusalError
from logofair.federation.secure import SecureClient, SecureRefusal, SecureServer
from support.secure_sites import (
    REQUEST,
    STEP,
    Federation,
    added,
    contributed,
    public,
    refusal,
    signing,
    some_values,
)


def test_numbers_neither_go_back_nor_skip():
    federation = Federation(4).set_up()
    values, steps = some_values(federation.sites), np.full(3, STEP)
    federation.begin_sum(steps)
    first = federation.server.deliveries["site-0"]
    federation.contribute(values)
    federation.unmask()
    federation.begin_sum(steps)
    second = federation.server.deliveries["site-0"]
    federation.contribute(values)
    federation.unmask()
    client = federation.clients["site-0"]
    for number, incoming in ((1, first), (4, second), (0, first), (-1, second)):
        code = refusal(client.masked, number, REQUEST, incoming, values["site-0"], steps, signing("site-0"))
        assert code is SecureRefusal.OUT_OF_ORDER
    for number in (0, 1, 3):
        assert refusal(client.confirm, number, {}, signing("site-0")) is SecureRefusal.OUT_OF_ORDER
        assert refusal(client.unmask, number, {}) is SecureRefusal.OUT_OF_ORDER
    assert refusal(client.shares, federation.server.keys) is SecureRefusal.OUT_OF_ORDER


def test_the_same_request_gets_the_identical_bytes_and_another_one_is_refused():
    federation, values, vectors = contributed(4)
    client, server = federation.clients["site-0"], federation.server
    incoming = {site: server.materials[site].delivered("site-0") for site in federation.sites if site != "site-0"}
    steps = np.full(3, STEP)
    again = client.masked(
        1, REQUEST, incoming, values["site-0"] + 1, steps, signing("site-0")
    )  # even if its data had changed
    assert again == (client, vectors["site-0"])
    fewer = {site: blob for site, blob in incoming.items() if site != "site-3"}
    others = ((b"other", incoming, steps), (REQUEST, fewer, steps), (REQUEST, incoming, 2 * steps))
    for request, delivered, rough in others:
        code = refusal(client.masked, 1, request, delivered, values["site-0"], rough, signing("site-0"))
        assert code is SecureRefusal.OTHER_REQUEST


def test_material_of_one_sum_does_not_open_in_another():
    federation = Federation(3).set_up()
    values = some_values(federation.sites)
    federation.add(values)
    second = federation.server.begin_sum(REQUEST, np.full(3, STEP)).deliveries
    federation.add(values)
    for site in federation.sites:
        client = federation.clients[site]
        code = refusal(client.masked, 3, REQUEST, second[site], values[site], np.full(3, STEP), signing(site))
        assert code is SecureRefusal.BAD_SEAL


def test_material_of_another_run_does_not_open():
    federation, other = (Federation(3, run=run, seed=5).set_up() for run in ("run-1", "run-2"))
    federation.begin_sum([STEP])
    other.begin_sum([STEP])
    incoming = other.server.deliveries["site-0"]
    client = federation.clients["site-0"]
    code = refusal(client.masked, 1, REQUEST, incoming, np.zeros(1), np.array([STEP]), signing("site-0"))
    assert code is SecureRefusal.BAD_SEAL


def test_sites_that_were_asked_different_things_give_no_total():
    federation = Federation(4).set_up()
    values = some_values(federation.sites)
    federation.begin_sum([STEP] * 3)
    usual, special = federation.masked(values), Federation(4).set_up()
    special.begin_sum([STEP] * 3)
    usual["site-2"] = special.masked(values, request=b"for site-2 alone")["site-2"]
    federation.clients["site-2"] = special.clients["site-2"]  # same randomness: only the request differs
    federation.server = federation.server.collect_masked(usual)
    with pytest.raises(SecureRefusalError, match="bad_signature"):  # who signs a list, signs what it was asked too
        federation.unmask()


def test_sites_that_were_told_of_different_participants_sign_different_lists():
    federation = Federation(4, seed=3).set_up()
    values, steps = some_values(federation.sites), np.full(3, STEP)
    federation.begin_sum(steps)
    named = {"site-0": federation.sites[:3], "site-1": federation.sites, "site-2": federation.sites}
    messages = {}
    for site, participants in named.items():
        incoming = {p: blob for p, blob in federation.server.deliveries[site].items() if p in participants}
        client = federation.clients[site]
        federation.clients[site], messages[site] = client.masked(
            1, REQUEST, incoming, values[site], steps, signing(site)
        )
    listed, signed = {s: m.fingerprint for s, m in messages.items()}, {}
    for site in named:
        federation.clients[site], reply = federation.clients[site].confirm(1, listed, signing(site))
        signed[site] = reply.signature
    for site in named:
        assert refusal(federation.clients[site].unmask, 1, signed) is SecureRefusal.BAD_SIGNATURE


def test_no_second_total_without_a_site_unless_its_name_was_agreed_on():
    federation = Federation(5).set_up()
    values = some_values(federation.sites)
    federation.add(values)
    federation.begin_sum([STEP] * 3)  # the same request again ...
    vectors = federation.masked(values)
    federation.server = federation.server.collect_masked({s: v for s, v in vectors.items() if s != "site-4"})
    for site in federation.sites[:4]:  # ... pretending that site-4 has gone
        client, listed = federation.clients[site], federation.server.fingerprints
        for unwilling in (client, client.agree(["site-3"])):
            assert refusal(unwilling.confirm, 2, listed, signing(site)) is SecureRefusal.ROSTER_CHANGED
        federation.clients[site] = client.agree(["site-4"])
    federation.unmask()
    assert federation.server.total.tolist() == added(values, federation.sites[:4]).tolist()


def test_the_first_total_needs_no_agreement_and_fixes_whose_totals_follow():
    federation = Federation(4).set_up()
    values = some_values(federation.sites)
    federation.begin_sum([STEP] * 3)
    vectors = federation.masked(values)
    federation.server = federation.server.collect_masked({s: v for s, v in vectors.items() if s != "site-0"})
    federation.unmask()
    assert federation.server.missing == ("site-0",)
    # site-0 is well and has dealt for the second sum; the others know better than to let it back in.
    incoming = {s: vectors[s].material.delivered("site-1") for s in federation.sites if s != "site-1"}
    client = federation.clients["site-1"]
    code = refusal(client.masked, 2, REQUEST, incoming, values["site-1"], np.full(3, STEP), signing("site-1"))
    assert code is SecureRefusal.ROSTER_CHANGED
    assert federation.add(values).tolist() == added(values, federation.sites[1:]).tolist()


def test_a_site_that_missed_the_first_unmasking_guards_the_roster_as_well():
    federation, values, _ = contributed(4)
    federation.gone = {"site-0"}
    federation.unmask()
    federation.gone = set()
    federation.begin_sum([STEP] * 3)
    federation.contribute(values)
    client = federation.clients["site-0"]
    fewer = {s: blob for s, blob in federation.server.fingerprints.items() if s != "site-3"}
    assert refusal(client.confirm, 2, fewer, signing("site-0")) is SecureRefusal.ROSTER_CHANGED
    # It misses the second as well, and is then asked for a third sum among fewer.
    incoming = {s: federation.server.upcoming[s].delivered("site-0") for s in federation.sites[1:3]}
    options = (3, REQUEST, incoming, values["site-0"], np.full(3, STEP), signing("site-0"))
    assert refusal(client.masked, *options) is SecureRefusal.ROSTER_CHANGED
    assert client.agree(["site-3"]).masked(*options)


def test_a_site_that_contributed_once_guards_its_roster_across_setups():
    federation, _, _ = contributed(4)
    started = {s: federation.clients[s].again(federation.sites, signing(s)) for s in federation.sites}
    federation.clients = {s: new for s, (new, _) in started.items()}
    federation.heard = {s: keys for s, (_, keys) in started.items()}
    federation.server = SecureServer.start("run-1", federation.sites, number=2)
    federation.set_up().begin_sum([STEP])
    incoming = {s: blob for s, blob in federation.server.deliveries["site-0"].items() if s != "site-3"}
    client = federation.clients["site-0"]
    code = refusal(client.masked, 1, REQUEST, incoming, np.zeros(1), np.array([STEP]), signing("site-0"))
    assert code is SecureRefusal.ROSTER_CHANGED


def test_a_second_roster_of_a_run_takes_agreement_by_name_and_new_keys():
    federation = Federation(5).set_up()
    values, fewer = some_values(federation.sites), federation.sites[:4]
    federation.add(values)
    client = federation.clients["site-0"]
    for roster in (fewer, (*fewer[:3], "site-4")):
        assert refusal(client.again, roster, signing("site-0")) is SecureRefusal.ROSTER_CHANGED
    assert refusal(client.again, (*federation.sites, "stranger"), signing("site-0")) is SecureRefusal.UNKNOWN_SITE
    agreed = client.agree(federation.sites[1:])
    assert refusal(agreed.again, federation.sites[1:], signing("site-0")) is SecureRefusal.LEFT_OUT
    assert refusal(agreed.again, federation.sites[:2], signing("site-0")) is SecureRefusal.TOO_FEW_SITES
    started = {s: federation.clients[s].agree(["site-4"]).again(fewer, signing(s)) for s in fewer}
    old = {s: federation.server.keys[s] for s in fewer} | {"site-0": started["site-0"][1]}
    assert refusal(started["site-0"][0].shares, old) is SecureRefusal.BAD_SIGNATURE
    federation.clients = {s: new for s, (new, _) in started.items()}
    federation.heard = {s: keys for s, (_, keys) in started.items()}
    federation.server = SecureServer.start("run-1", fewer, number=2)
    assert federation.set_up().add(values).tolist() == added(values, fewer).tolist()


def test_a_second_run_over_the_same_data_takes_the_same_agreement():
    federation = Federation(4).set_up()
    federation.add(some_values(federation.sites))
    first, fewer = federation.clients["site-0"].first_contributors, federation.sites[:3]
    peers = {site: public(site) for site in federation.sites}

    def join(roster, agreed_without=()):
        key = signing("site-0")
        return SecureClient.start("run-2", "site-0", roster, key, peers, agreed_without, first_contributors=first)[0]

    assert refusal(join, fewer) is SecureRefusal.ROSTER_CHANGED
    assert join(fewer, ["site-3"]).first_contributors == join(federation.sites).first_contributors == federation.sites
