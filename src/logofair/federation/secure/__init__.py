"""Secure sums: the server learns the total of the sites' numbers and no site's own (double masks).

After K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017. Every site
adds to its numbers one mask per peer, which cancel in the total, and a mask of its own, whose seed it has shared among
its peers. A site that vanishes is made up for by the others' shares of its key; for no site will they hand out enough
shares of both. Two exchanges prepare a run (``keys``, ``shares``), then each sum takes two (``masked``, ``unmask``):
what a site deals for the next sum travels with its contribution to this one. Up to a third of the roster may vanish.

Precision: a value is rounded to a multiple of its step, so a total of n contributors is right to n times half a step
(exactly so for steps that are powers of two; otherwise the division adds one part in 2^53 of the value). A value above
2^62 steps divided by the size of the roster is refused by its own site, so no total wraps.

What this protects against, and what not, is written in ``docs/THREATS.md``. Needs ``pip install 'logofair[secure]'``.
"""

from __future__ import annotations

from logofair.errors import GarbledTotalError, SecureRefusalError, SumError
from logofair.federation.secure.client import Contribution, DealtSecrets, SecureClient
from logofair.federation.secure.messages import Keys, Masked, Material, Unmasked
from logofair.federation.secure.primitives import SigningKey, new_signing_key, public_key, public_line, signing_key
from logofair.federation.secure.roster import Roster, SecureRefusal
from logofair.federation.secure.server import SecureServer
from logofair.federation.wire import wire_type

__all__ = [
    "GarbledTotalError",
    "Keys",
    "Masked",
    "Material",
    "Roster",
    "SecureClient",
    "SecureRefusal",
    "SecureRefusalError",
    "SecureServer",
    "SigningKey",
    "SumError",
    "Unmasked",
    "new_signing_key",
    "public_key",
    "public_line",
    "signing_key",
]

for kind in (Contribution, DealtSecrets, Keys, Masked, Material, Roster, SecureClient, SecureServer, Unmasked):
    wire_type(kind)
