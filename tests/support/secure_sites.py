"""Sites and a server of secure sums in memory; every state goes through JSON text after every step."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from logofair.errors import SecureRefusalError
from logofair.federation.secure import SecureClient, SecureServer, new_signing_key, public_line
from logofair.records import decode, encode

STEP = 2.0**-20
REQUEST = b"request"


@cache
def signing(site):
    return new_signing_key()


@cache
def public(site):
    return public_line(signing(site))


def names(n):
    return tuple(f"site-{i}" for i in range(n))


def seeded(seed):
    return np.random.default_rng(seed).bytes


def stored(state):
    """The state as it comes back from a file."""
    back = decode(encode(state), type(state))
    assert back == state
    return back


class Federation:
    """All sites of a run and its server; ``gone`` sites neither hear nor answer."""

    def __init__(self, n, *, seed=0, agreed_without=(), run="run-1"):
        self.sites, self.random, self.gone = names(n), seeded(seed), set()
        self.server = SecureServer.start(run, self.sites)
        self.clients, self.heard = {}, {}
        peers = {site: public(site) for site in self.sites}
        for site in self.sites:
            client, message = SecureClient.start(
                run, site, self.sites, signing(site), peers, agreed_without, random=self.random
            )
            self.clients[site], self.heard[site] = stored(client), message

    def each(self, sites, act):
        """Let the sites act that are not gone; keep their new states and return their messages."""
        messages = {}
        for site in sites:
            if site not in self.gone:
                client, messages[site] = act(self.clients[site])
                self.clients[site] = stored(client)
        return messages

    def set_up(self):
        self.keys()
        self.shares()
        return self

    def keys(self):
        present = {site: message for site, message in self.heard.items() if site not in self.gone}
        self.server = stored(self.server.collect_keys(present))

    def shares(self):
        keys = self.server.keys
        dealt = self.each(keys, lambda client: client.shares(keys, random=self.random))
        self.server = stored(self.server.collect_shares(dealt))

    def begin_sum(self, steps, request=b"request"):
        self.server = stored(self.server.begin_sum(request, np.asarray(steps)))

    def masked(self, values, request=None):
        """Ask for contributions; return what came."""
        server = self.server
        steps, deliveries = np.array(server.steps), server.deliveries
        request = server.request if request is None else request
        return self.each(
            server.participants,
            lambda client: client.masked(
                server.number, request, deliveries[client.site], passed(values[client.site]), steps,
                signing(client.site), random=self.random,
            ),
        )  # fmt: skip

    def contribute(self, values):
        self.server = stored(self.server.collect_masked(self.masked(values)))

    def confirm(self):
        server, listed = self.server, self.server.fingerprints
        signed = self.each(
            server.contributors, lambda client: client.confirm(server.number, listed, signing(client.site))
        )
        self.server = stored(server.collect_confirmed(signed))

    def shares_of(self):
        """What the sites that confirmed hand out."""
        server = self.server
        return self.each(server.confirmed, lambda client: client.unmask(server.number, server.confirmed))

    def reveal(self):
        self.server = stored(self.server.collect_unmasked(self.shares_of()))

    def unmask(self):
        self.confirm()
        self.reveal()

    def add(self, values, steps=None, request=b"request"):
        """One sum from beginning to end."""
        length = len(next(iter(values.values())))
        self.begin_sum([STEP] * length if steps is None else steps, request)
        self.contribute(values)
        self.unmask()
        return self.server.total


def passed(values):
    """Values as sites pass them; None: the site has none to give."""
    return None if values is None else np.asarray(values)


def some_values(sites, length=3, seed=1):
    """Multiples of the step, so that totals are exact."""
    rng = np.random.default_rng(seed)
    return {site: rng.integers(-(2**30), 2**30, length) * STEP for site in sites}


def added(values, sites):
    return np.sum([values[site] for site in sites], axis=0)


def refusal(act, *arguments):
    """The code with which a site refuses."""
    with pytest.raises(SecureRefusalError) as refused:
        act(*arguments)
    return refused.value.code


def contributed(n, **options):
    """A federation after the masked contributions to its first sum, the values, and the contributions."""
    federation = Federation(n, **options).set_up()
    values = some_values(federation.sites)
    federation.begin_sum([STEP] * 3)
    vectors = federation.masked(values)
    federation.server = federation.server.collect_masked(vectors)
    return federation, values, vectors


def words_of(message):
    return np.frombuffer(message.vector, dtype="<u8").astype(np.uint64)
