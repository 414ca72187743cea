"""A generated data set whose best possible rule is known: a random population, and rows drawn from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from logofair.datasets.table import Dataset, chosen, terms_of
from logofair.errors import InputError
from logofair.notions import NotionLike, Rate, named_notion, sides
from logofair.requirements import check_tolerance

# As everywhere in the library: a rate of fewer than one in 100,000 of its expected members is left out.
_NOBODY = 1e-5


class BestRule(NamedTuple):
    """The most accurate rule within the tolerances."""

    accuracy: float
    """Its accuracy on the whole population."""
    acceptance: Floats
    """Its chance to accept in every entry of the population, (sites, groups, levels)."""


@dataclass(frozen=True, eq=False)
class Population:
    """A population as a table: what share of it every entry has, and the chance of label 1 there.

    Parameters
    ----------
    mass : array of shape (sites, groups, levels)
        Share of each entry in the population, in all 1.
    chance : array of the same shape
        Probability of label 1 (eta in the paper).

    Examples
    --------
    One site in which level 1 has better chances, and group 1 more people of that level:

    >>> people = Population(mass=[[[0.4, 0.1], [0.2, 0.3]]], chance=[[[0.2, 0.9], [0.2, 0.9]]])
    >>> free = people.optimum("demographic_parity", None, None)
    >>> fair = people.optimum("demographic_parity", 0.0, None)
    >>> round(free.accuracy, 4), round(fair.accuracy, 4)
    (0.84, 0.72)
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

        Examples
        --------
        >>> import logofair
        >>> from logofair.datasets.generated import make_population
        >>> people = make_population(n_sites=2, rng=0)
        >>> best = people.optimum("equal_opportunity", 0.05, 0.01).accuracy
        >>> notion = {"notion": "equal_opportunity", "local_tolerance": 0.05, "global_tolerance": 0.01}
        >>> fitted = logofair.fit(labels=None, calibration="none", pooling="none", **people.columns(), **notion)
        >>> bool(abs(fitted.certificate.primal - best) < 1e-6)
        True
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
        >>> from logofair.datasets.generated import make_population
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
        >>> from logofair.datasets.generated import make_population
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

    def accuracy(self, acceptance: Floats) -> float:
        """Accuracy of accepting with given chances in every entry."""
        return float(np.sum(self.mass * (1.0 - self.chance + acceptance * (2.0 * self.chance - 1.0))))

    def optimum(
        self,
        notion: NotionLike | Mapping[str, NotionLike] = "demographic_parity",
        local_tolerance: float | None = 0.02,
        global_tolerance: float | None = 0.02,
    ) -> BestRule:
        """The most accurate rule of all whose gaps stay within the tolerances (arguments as of `logofair.fit`).

        Examples
        --------
        >>> from logofair.datasets.generated import make_population
        >>> people = make_population(n_sites=3, rng=0)
        >>> [round(people.optimum("equalized_odds", eps, eps).accuracy, 4) for eps in (0.0, 0.05, None)]
        [0.687, 0.698, 0.7172]
        """
        from scipy.optimize import linprog  # a third of a second to import, and other data sets need none of it

        requirements = list(self._requirements(notion, local_tolerance, global_tolerance))
        gain = (self.mass * (2.0 * self.chance - 1.0)).ravel()
        bounds = [(0.0, 1.0)] * gain.size + [(None, None)] * len(requirements)
        solved = linprog(
            -np.concatenate([gain, np.zeros(len(requirements))]),
            *_inequalities(requirements, gain.size),
            bounds=bounds,
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if solved.status != 0 or solved.x is None:
            raise RuntimeError(f"Population.optimum: the linear program was not solved ({solved.message})")
        acceptance: Floats = np.clip(solved.x[: gain.size], 0.0, 1.0).reshape(self.mass.shape)
        return BestRule(self.accuracy(acceptance), acceptance)

    def _requirements(
        self, notion: NotionLike | Mapping[str, NotionLike], local: float | None, global_: float | None
    ) -> Iterator[tuple[float, list[Floats]]]:
        """Every gap that is bounded: its tolerance, and each group's rate as weights of the acceptance chances."""
        local_notion, global_notion = (named_notion(side, "notion") for side in sides(notion))
        everybody = np.ones(len(self.sites), dtype=bool)
        parts = np.eye(len(self.sites), dtype=bool)
        for where, of, tolerance, some in (
            ("local", local_notion, local, parts),
            ("global", global_notion, global_, everybody[None]),
        ):
            checked = check_tolerance(tolerance, f"{where}_tolerance", of.of_shares)
            if checked is not None:
                for part in some:
                    for rate in of.rates:
                        yield checked, self._rates(rate, part)

    def _rates(self, rate: Rate, part: npt.NDArray[np.bool_]) -> list[Floats]:
        """The rate of every group among some sites; groups of which nobody counts in it are left out."""
        mass = self.mass * part[:, None, None]
        base = (mass * rate.denominator(1.0, self.chance)).sum(axis=(0, 2))
        counted = np.flatnonzero(base > _NOBODY * mass.sum(axis=(0, 2)))
        moment = mass * rate.numerator(1.0, self.chance)
        return [moment * (np.arange(base.size) == a)[None, :, None] / base[a] for a in counted]


def _inequalities(requirements: list[tuple[float, list[Floats]]], n: int) -> tuple[Floats, Floats]:
    """``floor <= rate <= floor + tolerance`` for every rate: coefficients of n chances and the floors, and limits."""
    rows, limits = [np.zeros(n + len(requirements))], [0.0]
    for number, (tolerance, rates) in enumerate(requirements):
        for rate in rates:
            row = np.zeros(n + len(requirements))
            row[:n], row[n + number] = rate.ravel(), -1.0
            rows += [row, -row]
            limits += [tolerance, 0.0]
    return np.array(rows), np.array(limits)


_MOST_ENTRIES = 100_000
_MOST_ROWS = 5_000_000


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
    of label 1 rise with the level from -2 to 2 and with the group's number, and differ at random by site.

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
    counts = {"n_sites": n_sites, "n_groups": n_groups, "levels": levels}
    shape = sites, groups, _ = tuple(
        whole_number(count, name, least=2 if name == "n_groups" else 1) for name, count in counts.items()
    )
    if np.prod(shape, dtype=float) > _MOST_ENTRIES:
        raise InputError(f"make_population: {shape} makes more than {_MOST_ENTRIES:,} entries; pass smaller numbers.")
    alpha, random = positive_number(alpha, "alpha", 1e6), generator(rng)
    difference = float(numbers([difference], "difference")[0])
    of_site = random.dirichlet(np.full(sites, alpha))
    of_group = random.dirichlet(np.full(groups, alpha), size=sites)
    of_level = random.dirichlet(np.full(shape[2], alpha), size=(sites, groups))
    ahead = difference * np.linspace(-0.5, 0.5, groups)[:, None]
    odds = np.linspace(-2.0, 2.0, shape[2]) + ahead + 0.5 * random.standard_normal(shape)
    return Population(of_site[:, None, None] * of_group[:, :, None] * of_level, expit(odds))


def load_generated(*, sensitive: str = "group", rows: int = 20_000, sites: int = 5, rng: RandomSource = 0) -> Dataset:
    """Draw a data set of two groups and eight levels from ``make_population(sites, rng=rng)``.

    ``sensitive``, the column of the groups, can be "group" alone. ``rows`` (at most 5,000,000) and ``sites``: how
    many rows and natural sites; ``rng``: source of randomness, or a seed.
    """
    chosen(sensitive, ("group",), "sensitive")
    random, rows = generator(rng), whole_number(rows, "rows")
    if rows > _MOST_ROWS:
        raise InputError(f"rows: got {rows:,}; at most {_MOST_ROWS:,} are drawn at once: ask for fewer.")
    return make_population(whole_number(sites, "sites"), rng=random).draw(rows, random)
