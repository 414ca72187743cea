"""Secure sums: the server learns the total of the sites' numbers and no site's own (double masks).

After K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017. Every site
adds to its numbers one mask per peer, which cancel in the total, and a mask of its own, whose seed it has shared among
its peers. A site that vanishes is made up for by the others' shares of its key; for no site will they hand out enough
shares of both. Two exchanges prepare a run (``keys``, ``shares``), then each sum takes three (``masked``, ``confirm``,
``unmask``): what a site deals for the next sum travels with its contribution to this one, and no share is handed out
before enough contributors have signed the same list of contributions. Up to a third of the roster may vanish.

Contributions are signed, and with the secrets that the server rebuilt they are passed on to every site
(:class:`Relay`), which recomputes the total: all sites see what the server sees, and know what it must do next.

Precision: a value is rounded to a multiple of its step, so a total of n contributors is right to n times half a step
(exactly so for steps that are powers of two; otherwise the division adds one part in 2^53 of the value). A value above
2^62 steps divided by the size of the roster is refused by its own site, so no total wraps.

What this protects against, and what not, is written in ``docs/THREATS.md``. Needs ``pip install 'logofair[secure]'``.
"""

from __future__ import annotations

from logofair.federation.secure.client import SecureClient
from logofair.federation.secure.messages import Keys, Masked, Relay, Roster
from logofair.federation.secure.primitives import SecureRefusal, key_fingerprint, new_signing_key, public_line
from logofair.federation.secure.server import SecureServer

__all__ = [
    "Keys",
    "Masked",
    "Relay",
    "Roster",
    "SecureClient",
    "SecureRefusal",
    "SecureServer",
    "key_fingerprint",
    "new_signing_key",
    "public_line",
]
