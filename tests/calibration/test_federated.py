"""Calibration through sums over sites: the federation's fit is that of all rows in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logit

from logofair.calibration import Calibrator, fit_calibrator, fits
from logofair.calibration.crossfit import assign_folds
from logofair.calibration.federated import (
    FoldedRows,
    GroupMaps,
    Levels,
    Points,
    calibration_counts,
    calibration_sums,
    cell_calibrators,
    fold_rows,
    strength_losses,
)
from logofair.calibration.maps import FAMILIES, LogisticMaps
from logofair.columns.rows import Rows
from logofair.columns.segments import RowOrder
from logofair.errors import InputError
from support.examples import examples
from support.rows import rows_of

Array = NDArray[np.float64]

methods = pytest.mark.parametrize("method", FAMILIES)
seeds = st.integers(0, 2**32 - 1)

# The curvature that a level hands down is the one before its last step: to compare digits, that step must be tiny.
LAST_DIGIT = 1e-18


def counted(site: FoldedRows) -> Array:
    """Its counts where every group stands for itself."""
    return calibration_counts(site, np.arange(site.sample.shape[1]))


@dataclass(frozen=True)
class Federation:
    """Sites with dealt rows."""

    sites: tuple[FoldedRows, ...]
    n_groups: int

    @property
    def method(self) -> str:
        return self.sites[0].method

    @property
    def folds(self) -> int:
        return self.sites[0].folds

    def counts(self) -> Array:
        return np.concatenate([counted(site) for site in self.sites]).sum(axis=0)

    def sums(self, points: Points) -> Array:
        return np.concatenate([calibration_sums(site, points) for site in self.sites]).sum(axis=0)

    def levels(self, least_gain: float = LAST_DIGIT, slack: float = 0.0) -> Levels:
        """Fit to the end."""
        start = Levels.start(
            self.method, np.arange(self.n_groups), folds=self.folds, least_gain=least_gain, slack=slack
        )
        levels = start.count(self.counts())
        while not levels.done:
            levels = levels.take(self.sums(levels.request))
        return levels

    def central(self, fit: int) -> Calibrator:
        """The fit of the same rows in one place."""
        inside = [site.fold != fit for site in self.sites]
        parts = [site.sample.at(rows) for site, rows in zip(self.sites, inside, strict=True)]
        weighted = any(part.weights is not None for part in parts)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fits, "_LEAST_GAIN", LAST_DIGIT / 1000.0)
            sample = rows_of(
                np.concatenate([part.scores for part in parts]),
                np.concatenate([part.labels for part in parts]),
                np.concatenate([part.groups.codes for part in parts]),
                np.repeat(np.arange(len(parts), dtype=np.int32), [part.scores.size for part in parts]),
                np.concatenate([p.weights for p in parts if p.weights is not None]) if weighted else None,
                shape=(len(parts), self.n_groups),
            )
            return fit_calibrator(sample, self.method)


def parameters_of(calibrator: Calibrator) -> Array:
    assert isinstance(calibrator.maps, LogisticMaps)
    return calibrator.maps.parameters


def drawn(
    seed: int,
    method: str = "beta",
    *,
    n: int = 300,
    n_groups: int = 2,
    n_sites: int = 3,
    sureness: float = 1.0,
    weighted: bool = False,
    folds: int = 5,
) -> Federation:
    """Scores ``sureness`` times too sure, dealt to sites at random: some may get few rows, or none."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, n).astype(np.int32)
    chances = expit(logit(rng.beta(1.2, 1.8, n)) + 0.5 * rng.normal(size=n_groups)[groups])
    labels = (rng.random(n) < chances).astype(float)
    scores = expit(sureness * logit(chances) + rng.normal(0.0, 0.3, n))
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], n) if weighted else None
    home = rng.choice(n_sites, n, p=rng.dirichlet(np.ones(n_sites)))
    return Federation(
        tuple(
            dealt(
                method,
                scores[home == site],
                labels[home == site],
                groups[home == site],
                n_groups=n_groups,
                weights=None if weights is None else weights[home == site],
                folds=folds,
                seed=site,
            )
            for site in range(n_sites)
        ),
        n_groups,
    )


def dealt(
    method: str,
    scores: Array,
    labels: Array,
    groups: NDArray[np.int32],
    *,
    n_groups: int = 2,
    weights: Array | None = None,
    folds: int = 5,
    seed: int = 0,
) -> FoldedRows:
    sample = rows_of(scores, labels, groups, np.zeros_like(groups), weights, shape=(1, n_groups))
    return fold_rows(method, sample, [np.random.default_rng(seed)], folds)


def assert_like_the_central_fit(federation: Federation, maps: GroupMaps, within: float = 1e-8) -> None:
    for fit in range(federation.folds + 1):
        central = parameters_of(federation.central(fit))
        np.testing.assert_allclose(maps.everyone[:, fit], central[0], rtol=within, atol=within)
        of_groups = central[1 : 1 + federation.n_groups].T
        np.testing.assert_allclose(maps.groups[:, fit], of_groups, rtol=within, atol=within)


# The fit


@methods
@examples(12)
@given(
    seed=seeds,
    n=st.integers(1, 400),
    n_groups=st.integers(1, 4),
    n_sites=st.integers(1, 6),
    folds=st.integers(2, 5),
    weighted=st.booleans(),
    sureness=st.sampled_from([0.3, 1.0, 6.0]),
)
def test_however_rows_lie_at_sites_the_fit_is_that_of_all_rows_in_one_place(
    method: str, seed: int, n: int, n_groups: int, n_sites: int, folds: int, weighted: bool, sureness: float
) -> None:
    federation = drawn(
        seed,
        method,
        n=n,
        n_groups=n_groups,
        n_sites=n_sites,
        folds=folds,
        weighted=weighted,
        sureness=sureness,
    )
    assert_like_the_central_fit(federation, federation.levels().published)


@methods
@pytest.mark.parametrize(("n", "n_sites"), [(900, 4), (200, 1)])
def test_a_sites_cells_and_chances_are_those_of_the_central_fit(method: str, n: int, n_sites: int) -> None:
    federation = drawn(5, method, n=n, n_groups=3, n_sites=n_sites)
    maps = federation.levels().published
    central = [federation.central(fit) for fit in range(federation.folds + 1)]
    for code, site in enumerate(federation.sites):
        fitted = cell_calibrators(site, maps)
        cells = slice(1 + 3 + 3 * code, 1 + 3 + 3 * (code + 1))
        np.testing.assert_allclose(parameters_of(fitted.calibrator)[4:], parameters_of(central[-1])[cells], atol=1e-6)
        np.testing.assert_allclose(parameters_of(fitted.calibrator)[:4], parameters_of(central[-1])[:4], atol=1e-8)
        for place, fold, score, group in zip(
            site.order, site.fold, site.sample.scores, site.sample.groups.codes, strict=True
        ):
            one_score, one_group = np.array([score]), np.array([group])
            own = central[fold](one_score, one_group, np.array([code], np.int32))
            assert fitted.eta[place] == pytest.approx(own[0], abs=1e-7)
            merged = central[fold](one_score, one_group, np.array([-1], np.int32))
            assert fitted.held_out is not None
            of_group = fitted.held_out.merged(one_score, one_group, np.array([place]))
            assert of_group[0] == pytest.approx(merged[0], abs=1e-7)


def test_the_order_of_the_sites_changes_nothing_beyond_rounding() -> None:
    federation = drawn(2, n_sites=5)
    backwards = Federation(federation.sites[::-1], federation.n_groups)
    maps, again = federation.levels().published, backwards.levels().published
    np.testing.assert_allclose(again.groups, maps.groups, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.information, maps.information, rtol=1e-7)


def test_stopping_at_the_default_promise_moves_parameters_by_far_less_than_a_standard_error() -> None:
    federation = drawn(7, n=2000, n_groups=3)
    standard = Levels.start("beta", np.arange(3))
    quick = federation.levels(standard.groups.least_gain, standard.groups.slack)
    exact = federation.levels()
    away = quick.groups.result.centre - exact.groups.result.centre
    in_standard_errors = np.einsum("in,ijn,jn->n", away, exact.groups.result.precision, away)
    assert quick.rounds <= exact.rounds
    assert np.sqrt(in_standard_errors.max()) < 1e-3


def test_sums_of_limited_precision_end_the_same_way() -> None:
    federation, step = drawn(8, n=2000, n_sites=10), 2.0**-20

    def rounded(table: Array) -> Array:
        return np.round(table / step) * step

    levels = Levels.start("beta", np.arange(2), least_gain=1e-4, slack=1e-4)
    levels = levels.count(
        np.sum(
            [rounded(counted(site)[0]) for site in federation.sites],
            axis=0,
        )
    )
    while not levels.done:
        points = levels.request
        levels = levels.take(np.sum([rounded(calibration_sums(c, points)[0]) for c in federation.sites], axis=0))
    assert levels.rounds <= 6
    assert_like_the_central_fit(federation, levels.published, within=1e-4)


# Rounds


@methods
@pytest.mark.parametrize(("sureness", "most"), [(1.0, 5), (0.3, 6), (4.0, 7), (40.0, 9)])
def test_a_handful_of_rounds_suffices_even_for_scores_far_too_sure_of_themselves(
    method: str, sureness: float, most: int
) -> None:
    federation = drawn(3, method, n=4000, sureness=sureness)
    assert federation.levels(least_gain=1e-6, slack=1e-6).rounds <= most


def test_counts_and_the_first_sums_of_five_groups_fit_into_4_kilobytes() -> None:
    site = drawn(0, n=100, n_groups=5, n_sites=1).sites[0]
    points = Levels.start("beta", np.arange(5)).request
    assert counted(site).nbytes + calibration_sums(site, points).nbytes <= 4096 - 512


def test_what_is_done_is_not_asked_again() -> None:
    federation = drawn(4, n=500)
    levels = Levels.start("beta", np.arange(2)).count(federation.counts())
    while not levels.done:
        points = levels.request
        sums = federation.sums(points)
        assert points.live.any()
        assert not sums[:, ~points.live].any()
        levels = levels.take(sums)
    assert not levels.request.live.any()
    assert not federation.sums(levels.request).any()


# The sums


def by_hand(rows: Rows, method: str, parameters: Array) -> Array:
    """Loss, gradient and packed Hessian by their definitions."""
    family = FAMILIES[method]
    ones = [np.ones_like(rows.scores)] * family.intercept
    features = np.column_stack([*family.features(rows.scores), *ones])
    mass = np.ones_like(rows.scores) if rows.weights is None else rows.weights
    margin = features @ parameters
    loss = np.sum(mass * (np.logaddexp(0.0, margin) - rows.labels * margin))
    gradient = features.T @ (mass * (expit(margin) - rows.labels))
    hessian = features.T @ (features * (mass * expit(margin) * expit(-margin))[:, None])
    return np.concatenate([[loss], gradient, hessian[np.triu_indices(len(parameters))]])


@methods
@examples(10)
@given(seed=seeds, weighted=st.booleans())
def test_each_fit_sums_the_rows_outside_its_fold(method: str, seed: int, weighted: bool) -> None:
    site = drawn(seed, method, n=60, n_groups=3, n_sites=1, weighted=weighted, folds=3).sites[0]
    rng = np.random.default_rng(seed)
    at = rng.normal(0.5, 0.5, (len(FAMILIES[method].identity), 4, 4))
    (sums,) = calibration_sums(site, Points(at, np.arange(3), np.ones((4, 4), dtype=bool)))
    for fit in range(4):
        inside = site.sample.at(site.fold != fit)
        np.testing.assert_allclose(sums[:, fit, 0], by_hand(inside, method, at[:, fit, 0]), rtol=1e-9, atol=1e-9)
        for group in range(3):
            of_group = inside.at(inside.groups.codes == group)
            expected = by_hand(of_group, method, at[:, fit, 1 + group])
            np.testing.assert_allclose(sums[:, fit, 1 + group], expected, rtol=1e-9, atol=1e-9)


@methods
@examples(10)
@given(seed=seeds, weighted=st.booleans())
def test_sums_and_counts_add_up_over_sites(method: str, seed: int, weighted: bool) -> None:
    one, other = drawn(seed, method, n=80, n_sites=2, weighted=weighted).sites
    order = np.argsort(np.concatenate([c.sample.groups.codes * 5 + c.fold for c in (one, other)]), kind="stable")
    samples = one.sample, other.sample
    parts = ([rows.scores, rows.labels, rows.groups.codes, rows.sites.codes] for rows in samples)
    columns = (np.concatenate(column)[order] for column in zip(*parts, strict=True))
    weights = np.concatenate([one.sample.weights, other.sample.weights])[order] if weighted else None
    fold = np.concatenate([one.fold, other.fold])[order]
    sample = rows_of(*columns, weights, shape=(1, 2))
    both = FoldedRows(method, 5, sample, fold, order, RowOrder.of(sample.scores, sample.cells, 2))
    points = Levels.start(method, np.arange(2)).request
    separate = calibration_sums(one, points) + calibration_sums(other, points)
    np.testing.assert_allclose(calibration_sums(both, points), separate, rtol=1e-10, atol=1e-10)
    added = counted(one) + counted(other)
    np.testing.assert_allclose(counted(both), added, rtol=1e-10, atol=1e-10)


@methods
@examples(10)
@given(seed=seeds, weighted=st.booleans())
def test_sites_dealt_together_have_to_the_last_digit_what_each_has_alone(
    method: str, seed: int, weighted: bool
) -> None:
    federation = drawn(seed, method, n=150, n_groups=3, n_sites=6, weighted=weighted)
    alone, samples = federation.sites, [c.sample.at(np.argsort(c.order)) for c in federation.sites]
    columns = ([each.scores, each.labels, each.groups.codes] for each in samples)
    scores, labels, groups = (np.concatenate(column) for column in zip(*columns, strict=True))
    sites = np.repeat(np.arange(6, dtype=np.int32), [each.scores.size for each in samples])
    weights = np.concatenate([each.weights for each in samples]) if weighted else None
    rngs = [np.random.default_rng(number) for number in range(6)]
    together = fold_rows(method, rows_of(scores, labels, groups, sites, weights, shape=(6, 3)), rngs)
    points = Levels.start(method, np.arange(3)).request
    assert np.array_equal(
        counted(together),
        np.concatenate([counted(c) for c in alone]),
    )
    sums = np.concatenate([calibration_sums(c, points) for c in alone])
    assert np.array_equal(calibration_sums(together, points), sums)
    maps = federation.levels().published
    fitted, separate = cell_calibrators(together, maps), [cell_calibrators(c, maps) for c in alone]
    assert np.array_equal(fitted.eta, np.concatenate([each.eta for each in separate]))
    joined = Calibrator.joined([each.calibrator for each in separate])
    assert np.array_equal(parameters_of(fitted.calibrator), parameters_of(joined))
    losses = np.concatenate([strength_losses(c, maps, (50.0, 800.0)) for c in alone])
    assert np.array_equal(strength_losses(together, maps, (50.0, 800.0)), losses)


def test_counts_are_the_rows_of_each_label_outside_the_fold() -> None:
    site = drawn(6, n=90, n_groups=2, n_sites=1, weighted=True).sites[0]
    sample, (counts,) = site.sample, counted(site)
    assert counts.shape == (2, 1, 6, 2)
    for label in (0, 1):
        for fit in range(6):
            for group in (0, 1):
                rows = (sample.labels == label) & (site.fold != fit) & (sample.groups.codes == group)
                assert sample.weights is not None
                assert counts[label, 0, fit, group] == pytest.approx(sample.weights[rows].sum())


def test_for_platt_counts_hold_the_summed_log_odds_too() -> None:
    scores, labels = np.array([0.2, 0.5, 0.9]), np.array([0.0, 1.0, 1.0])
    site = dealt("platt", scores, labels, np.array([0, 1, 1], np.int32))
    counts = counted(site)[0][:, :, -1]
    np.testing.assert_allclose(counts[0], [[logit(0.2), 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(counts[1], [[0.0, logit(0.9)], [0.0, 2.0]], atol=1e-15)


def test_folds_are_dealt_as_in_the_central_cross_fit_and_the_same_every_time() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.random(57), rng.integers(0, 2, 57).astype(float)
    groups = rng.integers(0, 2, 57).astype(np.int32)
    sample = rows_of(scores, labels, groups, np.zeros_like(groups), shape=(1, 2))
    by_score = RowOrder.of(scores, sample.cells, int(np.prod(sample.shape)))
    expected = np.empty(57, dtype=np.int16)
    expected[by_score.rows] = assign_folds(by_score, 5, np.random.default_rng(9))
    for _ in range(2):
        site = dealt("beta", scores, labels, groups, seed=9)
        got = np.empty(57, dtype=np.int16)
        got[site.order] = site.fold
        assert np.array_equal(got, expected)


@methods
def test_out_of_fold_chances_cannot_tell_coins(method: str) -> None:
    right = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        groups = np.tile(np.arange(2, dtype=np.int32), 100)
        sites = tuple(
            dealt(method, rng.random(200), rng.integers(0, 2, 200).astype(float), groups, seed=5 * seed + site)
            for site in range(5)
        )
        maps = Federation(sites, 2).levels().published
        guessed = [(cell_calibrators(c, maps).eta[c.order] >= 0.5) == (c.sample.labels == 1.0) for c in sites]
        right.append(float(np.mean(guessed)))
    assert abs(np.mean(right) - 0.5) < 3.0 * np.std(right, ddof=1) / np.sqrt(len(right))


# Odd sites


def odd_sites(method: str) -> Federation:
    """One label only; one row; a group absent; weights that are all 0 in a fold; nothing at all."""
    rng = np.random.default_rng(1)
    scores, labels = rng.random(40), rng.integers(0, 2, 40).astype(float)
    groups = np.arange(40, dtype=np.int32) % 2
    plain = dealt(method, scores, labels, groups)
    weights = np.ones(40)
    weights[plain.order[plain.fold == 2]] = 0.0
    no_rows = np.zeros(0)
    sites = (
        dealt(method, scores, np.ones(40), groups, weights=np.ones(40)),
        dealt(method, scores[:1], labels[:1], groups[:1], weights=np.ones(1)),
        dealt(method, scores, labels, np.zeros_like(groups), weights=np.ones(40)),
        dealt(method, scores, labels, groups, weights=weights),
        dealt(method, no_rows, no_rows, groups[:0], weights=no_rows),
    )
    return Federation(sites, 2)


@methods
def test_odd_sites_are_fitted_like_any_other(method: str) -> None:
    federation = odd_sites(method)
    maps = federation.levels().published
    assert_like_the_central_fit(federation, maps)
    for site in federation.sites:
        fitted = cell_calibrators(site, maps)
        assert np.all((fitted.eta > 0.0) & (fitted.eta < 1.0))
        assert fitted.eta.shape == site.sample.scores.shape


@methods
def test_the_only_row_of_a_cell_gets_the_chance_of_its_group(method: str) -> None:
    federation = odd_sites(method)
    alone = cell_calibrators(federation.sites[1], federation.levels().published)
    assert alone.held_out is not None
    only = federation.sites[1].sample
    assert alone.eta[0] == alone.held_out.merged(only.scores, only.groups.codes, np.arange(1))[0]


@methods
def test_a_site_alone_in_a_federation_of_one_label_keeps_chances_off_0_and_1(method: str) -> None:
    scores = np.linspace(0.05, 0.95, 30)
    federation = Federation((dealt(method, scores, np.ones(30), np.zeros(30, np.int32)),), 2)
    levels = federation.levels()
    assert_like_the_central_fit(federation, levels.published)
    eta = cell_calibrators(federation.sites[0], levels.published).eta
    assert np.all((eta > 0.0) & (eta < 1.0))


@methods
def test_a_group_without_rows_has_the_map_of_all_rows_and_no_rows_at_all_the_identity(method: str) -> None:
    scores, labels = np.linspace(0.05, 0.95, 30), np.arange(30) % 2.0
    maps = Federation((dealt(method, scores, labels, np.zeros(30, np.int32)),), 2).levels().published
    np.testing.assert_allclose(maps.groups[:, :, 1], maps.everyone, rtol=1e-9, atol=1e-12)
    assert np.abs(maps.groups[:, :, 0] - maps.everyone).max() > 1e-6
    nothing = Federation((dealt(method, scores[:0], labels[:0], np.zeros(0, np.int32)),), 2).levels()
    identity = np.array(FAMILIES[method].identity)
    assert nothing.rounds == 1
    np.testing.assert_allclose(nothing.published.groups, np.tile(identity[:, None, None], (6, 2)), atol=1e-15)


def test_a_site_that_comes_later_leans_on_the_published_maps_alone() -> None:
    maps = drawn(3, n=2000).levels().published
    few = dealt("beta", np.array([0.3, 0.7]), np.array([0.0, 1.0]), np.array([0, 1], np.int32))
    newcomer = cell_calibrators(few, maps)
    parameters = parameters_of(newcomer.calibrator)
    np.testing.assert_allclose(parameters[3:], maps.groups[:, -1].T, atol=0.05)
    assert newcomer.held_out is not None
    merged = newcomer.held_out.merged(np.array([0.3, 0.7]), np.array([0, 1], np.int32), np.arange(2))
    assert np.array_equal(newcomer.eta, merged)


# Refusals


def test_totals_of_ever_other_rows_end_in_a_refusal_not_in_a_map() -> None:
    federation = drawn(0, n=50)
    levels = Levels.start("beta", np.arange(2)).count(federation.counts())
    for number in range(60):
        rising = federation.sums(levels.request)
        rising[0] += 1000.0 * number
        levels = levels.take(rising)
    assert not levels.done
    with pytest.raises(InputError, match="no end after 60 rounds of sums"):
        levels.take(rising)
