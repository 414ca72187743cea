"""What is passed on of a sum: every site recomputes the total, and is shown no other than its contributors signed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from logofair.federation.secure import SecureRefusal
from support.secure_sites import STEP, Federation, added, refusal, seeded, signing, some_values, words_of

STEPS = np.full(3, STEP)


def completed(n=4, gone=()):
    federation = Federation(n).set_up()
    values = some_values(federation.sites)
    federation.gone = set(gone)
    federation.add(values)
    return federation, values


@pytest.mark.parametrize("gone", [(), ("site-1",)])
def test_every_site_recomputes_the_total_that_the_server_has(gone):
    federation, values = completed(gone=gone)
    for site in federation.server.contributors:
        client, total = federation.clients[site].recomputed(federation.server.relay, STEPS)
        assert total.tolist() == federation.server.total.tolist() == added(values, client.last.contributors).tolist()


def test_a_site_that_missed_the_rest_of_the_sum_recomputes_it_too():
    federation = Federation(4).set_up()
    values = some_values(federation.sites)
    federation.begin_sum([STEP] * 3)
    federation.contribute(values)
    federation.gone = {"site-2"}
    federation.unmask()
    client, total = federation.clients["site-2"].recomputed(federation.server.relay, STEPS)
    assert total.tolist() == added(values, federation.sites).tolist()
    assert client.first_contributors == federation.sites


def forged(relay, site, **other):
    given = replace(relay.contributions[site], **other)
    return replace(relay, contributions={**relay.contributions, site: given})


def test_nothing_else_than_was_signed_is_taken():
    federation, _ = completed(gone=("site-3",))
    relay = federation.server.relay
    words = words_of(relay.contributions["site-1"])
    words[0] += np.uint64(1)
    vector = words.tobytes()
    fewer = {s: each for s, each in relay.contributions.items() if s != "site-1"}
    seeds = {s: each for s, each in relay.seeds.items() if s != "site-1"}
    bad = SecureRefusal.BAD_RELAY
    wrong = {
        "a vector": (forged(relay, "site-1", vector=vector), bad),
        "a commitment": (forged(relay, "site-1", commitment=bytes(32)), bad),
        "a signature": (forged(relay, "site-1", signature=b""), SecureRefusal.BAD_SIGNATURE),
        "its own vector": (forged(relay, "site-0", vector=vector), bad),
        "a seed": (replace(relay, seeds={**relay.seeds, "site-1": bytes(32)}), bad),
        "a mask key": (replace(relay, mask_keys={"site-3": seeded(7)(32)}), bad),
        "a site less": (replace(relay, contributions=fewer, seeds=seeds), bad),
        "another number": (replace(relay, number=2), bad),
        "no relay": (None, bad),
        "text": (replace(relay, contributions=dict.fromkeys(relay.contributions, "text")), bad),
    }
    for about, (false, code) in wrong.items():
        assert refusal(federation.clients["site-0"].recomputed, false, STEPS) is code, about


def test_a_contribution_replaced_after_the_list_was_confirmed_is_refused():
    """An ally of the server that signs a second vector, once it has seen the total, changes nothing."""
    federation, _ = completed()
    relay, ally = federation.server.relay, federation.clients["site-1"]
    given = replace(relay.contributions["site-1"], vector=seeded(3)(32))
    from logofair.federation.secure.primitives import signature

    words = given.statement(ally.last.digest, ally.last.mask_keys["site-1"])
    false = forged(relay, "site-1", vector=given.vector, signature=signature(signing("site-1"), words))
    assert refusal(federation.clients["site-0"].recomputed, false, STEPS) is SecureRefusal.BAD_RELAY


def test_what_is_passed_on_grows_with_the_roster_by_its_vectors_and_little_else():
    from logofair.records import encode

    small, large = (len(encode(completed(n)[0].server.relay)) for n in (4, 8))
    assert (large - small) / 4 < 32 + 8 * 4 + 32 + 110 + 350  # seed, vector, commitment, signature, names of fields
