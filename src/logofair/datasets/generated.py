"""A generated data set whose true chances are known: a random population, and rows drawn from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from logofair.columns.checks import (
    Floats,
    RandomSource,
    generator,
    numbers,
    positive_number,
    probabilities,
    whole_number,
)
from logofair.columns.labels import encode_known
from logofair.datasets.table import Dataset, terms_of
from logofair.errors import InputError

_MOST_ENTRIES = 100_000


@dataclass(frozen=True, eq=False)
class Population:
    """A population as a table by site, group and level of a feature: the mass of each entry, and its chance of label 1.

    Parameters
    ----------
    mass : array of shape (sites, groups, levels)
        Share of each entry in the population, in all 1.
    chance : array of the same shape
        Probability of label 1 (eta in the paper).

    Examples
    --------
    One site in which level 1 has better chances, and group b more people of that level:

    >>> people = Population(mass=[[[0.4, 0.1], [0.2, 0.3]]], chance=[[[0.2, 0.9], [0.2, 0.9]]])
    >>> people.groups, people.columns()["sample_weight"]
    (('a', 'b'), array([0.4, 0.1, 0.2, 0.3]))
    """

    mass: Floats
    chance: Floats

    def __post_init__(self) -> None:
        try:
            mass, chance = (np.array(values, dtype=np.float64) for values in (self.mass, self.chance))
        except (TypeError, ValueError):
            raise InputError("Population: mass and chance must be arrays of numbers.") from None
        if mass.ndim != 3 or mass.shape != chance.shape or not mass.size:
            raise InputError(
                f"Population: got mass of shape {mass.shape} and chance of shape {chance.shape}; "
                "pass both as (sites, groups, levels)."
            )
        for values, where in ((mass, "mass"), (chance, "chance")):
            probabilities(values.ravel(), where)
        if abs(mass.sum() - 1.0) > 1e-9:
            raise InputError(f"mass: the shares sum to {mass.sum():g}; make them sum to 1.")
        object.__setattr__(self, "mass", mass / mass.sum())
        object.__setattr__(self, "chance", chance)

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the sites."""
        return tuple(f"site {number}" for number in range(self.mass.shape[0]))

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups: a, b, ... z, a1, ..."""
        return tuple(f"{chr(97 + number % 26)}{number // 26 or ''}" for number in range(self.mass.shape[1]))

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The whole population as weighted rows, named as `logofair.fit` names its arguments.

        A fit on these is the best rule there can be.

        Examples
        --------
        >>> import logofair
        >>> people = make_population(n_sites=2, rng=0).columns()
        >>> best = logofair.fit(labels=None, calibration="none", pooling="none", local_tolerance=0.0, **people)
        >>> round(best.certificate.primal, 3)
        0.726
        """
        site, group, _ = np.indices(self.mass.shape)
        return {
            "scores": self.chance.ravel(),
            "sensitive_features": np.array(self.groups)[group.ravel()],
            "sites": np.array(self.sites)[site.ravel()],
            "sample_weight": self.mass.ravel(),
        }

    def draw(self, n: int, rng: RandomSource) -> Dataset:
        """Draw rows at random; a model sees the group and the level, not the site.

        Examples
        --------
        >>> make_population(n_sites=3, rng=0).draw(1_000, rng=1)
        Dataset(generated: 1,000 rows, 10 features, 46.0 % positive, groups a 746, b 254, 3 natural sites)
        """
        n, random = whole_number(n, "n"), generator(rng)
        entry = random.choice(self.mass.size, size=n, p=self.mass.ravel())
        site, group, level = np.unravel_index(entry, self.mass.shape)
        groups, levels = self.mass.shape[1:]
        return Dataset(
            **terms_of("generated"),
            features=np.hstack([np.eye(groups)[group], np.eye(levels)[level]]),
            feature_names=(*(f"group={name}" for name in self.groups), *(f"level={k}" for k in range(levels))),
            labels=(random.random(n) < self.chance.ravel()[entry]).astype(np.int64),
            sensitive=np.array(self.groups)[group],
            sites=np.array(self.sites)[site],
        )

    def scores(self, rows: Dataset) -> Floats:
        """The true chance of label 1 of rows drawn from this population: the best scores there can be.

        Examples
        --------
        >>> people = make_population(n_sites=3, rng=0)
        >>> people.scores(people.draw(4, rng=0)).round(2)
        array([0.44, 0.17, 0.14, 0.14])
        """
        levels = self.mass.shape[2]
        if rows.sites is None or rows.features.shape[1:] != (len(self.groups) + levels,):
            raise InputError(f"scores: {rows.name} was not drawn from this population; pass what its draw returned.")
        site = encode_known(rows.sites, self.sites, "sites")
        group = encode_known(rows.sensitive, self.groups, "sensitive")
        if min(site.min(), group.min()) < 0:
            raise InputError(f"scores: {rows.name} has sites or groups that are not of this population.")
        scores: Floats = self.chance[site, group, rows.features[:, len(self.groups) :].argmax(axis=1)]
        return scores


def make_population(
    n_sites: int = 5,
    n_groups: int = 2,
    levels: int = 8,
    *,
    rng: RandomSource,
    alpha: float = 2.0,
    difference: float = 1.0,
) -> Population:
    """Make a population at random.

    Sites, the groups in each and the levels in each of these have shares from Dirichlet distributions. The log-odds
    of label 1 rise with the level from -2 to 2 and with the group's number, plus normal noise of standard deviation 0.5
    in every entry of the table.

    Parameters
    ----------
    n_sites, n_groups, levels : int
        Sizes of the table.
    rng : np.random.Generator or int
        Source of randomness, or a seed.
    alpha : float
        Concentration of the shares: the smaller, the more uneven.
    difference : float
        Log-odds of label 1 by which the last group is ahead of the first, on average.

    Examples
    --------
    >>> make_population(n_sites=4, n_groups=3, levels=6, rng=0).mass.shape
    (4, 3, 6)
    """
    sites, groups = whole_number(n_sites, "n_sites"), whole_number(n_groups, "n_groups", least=2)
    shape = sites, groups, whole_number(levels, "levels")
    if np.prod(shape, dtype=float) > _MOST_ENTRIES:
        raise InputError(f"make_population: {shape} makes more than {_MOST_ENTRIES:,} entries; pass smaller numbers.")
    alpha, random = positive_number(alpha, "alpha", 1e6), generator(rng)
    difference = float(numbers([difference], "difference")[0])
    of_site = random.dirichlet(np.full(sites, alpha))
    of_group = random.dirichlet(np.full(groups, alpha), size=sites)
    of_level = random.dirichlet(np.full(shape[2], alpha), size=(sites, groups))
    ahead = difference * np.linspace(-0.5, 0.5, groups)[:, None]
    log_odds = np.linspace(-2.0, 2.0, shape[2]) + ahead + 0.5 * random.standard_normal(shape)
    return Population(of_site[:, None, None] * of_group[:, :, None] * of_level, expit(log_odds))
