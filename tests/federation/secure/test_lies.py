"""A server that lies about who dropped: what it can rebuild, tried out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from logofair.federation.secure import Roster, SecureRefusal
from logofair.federation.secure.primitives import combine, decoded, pair_mask, self_mask
from support.secure_sites import (
    STEP,
    Federation,
    added,
    contributed,
    names,
    refusal,
    signing,
    some_values,
    words_of,
)


def uncovered(federation, sites, vectors, mask_keys=None, seeds=None):
    """What an attacker reads from the sites' vectors with the keys (others' or theirs) and seeds it has rebuilt."""
    server = federation.server
    digest = server.roster.sum_digest(server.number, server.request, np.array(server.steps), server.participants)
    words = np.sum([words_of(vectors[site]) for site in sites], axis=0, dtype=np.uint64)
    publics = {site: material.mask_key for site, material in server.materials.items()}
    for site, key in (mask_keys or {}).items():
        inside = site in sites
        peers = {peer: publics[peer] for peer in publics if peer != site and (inside or peer in sites)}
        masks = pair_mask(key, peers, site, digest, words.size)
        words = words - masks if inside else words + masks
    for seed in (seeds or {}).values():
        words = words - self_mask(seed, digest, words.size)
    return decoded(words, np.array(server.steps))


def rebuilt(roster, shares):
    return combine({roster.place(site): share for site, share in shares.items()})


def fingerprints(federation, named):
    return {site: blob for site, blob in federation.server.fingerprints.items() if site in named}


def confirmed_by(federation, site, named):
    """The site's own state after it confirmed that these contributed, and its signature."""
    client, message = federation.clients[site].confirm(1, fingerprints(federation, named), signing(site))
    return client, message.signature


def handed_out(federation, site, named):
    """The shares that a site hands out if all of a story's sites sign it: what no server gets (see below)."""
    client, _ = confirmed_by(federation, site, named)
    signed = {other: confirmed_by(federation, other, named)[1] for other in named}
    return client.unmask(1, signed)[1]


@pytest.mark.parametrize("n", [4, 5, 6])
def test_a_site_stays_hidden_whatever_half_is_told_that_it_dropped(n):
    federation, values, vectors = contributed(n)
    roster, (victim, *others) = federation.server.roster, federation.sites
    without = tuple(others)
    dropped_shares = {s: handed_out(federation, s, without).mask_keys[victim] for s in others}
    stayed_shares = {s: handed_out(federation, s, federation.sites).seeds[victim] for s in federation.sites}
    key, listed = signing(victim), fingerprints(federation, without)
    assert refusal(federation.clients[victim].confirm, 1, listed, key) is SecureRefusal.LEFT_OUT
    allies = 2 * roster.threshold - n  # with this many sites the server would win; all below are tried
    broken = 0
    for k in range(allies + 1):
        false, honest = set(others[:k]), others[k:]
        for lied_to in itertools.chain.from_iterable(itertools.combinations(honest, m) for m in range(len(honest) + 1)):
            keys = {site: dropped_shares[site] for site in (*false, *lied_to)}
            seeds = {site: stayed_shares[site] for site in federation.sites if site not in lied_to}
            found, count = uncovered(
                federation, [victim], vectors, {victim: rebuilt(roster, keys)}, {victim: rebuilt(roster, seeds)}
            )
            both = len(keys) >= roster.threshold and len(seeds) >= roster.threshold
            assert (count == 1 and np.array_equal(found, values[victim])) == both
            assert not (both and k < allies)
            broken += both
    assert broken  # the attack is a real one: one ally more, and it succeeds


def test_a_site_confirms_one_story_only():
    federation, _, _ = contributed(4)
    listed = federation.server.fingerprints
    client, first = federation.clients["site-1"].confirm(1, listed, signing("site-1"))
    assert client.confirm(1, listed, signing("site-1")) == (client, first)
    fewer = fingerprints(federation, ("site-1", "site-2", "site-3"))
    assert refusal(client.confirm, 1, fewer, signing("site-1")) is SecureRefusal.OTHER_REQUEST


def test_a_contribution_that_comes_too_late_stays_hidden():
    federation = Federation(4).set_up()
    values = some_values(federation.sites)
    federation.begin_sum([STEP] * 3)
    vectors = federation.masked(values)
    late = vectors["site-0"]
    federation.server = federation.server.collect_masked({s: v for s, v in vectors.items() if s != "site-0"})
    federation.confirm()
    answers = federation.shares_of()
    total = federation.server.collect_unmasked(answers).total
    assert total.tolist() == added(values, federation.server.contributors).tolist()
    key = rebuilt(federation.server.roster, {site: answer.mask_keys["site-0"] for site, answer in answers.items()})
    found, count = uncovered(federation, ["site-0"], {"site-0": late}, {"site-0": key})
    assert count != 1
    assert not np.any(found == values["site-0"])
    assert all("site-0" not in answer.seeds for answer in answers.values())


def test_no_share_is_handed_out_where_sites_were_told_different_stories():
    """Several lies at once narrowed a total to half of the roster: no story gets enough signatures for that."""
    federation, _, _ = contributed(6)
    kept, named = federation.sites[:3], federation.sites[3:]
    missing = dict(zip(kept, itertools.combinations(named, 2), strict=True))
    missing |= {site: tuple(other for other in named if other != site) for site in named}
    stories = {site: [s for s in federation.sites if s not in missing[site]] for site in federation.sites}
    signed = {}
    for site, story in stories.items():
        federation.clients[site], signed[site] = confirmed_by(federation, site, story)
    for site, story in stories.items():
        client = federation.clients[site]
        agreeing = {other: signed[other] for other in story if stories[other] == story}
        assert refusal(client.unmask, 1, agreeing) is SecureRefusal.TOO_FEW_SITES
        assert refusal(client.unmask, 1, {other: signed[other] for other in story}) is SecureRefusal.BAD_SIGNATURE


@pytest.mark.parametrize("n", range(3, 40))
def test_no_two_lists_get_enough_signatures_while_the_server_has_under_a_third_of_the_sites(n):
    roster = Roster.of("run", names(n))
    for allies in range((n + 2) // 3):
        assert 2 * roster.threshold > n + allies  # an honest site signs one list; an ally signs both
        assert n - allies >= 2
