"""Sites of small federations, what their policies do measured row by row, and transports that fail on purpose."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

import logofair
from logofair.engines.conductor import NoReply, ServerState, conduct
from logofair.engines.inprocess import LocalTransport
from logofair.federation import Client, Server, SiteColumns, SiteLimits, make_plan
from logofair.federation.client import SecureIdentity
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.policies import SitePolicies
from logofair.notions import Rate
from logofair.records import decode, encode
from logofair.words.federated import _run_sentences
from support.sentences import asking

NOBODY = 1e-5
BENEFIT = logofair.Notion("benefit", given=(Rate("benefit", -1.0, 2.0, base=(1.0, 0.0)),))
COSTS = logofair.Notion("costs", given=(Rate("costs", 250.0, -100.0, base=(2.0, 3.0)),))
NOTIONS = (
    "demographic_parity",
    "equal_opportunity",
    "predictive_equality",
    "equalized_odds",
    BENEFIT,
    COSTS,
    {"demographic_parity": 0.1, "equal_opportunity": 0.05},
    {"local": "equalized_odds", "global": "demographic_parity"},
    {"local": BENEFIT, "global": {"predictive_equality": 0.02, "demographic_parity": None}},
)


def rows(n, *, seed=0, groups=2, shift=0.0, names=None, digits=None):
    """One site's columns: scores that differ by group, labels drawn from them."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    score = np.clip(rng.beta(1.0 + 0.7 * group + shift, 2.0), 0.0, 1.0)
    score = score if digits is None else np.round(score, digits)
    label = (rng.random(n) < score).astype(int)
    return SiteColumns(
        sensitive_features=group if names is None else np.array(names)[group], scores=score, labels=label
    )


def federation(sizes=(300, 200, 250), **how):
    """Sites a, b, c, ... of given sizes."""
    names = "abcdefghijklmnopqrstuvwxyz"
    return {names[i]: rows(n, seed=100 + i, shift=0.3 * i, **how) for i, n in enumerate(sizes)}


def plan_of(**settings):
    """A plan with tolerances that bind; no calibration, no pooling and no smallest cell unless set."""
    usual = {
        "groups": [0, 1],
        "local_tolerance": 0.05,
        "global_tolerance": 0.01,
        "calibration": "none",
        "pooling": "none",
        "run": "test",
        "trials": 2,
        "rounds": 200,
        "smallest_cell": 1,
    }
    return make_plan(**asking(**{**usual, **settings}))


def central(sites, plan_settings, **more):
    """``logofair.fit`` on the rows of all sites put together."""
    together = {
        name: np.concatenate([np.asarray(getattr(c, name)) for c in sites.values()])
        for name in ("scores", "sensitive_features", "labels")
    }
    sites = np.repeat(list(sites), [len(c.scores) for c in sites.values()])
    known = (
        "notion",
        "local_tolerance",
        "global_tolerance",
        "site_tolerances",
        "require",
        "calibration",
        "solver",
        "pooling",
    )
    usual = {"local_tolerance": 0.05, "global_tolerance": 0.01, "calibration": "none", "pooling": "none"}
    settings = {**usual, **{k: v for k, v in plan_settings.items() if k in known}, **more}
    return logofair.fit(
        together["scores"],
        together["labels"],
        sensitive_features=together["sensitive_features"],
        sites=sites,
        **asking(**settings),
    )


def measured(sites, policies, plan, chances=None):
    """Accuracy, largest excess of a global and of a local gap, from the policies' chances on the sites' own rows.

    ``chances`` are the chances of label 1 the rows count with, by site; by default the scores themselves.
    """
    table = []
    for site, columns in sites.items():
        accepted = policies[site].probabilities(columns.scores, sensitive_features=columns.sensitive_features)
        eta = np.asarray(columns.scores if chances is None else chances[site], dtype=float)
        weight = np.ones(eta.size) if columns.sample_weight is None else np.asarray(columns.sample_weight, dtype=float)
        codes = [plan.groups.index(g) for g in np.asarray(columns.sensitive_features).tolist()]
        table += list(zip([site] * eta.size, codes, eta, accepted, weight, strict=True))
    total = math.fsum(row[4] for row in table)
    accuracy = math.fsum(w * (e * h + (1 - e) * (1 - h)) for _, _, e, h, w in table) / total
    gaps = [(item, rate) for item in plan.require if item.measure == "gap" for rate in item.rates]
    global_excess = [_excess(table, rate, item.bound, plan) for item, rate in gaps if item.scope.is_global]
    local_excess = [
        _excess([row for row in table if row[0] == site], rate, item.bound, plan)
        for site in sites
        for item, rate in gaps
        if item.scope.covers(site)
    ]
    return accuracy, max(global_excess, default=0.0), max(local_excess, default=0.0)


def _excess(table, rate, tolerance, plan):
    base = (rate.constant, rate.slope) if rate.base is None else rate.base
    rates = []
    for group in range(len(plan.groups)):
        own = [row for row in table if row[1] == group]
        below = math.fsum(w * (base[0] + base[1] * e) for _, _, e, _, w in own)
        if below > NOBODY * math.fsum(row[4] for row in own) * max(base[0], base[0] + base[1]):
            rates.append(math.fsum(w * h * (rate.constant + rate.slope * e) for _, _, e, h, w in own) / below)
    return max(0.0, max(rates) - min(rates) - tolerance) if len(rates) > 1 else 0.0


@st.composite
def problems(draw):
    """Sites and a plan's settings: one to six sites, sites of one row or lacking groups, all kinds of requirements."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_groups, n_sites = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    sites = {}
    for i in range(n_sites):
        n = draw(st.sampled_from([1, 2, 9, 30, 60]))
        known = draw(st.sets(st.integers(0, n_groups - 1), min_size=1)) if draw(st.booleans()) else range(n_groups)
        group = rng.choice(sorted(known), n)
        score = rng.beta(1.0 + group, 2.0, n)
        score = np.round(score, 1) if draw(st.booleans()) else score
        label = (rng.random(n) < score).astype(int)
        sites[f"site-{i}"] = SiteColumns(group, score, label)
    sites["site-0"] = rows(40, seed=int(rng.integers(1000)), groups=n_groups)
    tolerances = st.sampled_from([0.0, 0.005, 0.02, 0.1, None])
    settings = {
        "notion": draw(st.sampled_from(NOTIONS)),
        "local_tolerance": draw(tolerances),
        "global_tolerance": draw(tolerances),
        "site_tolerances": {"site-0": draw(tolerances)} if draw(st.booleans()) else None,
    }
    return sites, n_groups, settings


@cache
def _keys(site):
    from cryptography.hazmat.primitives import serialization as form

    from logofair.federation.secure import new_signing_key, public_line

    key = new_signing_key()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()).decode()
    return private, public_line(key)


def private_key(site):
    return _keys(site)[0]


def public_key(site):
    return _keys(site)[1]


def identities(sites, agreed_without=()):
    """Keys of some sites, each knowing the public keys of all."""
    public = {site: public_key(site) for site in sites}
    return {site: SecureIdentity(private_key(site), public, tuple(agreed_without)) for site in sites}


def clients(sites, keys=None):
    """Clients of some sites."""
    return {site: Client(site, columns, identity=(keys or {}).get(site)) for site, columns in sites.items()}


class Tampered(LocalTransport):
    """Sites whose replies pass through ``act(site, message, bytes)``, which may return other bytes or an `NoReply`.

    ``deaf(site, message)`` comes first: an `NoReply` means that the client never gets the message.
    """

    def __init__(self, every, act=lambda site, message, data: data, *, deaf=lambda site, message: None):
        super().__init__(every)
        self.act, self.deaf = act, deaf
        self.sent, self.heard = [], []

    def deliver(self, site, message):
        request = decode(message, RequestMessage)
        self.heard.append((site, message))
        gone = self.deaf(site, request)
        if gone is not None:
            return gone
        data = self.act(site, request, super().deliver(site, message))
        self.sent.append((site, data))
        return data


def gone_from(who, number, *, step=None):
    """Sites that hear nothing from some exchange on."""

    def deaf(site, message):
        late = message.number > number or (message.number == number and step in (None, message.step))
        return NoReply("the plug was pulled") if site in who and late else None

    return deaf


def instead(who, number, change):
    """Replace the body of one reply of a site by ``change(body)``; what is no bytes is encoded as its reply."""

    def act(site, message, data):
        if site != who or message.number != number:
            return data
        made = change(decode(data, ReplyMessage))
        return made if isinstance(made, bytes | NoReply) else encode(made)

    return act


def go(plan, transport, *, sites=None, **how):
    """Conduct a run to the end: the result, and the steps."""
    state = ServerState(Server.start(plan, sites or transport.present()))
    steps = list(conduct(state, transport, **how))
    return steps[-1][0].server.result, [SimpleNamespace(**event.values) for _, event in steps]


def said_of_run(result):
    """All that people are told of a run's result, in one line."""
    return " ".join(f"{label}: {sentence}" for label, sentence in _run_sentences(result))


def own(sites, limits, keys=None):
    """The clients of some sites, those named with limits of their own."""
    every = clients(sites, keys)
    return every | {site: replace(every[site], limits=SiteLimits(**each)) for site, each in limits.items()}


def policies_of(transport, sites):
    """The policies the sites hold."""
    return {site: SitePolicies(transport.sites[site].batch)[site] for site in sites}


def same_policy(one, other):
    """Whether two policies are the same to the bit."""
    return one.key == other.key and all(
        np.array_equal(getattr(one.mixtures, name), getattr(other.mixtures, name))
        for name in ("weight", "threshold", "above", "single")
    )
