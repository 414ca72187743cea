"""A generated data set whose best possible rule is known: a random population, and rows drawn from it."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from logofair.arguments import RandomSource, generator, positive_number, whole_number
from logofair.datasets.population import KNOWN_HARMS, LICENCE, BestRule, Population
from logofair.datasets.table import Dataset
from logofair.inputs import InputError, nearest_name, numbers

__all__ = ["KNOWN_HARMS", "LICENCE", "BestRule", "Population", "load_generated", "make_population"]

_MOST_ENTRIES = 100_000
_MOST_ROWS = 5_000_000


def make_population(
    n_clients: int = 5,
    n_groups: int = 2,
    levels: int = 8,
    *,
    rng: RandomSource,
    alpha: float = 2.0,
    difference: float = 1.0,
) -> Population:
    """Make a population at random.

    Clients, the groups in each and the levels in each of these have shares from Dirichlet distributions. The log-odds
    of label 1 rise with the level from -2 to 2 and with the group's number, and differ at random by client.

    Parameters
    ----------
    n_clients, n_groups, levels : int
        Sizes of the table.
    rng : np.random.Generator or int
        Source of randomness, or a seed.
    alpha : float
        Concentration of the shares: the smaller, the more uneven.
    difference : float
        Log-odds of label 1 by which the last group is ahead of the first, on average.

    Examples
    --------
    >>> make_population(n_clients=4, n_groups=3, levels=6, rng=0).mass.shape
    (4, 3, 6)
    """
    counts = {"n_clients": n_clients, "n_groups": n_groups, "levels": levels}
    shape = clients, groups, _ = tuple(
        whole_number(count, name, least=2 if name == "n_groups" else 1) for name, count in counts.items()
    )
    if np.prod(shape, dtype=float) > _MOST_ENTRIES:
        raise InputError(f"make_population: {shape} makes more than {_MOST_ENTRIES:,} entries; pass smaller numbers.")
    alpha, random = positive_number(alpha, "alpha", 1e6), generator(rng)
    difference = float(numbers([difference], "difference")[0])
    of_client = random.dirichlet(np.full(clients, alpha))
    of_group = random.dirichlet(np.full(groups, alpha), size=clients)
    of_level = random.dirichlet(np.full(shape[2], alpha), size=(clients, groups))
    ahead = difference * np.linspace(-0.5, 0.5, groups)[:, None]
    odds = np.linspace(-2.0, 2.0, shape[2]) + ahead + 0.5 * random.standard_normal(shape)
    return Population(of_client[:, None, None] * of_group[:, :, None] * of_level, expit(odds))


def load_generated(*, sensitive: str = "group", rows: int = 20_000, clients: int = 5, rng: RandomSource = 0) -> Dataset:
    """Draw a data set of two groups and eight levels from ``make_population(clients, rng=rng)``.

    Parameters
    ----------
    sensitive : {"group"}
        Which column the groups are; there is one.
    rows, clients : int
        How many rows (at most 5,000,000), and how many natural clients.
    rng : np.random.Generator or int
        Source of randomness, or a seed.

    Examples
    --------
    >>> load_generated()
    Dataset(generated: 20,000 rows, 10 features, 54.0 % positive, groups a 8,548, b 11,452, 5 natural clients)
    """
    if sensitive != "group":
        hint = nearest_name(sensitive, ("group",))
        raise InputError(f"load_generated: unknown sensitive column {sensitive!r}{hint}; use 'group'.")
    random, rows = generator(rng), whole_number(rows, "rows")
    if rows > _MOST_ROWS:
        raise InputError(f"rows: got {rows:,}; at most {_MOST_ROWS:,} are drawn at once: ask for fewer.")
    return make_population(whole_number(clients, "clients"), rng=random).draw(rows, random)
