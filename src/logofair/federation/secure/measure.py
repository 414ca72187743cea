"""What secure sums cost a site, for ``logofair bench``."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from logofair.federation.secure.client import SecureClient
from logofair.federation.secure.primitives import new_signing_key, public_line
from logofair.federation.secure.server import SecureServer

__all__ = ["overhead"]


def overhead(n_sites: int, length: int) -> float:
    """Seconds that one sum of ``length`` numbers costs each of ``n_sites`` sites, beyond finding the numbers.

    Parameters
    ----------
    n_sites
        Size of the roster, at least 3.
    length
        Length of the vector.

    Returns
    -------
    float
        Mean over the sites of their time in ``masked`` and ``unmask``.

    Examples
    --------
    >>> overhead(3, length=10) > 0
    True
    """
    sites = [f"site-{i}" for i in range(n_sites)]
    signing = {site: new_signing_key() for site in sites}
    peers = {site: public_line(key) for site, key in signing.items()}
    started = {site: SecureClient.start("bench", site, sites, signing[site], peers) for site in sites}
    server = SecureServer.start("bench", sites).collect_keys({site: keys for site, (_, keys) in started.items()})
    dealt = {site: client.shares(server.keys) for site, (client, _) in started.items()}
    server = server.collect_shares({site: material for site, (_, material) in dealt.items()})
    values, steps = np.linspace(-1.0, 1.0, length), np.full(length, 2.0**-40)
    deliveries = server.ask(b"", steps).deliveries
    begun = perf_counter()
    for site, (client, _) in dealt.items():
        client.masked(1, b"", deliveries[site], values, steps)[0].unmask(1, sites)
    return (perf_counter() - begun) / n_sites
