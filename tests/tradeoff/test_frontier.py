"""The frontier: every point against fit and a linear program, its shape, the grid, the knee and held-out rows."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import logofair
from logofair.errors import InputError
from logofair.fitting import solving
from logofair.notions import NOTIONS, Notion, Rate
from logofair.solvers.certificate import Certificate, TolerancePrices
from logofair.solvers.decomposition import ExactSolver
from logofair.tradeoff import Frontier, Point, frontier
from logofair.tradeoff.result import find_knee, looseness_of
from logofair.tradeoff.sweep import _default_grid
from logofair.words.tradeoffs import frontier_plot

pytestmark = pytest.mark.tool

GRID = [0.0, 0.01, 0.05, 0.2, None]
BENEFIT = Notion("benefit", given=(Rate("benefit", -100.0, 200.0, base=(1.0, 0.0)),))


def table(seed=0, rows=600, groups=2, sites=3):
    """Scores, labels, groups and sites of a small federation whose sites differ."""
    rng = np.random.default_rng(seed)
    group, site = rng.integers(0, groups, rows), rng.integers(0, sites, rows)
    scores = np.round(rng.beta(1.0 + group, 1.5 + 0.4 * site), 4)
    labels = (rng.random(rows) < scores).astype(int)
    names = {
        "sensitive_features": np.array(list("FMXYZ"))[group],
        "sites": np.array(["north", "south", "west", "east"])[site],
    }
    return scores, labels, names


def surface(notion="demographic_parity", *, seed=0, groups=2, sites=3, rows=600, **options) -> Frontier:
    scores, labels, names = table(seed, rows, groups, sites)
    wanted = {"local_tolerances": GRID, "global_tolerances": GRID, "calibration": "none", "pooling": "none"} | options
    return frontier(scores, labels, notion=notion, **names, **wanted)


def best_accuracy(scores, groups, sites, notion, local, global_):
    """The best rule of all by a linear program with a chance for every row."""
    n, rows, limits = scores.size, [], []
    places = [(sites == c, local) for c in np.unique(sites)] + [(np.ones(n, bool), global_)]
    demands = [
        (place, tolerance, rate) for place, tolerance in places for rate in notion.rates if tolerance is not None
    ]
    for floor, (place, tolerance, rate) in enumerate(demands):
        for group in np.unique(groups):
            member = place & (groups == group)
            share = np.where(member, rate.numerator(1.0, scores), 0.0) / rate.denominator(1.0, scores[member]).sum()
            row = np.zeros(n + len(demands))
            row[:n], row[n + floor] = share, -1.0
            rows += [row, -row]
            limits += [tolerance, 0.0]
    aim = np.concatenate([-(2.0 * scores - 1.0) / n, np.zeros(len(demands))])
    matrix = (np.array(rows), np.array(limits)) if rows else (None, None)
    solved = linprog(aim, *matrix, bounds=[(0, 1)] * n + [(None, None)] * len(demands))
    assert solved.status == 0
    return float(np.mean(1.0 - scores)) - solved.fun


# --- every point is the optimum


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_every_point_is_the_best_rule_of_all_within_its_tolerances(notion):
    scores, _, names = table(rows=150)
    found = surface(notion, rows=150)
    for point in found.points[::3]:
        pair = (point.local_tolerance, point.global_tolerance)
        best = best_accuracy(scores, names["sensitive_features"], names["sites"], NOTIONS[notion], *pair)
        assert point.value == pytest.approx(best, abs=2e-6)


@pytest.mark.parametrize(
    "notion",
    ["equalized_odds", BENEFIT, *(pytest.param(n, marks=pytest.mark.slow) for n in NOTIONS if n != "equalized_odds")],
    ids=str,
)
def test_every_point_is_what_fit_finds_there(notion):
    scores, labels, names = table(groups=3)
    weight = np.random.default_rng(1).choice([0.5, 1.0, 3.0], scores.size)
    options = {"calibration": "platt", "pooling": "auto", "sample_weight": weight, "random_state": 3}
    found = frontier(
        scores,
        labels,
        notion=notion,
        local_tolerances=[0, 0.05, None],
        global_tolerances=[0.02, None],
        **names,
        **options,
    )
    assert len(found.points) == 6
    for point in found.points:
        pair = {"local_tolerance": point.local_tolerance, "global_tolerance": point.global_tolerance}
        fitted = logofair.fit(scores, labels, notion=notion, **pair, **names, **options).certificate
        assert point.certificate.holds
        assert point.value == pytest.approx(fitted.primal, abs=1.1e-6)
        assert point.certificate.dual >= fitted.primal - 1e-9


def test_what_is_required_of_a_single_site_holds_at_every_point():
    scores, labels, names = table()
    own = "selection rate gap <= 0 at north"
    found = surface(require=own)
    for point in (found.at(0.05, 0.01), found.at(None, None), found.at(0.0, None)):
        pair = {"local_tolerance": point.local_tolerance, "global_tolerance": point.global_tolerance}
        alone = {"calibration": "none", "pooling": "none", "require": own}
        fitted = logofair.fit(scores, labels, **alone, **pair, **names)
        assert point.value == pytest.approx(fitted.certificate.primal, abs=1.1e-6)


def test_without_sites_the_smaller_tolerance_holds_and_the_grid_has_one_side():
    scores, labels, names = table()
    found = frontier(scores, labels, sensitive_features=names["sensitive_features"], calibration="none")
    assert found.local_tolerances == (None,)
    assert not found.has_sites
    both = frontier(
        scores,
        labels,
        sensitive_features=names["sensitive_features"],
        calibration="none",
        local_tolerances=GRID,
        global_tolerances=GRID,
    )
    for point in both.points:
        bounds = [t for t in (point.local_tolerance, point.global_tolerance) if t is not None]
        alone = both.at(None, min(bounds, default=None))
        assert point.value == pytest.approx(alone.value, abs=1e-9)


def test_where_the_sweep_fails_the_exact_solver_takes_over(monkeypatch):
    usual = surface("equalized_odds").values
    monkeypatch.setattr(ExactSolver, "solve", lambda self, problem: None)
    assert surface("equalized_odds").values == pytest.approx(usual, abs=1.1e-6)


def test_a_wrong_answer_of_the_sweep_is_never_returned(monkeypatch):
    right = ExactSolver.solve

    def wrong(self, problem):
        optimum = right(self, problem)
        optimum.u[:] = 0.0
        optimum.v[:] = 0.0
        return optimum

    usual = surface().values
    monkeypatch.setattr(ExactSolver, "solve", wrong)
    assert surface().values == pytest.approx(usual, abs=1.1e-6)


def test_rows_are_calibrated_once_and_sorted_once(monkeypatch):
    calls = []
    for name in ("cross_fit", "cells_in_order"):
        real = getattr(solving, name)
        monkeypatch.setattr(
            solving, name, lambda *a, _real=real, _name=name, **k: (calls.append(_name), _real(*a, **k))[1]
        )
    assert len(surface(calibration="beta").points) == 25
    assert sorted(calls) == ["cells_in_order", "cross_fit"]


# --- the shape of the value


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("groups", [2, 4])
def test_accuracy_rises_with_either_tolerance_and_ever_more_slowly(notion, groups):
    values = surface(notion, groups=groups).values
    finite = np.array(GRID[:-1])
    for along in (values, values.T):
        assert np.diff(along, axis=0).min() >= -1.1e-6
        slopes = np.diff(along[:-1], axis=0) / np.diff(finite)[:, None]
        assert np.diff(slopes, axis=0).max() <= 2.2e-6 / np.diff(finite).min()


@pytest.mark.parametrize("sites", [1, 3])
def test_the_prices_of_a_point_bound_the_accuracy_of_all_others(sites):
    found = surface("equalized_odds", sites=sites)
    points = [p for p in found.points if p.local_tolerance is not None and p.global_tolerance is not None]
    for here, there in itertools.product(points, points):
        more = here.local_price * (there.local_tolerance - here.local_tolerance)
        more += here.global_price * (there.global_tolerance - here.global_tolerance)
        assert there.value <= here.certificate.dual + more + 1e-9
    assert found.points[0].local_price + found.points[0].global_price > 0.05


def test_the_loosest_point_is_the_base_rule():
    scores, _, _ = table()
    found = surface()
    best = float(np.maximum(scores, 1.0 - scores).mean())
    assert found.unconstrained.value == pytest.approx(best, abs=1e-12)
    assert found.points[-1].value == pytest.approx(best, abs=1e-12)
    assert found.points[-1].loss == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_gaps_in_expectation_are_within_the_tolerances(notion):
    found = surface(notion)
    for point in found.points:
        assert point.local_tolerance is None or point.local_gap <= point.local_tolerance + 1e-9
        assert point.global_tolerance is None or point.global_gap <= point.global_tolerance + 1e-9


def test_the_base_rules_gaps_are_those_of_score_at_least_a_half():
    scores, _, names = table()
    audited = logofair.audit((scores >= 0.5).astype(int), None, **names)
    base = surface().unconstrained
    assert base.local_gap == pytest.approx(audited.local_gap)
    assert base.global_gap == pytest.approx(audited.global_gap)
    assert base.measured.fitted_rows
    assert base.measured.local.gap().site == audited.local.gap().site
    assert base.measured.global_gap.rows == audited.global_gap.rows


# --- the grid


@given(st.floats(1e-5, 1000.0).filter(lambda gap: not 0.99 < gap <= 1.0))
def test_the_default_grid_runs_from_parity_to_where_the_gap_stops_binding(gap):
    grid = _default_grid(gap)
    assert grid[0] == 0.0
    assert grid[-1] is None
    assert len(grid) == 9
    finite = [t for t in grid[1:] if t is not None]
    assert gap <= finite[-1] <= 1.1 * gap + 1e-12
    steps = [after / before for before, after in itertools.pairwise(finite[:-1])]
    assert all(1.9 < step < 2.6 for step in steps)
    assert finite[-1] > finite[-2]


def test_where_a_site_has_the_largest_gap_there_is_the_grid_ends_below_1():
    assert _default_grid(1.0) == _default_grid(0.995) == (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, None)
    scores, site = [0.9, 0.8, 0.1, 0.2, 0.9, 0.1, 0.9, 0.1], ["a"] * 4 + ["b"] * 4  # all F of a are accepted, no M
    found = frontier(scores, None, sensitive_features=list("FFMMFFMM"), sites=site, calibration="none", pooling="none")
    assert found.unconstrained.local_gap == 1.0
    assert found.local_tolerances[-2:] == (0.5, None)


@pytest.mark.parametrize("gap", [0.0, 1e-12, None])
def test_a_rule_that_is_fair_already_needs_no_grid(gap):
    assert _default_grid(gap) == (0.0, None)


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
def test_a_side_at_its_default_end_costs_nothing_where_the_other_is_free(notion):
    scores, labels, names = table()
    found = frontier(scores, labels, notion=notion, calibration="none", **names)
    local, global_ = found.local_tolerances[-2], found.global_tolerances[-2]
    assert abs(found.at(local, None).loss) < 1e-6
    assert abs(found.at(None, global_).loss) < 1e-6
    assert found.at(found.local_tolerances[-3], None).loss > 1e-6


def test_a_chosen_pair_joins_the_grid():
    found = surface(chosen=(0.03, None), global_tolerances=[0.1])
    assert found.local_tolerances == (0.0, 0.01, 0.03, 0.05, 0.2, None)
    assert found.global_tolerances == (0.1, None)
    alone = frontier([0.9, 0.2, 0.7, 0.4], None, sensitive_features=[0, 0, 1, 1], calibration="none", chosen=(0.3, 0.1))
    assert alone.local_tolerances == (None,)
    assert 0.1 in alone.global_tolerances


def test_rows_of_one_person_count_as_in_fit():
    scores, labels, names = table(rows=400)
    people = np.repeat(np.arange(100), 4)
    tolerances = {"local_tolerances": [0.05], "global_tolerances": [0.02]}
    known = {"ids": people, "random_state": 3, **names}
    once = logofair.fit(scores, labels, local_tolerance=0.05, global_tolerance=0.02, **known)
    (point,) = frontier(scores, labels, **tolerances, **known).points
    assert point.certificate.primal == pytest.approx(once.certificate.primal, abs=1e-9)
    by_row = frontier(scores, labels, random_state=3, **tolerances, **names)
    assert point.certificate.primal != by_row.points[0].certificate.primal  # other folds
    widths = [each.measured.accuracy.high - each.measured.accuracy.low for each in (point, by_row.points[0])]
    assert widths[0] != pytest.approx(widths[1])  # intervals by person
    with pytest.raises(InputError, match=r"^test_rows: ids: the policy was fitted on 100 of these people"):
        frontier(scores, labels, test_rows={"scores": scores, "labels": labels, "ids": people, **names}, **known)


# --- the knee and the best point


def made(local, global_, accuracies, base=0.9):
    """Points of a grid with given accuracies."""
    pairs = itertools.product(local, global_)
    points = []
    for (local_tolerance, global_tolerance), accuracy in zip(pairs, np.ravel(accuracies), strict=True):
        certificate = Certificate(accuracy, accuracy, 0.0, 0.0, TolerancePrices(np.zeros(1), np.zeros((1, 1))), "eta")
        points.append(Point(local_tolerance, global_tolerance, certificate, base - accuracy, 0.0, 0.0, 0.0, 0.0))
    return points


def test_the_knee_of_a_bent_line_is_where_it_bends():
    global_ = (0.0, 0.02, 0.05, 0.1, 0.2, None)
    points = made((None,), global_, [0.80, 0.85, 0.89, 0.895, 0.90, 0.90])
    knee = find_knee(points, looseness_of((None,), global_, (None, 0.2)))
    assert knee.point.global_tolerance == 0.05
    assert knee.lead == pytest.approx(0.9 - 0.25)
    assert knee.reason == "knee"


def test_the_knee_of_a_surface_gives_tolerance_only_on_the_side_that_pays():
    grid = (0.0, 0.05, 0.1, None)
    accuracies = [[0.80, 0.88, 0.90, 0.90]] * 4  # the local side costs nothing
    knee = find_knee(made(grid, grid, accuracies), looseness_of(grid, grid, (0.1, 0.1)))
    assert (knee.point.local_tolerance, knee.point.global_tolerance) == (0.0, 0.05)


@pytest.mark.parametrize("rise", [0.0, 1e-7, 0.0009])
def test_a_flat_frontier_advises_the_strictest_point(rise):
    global_ = (0.0, 0.1, None)
    points = made((None,), global_, [0.9 - rise, 0.9 - rise / 2, 0.9])
    knee = find_knee(points, looseness_of((None,), global_, (None, 0.1)))
    assert knee.point is points[0]
    assert knee.reason == "flat"


def test_a_flat_frontier_that_ends_before_the_unconstrained_rule_is_flat_all_the_same():
    for accuracies in ([0.8], [0.8, 0.8001]):
        points = made((None,), (0.0, 0.02)[: len(accuracies)], accuracies)
        flat = find_knee(points, np.linspace(0, 1, len(accuracies)))
        assert (flat.point, flat.reason) == (points[0], "flat")


def test_a_point_and_a_knee_are_written_without_their_rows():
    found = surface(local_tolerances=[0.05], global_tolerances=[0.05])
    assert len(repr(found.knee)) < 1500


def test_a_straight_frontier_has_no_knee():
    global_ = (0.0, 0.05, 0.1, 0.2, None)
    points = made((None,), global_, [0.80, 0.825, 0.85, 0.90, 0.90])
    knee = find_knee(points, looseness_of((None,), global_, (None, 0.2)))
    assert knee.point is None
    assert knee.as_dict() | {"found": False, "reason": "even"} == knee.as_dict()


def test_a_grid_of_one_point_is_its_own_knee():
    found = surface(local_tolerances=[0.05], global_tolerances=[0.05])
    assert found.knee.point is found.points[0]


def test_no_knee_is_offered_where_every_difference_in_accuracy_is_within_chance():
    scores, labels, names = table(rows=300, seed=4)
    found = frontier(scores, labels, calibration="none", **names)
    assert find_knee(found.points, found.looseness).point is not None  # by expected accuracy alone there is one
    assert found.compared.accuracy.low <= 0 <= found.compared.accuracy.high
    assert found.knee.point is None
    assert found.knee.reason == "chance"


def test_no_knee_is_offered_where_no_gap_can_be_told_from_chance():
    scores, _, names = table(rows=40)  # without labels: accuracy is not measured
    found = frontier(scores, None, calibration="none", **names)
    assert find_knee(found.points, found.looseness).point is not None
    base = found.unconstrained.measured
    assert max(base.headline_local.value, base.headline_global.value) > 0
    assert base.headline_local.value < base.headline_local.value.detectable
    assert found.knee.point is None
    assert found.knee.reason == "chance"


def test_a_knee_beyond_chance_is_offered():
    found = surface(rows=20_000)
    assert found.compared.accuracy.low > 0
    assert found.knee.point is not None


@pytest.mark.parametrize("cost", [0.0, 0.001, 0.004, 0.01, 0.03, 1.0])
def test_the_best_point_is_the_strictest_that_is_affordable(cost):
    found = surface(rows=200)
    best = found.best(cost)
    affordable = [
        (share, point.loss)
        for share, point in zip(found.looseness, found.points, strict=True)
        if point.loss <= cost + 1e-6
    ]
    place = found.points.index(best)
    assert (found.looseness[place], best.loss) == min(affordable)


def test_where_nothing_is_affordable_there_is_no_best_point():
    assert surface(local_tolerances=[0], global_tolerances=[0]).best(0.0) is None


# --- held-out rows


def other_rows(seed=1):
    """Rows of other people, some at a site and in a cell that the fit has not seen."""
    scores, labels, names = table(seed, 500, sites=4)
    return {"scores": scores, "labels": labels, **names}


def test_figures_of_other_rows_are_an_audit_of_the_fitted_policy_on_them():
    scores, labels, names = table(rows=900)
    kept = np.arange(900) % 5 < 2
    fitting, testing = (
        {"scores": scores[part], "labels": labels[part]} | {name: column[part] for name, column in names.items()}
        for part in (~kept, kept)
    )
    pair = {"local_tolerance": 0.05, "global_tolerance": 0.02}
    found = frontier(
        **fitting,
        notion="equalized_odds",
        local_tolerances=[0.05],
        global_tolerances=[0.02],
        random_state=0,
        test_rows=testing,
    )
    fitted = logofair.fit(**fitting, notion="equalized_odds", random_state=0, **pair)
    where = {name: testing[name] for name in names}
    audited = logofair.audit(
        fitted.policy.probabilities(testing["scores"], **where),
        testing["labels"],
        notion="equalized_odds",
        chances=True,
        **where,
    )
    measured = found.points[0].measured
    assert (found.rows, found.test_rows, measured.accuracy.rows) == (540, 360, 360)
    assert not measured.fitted_rows
    # Near-ties may be solved differently by less than the certificate's 1e-6 of accuracy, and so by little in rates.
    assert measured.accuracy == pytest.approx(audited.accuracy, abs=1e-3)
    assert measured.global_gap == pytest.approx(audited.global_gap, abs=5e-3)
    assert measured.local_gap == pytest.approx(audited.local_gap, abs=5e-3)


@pytest.mark.parametrize("test_rows", [None, other_rows()], ids=["own rows", "other rows"])
def test_the_unconstrained_point_is_measured_exactly_on_other_rows_or_on_its_own(test_rows):
    scores, labels, names = table(rows=400, sites=4)
    found = surface(rows=400, sites=4, test_rows=test_rows)
    rows = test_rows or {"scores": scores, "labels": labels, **names}
    where = {name: rows[name] for name in names}
    audited = logofair.audit(rows["scores"] >= 0.5, rows["labels"], **where)
    measured = found.points[-1].measured
    assert measured.fitted_rows == (test_rows is None)
    for name in ("accuracy", "global_gap", "local_gap"):
        ours, theirs = getattr(measured, name).as_dict(), getattr(audited, name).as_dict()
        assert ours == pytest.approx(theirs, abs=1e-12)
    assert str(measured.headline_local) == str(audited.headline_local)
    assert str(found.unconstrained.measured.headline_local) == str(audited.headline_local)


def test_the_noise_floor_of_every_point_is_that_of_the_unconstrained_rule():
    found = surface(test_rows=other_rows())
    floors = {(point.measured.local_gap.floor, point.measured.local_gap.detectable) for point in found.points}
    base = found.unconstrained.measured
    assert floors == {(base.local_gap.floor, base.local_gap.detectable)}
    assert found.points[0].measured.headline_local.value.floor == base.headline_local.value.floor


def test_a_gap_on_few_test_rows_does_not_make_the_headline():
    rng = np.random.default_rng(0)
    site = np.repeat(["big", "tiny"], [2000, 8])
    group = rng.choice(["F", "M"], site.size)
    scores = np.where(site == "tiny", np.where(group == "F", 0.9, 0.1), 0.5 + 0.4 * rng.random(site.size))
    rows = {"scores": scores, "labels": scores > 0.5, "sensitive_features": group, "sites": site}
    found = frontier(**rows, calibration="none", local_tolerances=[None], test_rows=rows)
    measured = found.points[-1].measured
    worst = measured.local.gap()
    assert (worst.value, worst.site) == (1.0, "tiny")
    assert worst.value.rows < 30
    assert measured.local_gap == measured.headline_local.value < 0.1
    assert measured.headline_local.value.rows >= 30
    assert found.points[-1].as_dict()["measured"]["local_gap"]["value"] == measured.headline_local.value


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_cells_without_rows_and_unknown_sites_take_what_they_take_in_the_fitted_policy(notion):
    scores, labels, names = table(rows=900)
    kept = ~((names["sites"] == "south") & (names["sensitive_features"] == "M"))  # south has no M, east does not exist
    rows = {name: column[kept] for name, column in names.items()}
    pair = {"local_tolerance": 0.05, "global_tolerance": 0.01}
    other = other_rows()
    found = frontier(
        scores[kept],
        labels[kept],
        notion=notion,
        local_tolerances=[0.05],
        global_tolerances=[0.01],
        test_rows=other,
        **rows,
    )
    fitted = logofair.fit(scores[kept], labels[kept], notion=notion, **pair, **rows)
    audited = fitted.test(**other).tested.second
    measured = found.points[0].measured
    assert set(measured.sites) == {"north", "south", "west", "east"}
    np.testing.assert_allclose(measured.local.values, audited.local.values, atol=5e-3)
    assert measured.accuracy == pytest.approx(audited.accuracy, abs=1e-3)
    base = logofair.audit(
        other["scores"] >= 0.5,
        other["labels"],
        notion=notion,
        sensitive_features=other["sensitive_features"],
        sites=other["sites"],
    )
    south = measured.sites.index("south")
    assert abs(measured.local.values[0, south, 1] - base.local.values[0, south, 1]) > 0.02  # no score >= 1/2


def test_repeated_ids_of_test_rows_count_as_one_person():
    other = other_rows()
    once, twice = other | {"ids": np.arange(500)}, {name: np.tile(column, 2) for name, column in other.items()}
    options = {"local_tolerances": [0.05], "global_tolerances": [None]}
    alone, again = (surface(**options, test_rows=rows) for rows in (once, twice | {"ids": np.tile(np.arange(500), 2)}))
    assert str(alone.points[0].measured.accuracy) == str(again.points[0].measured.accuracy)
    assert again.points[0].measured.accuracy.rows == 500


def test_the_strictest_and_the_loosest_point_are_compared_row_by_row():
    found = surface(test_rows=other_rows())
    first, last = found.points[0].measured, found.points[-1].measured
    assert found.compared.accuracy == pytest.approx(last.accuracy - first.accuracy, abs=1e-12)
    assert found.compared.accuracy.low < found.compared.accuracy < found.compared.accuracy.high
    assert found.compared.global_gap == pytest.approx(last.global_gap - first.global_gap, abs=1e-12)


# --- tables


def test_the_csv_reads_back_as_the_table():
    found = surface(test_rows=other_rows())
    read = list(csv.DictReader(io.StringIO(found.as_csv())))
    assert len(read) == 25
    for line, row in zip(read, found.table, strict=True):
        measured = row.pop("measured")
        for figure in ("accuracy", "local_gap", "global_gap"):
            assert float(line[f"measured_{figure}"]) == measured[figure]["value"]
            assert float(line[f"measured_{figure}_low"]) == measured[figure]["low"]
        for name, value in row.items():
            if value is None:
                assert line[name] == ("none" if name.endswith("tolerance") else "")
            elif isinstance(value, float):
                assert float(line[name]) == value
            else:
                assert line[name] == str(value)


def test_plain_values_are_json_and_say_everything():
    found = surface(test_rows=other_rows(), chosen=(0.05, 0.01))
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["knee"] == found.knee.as_dict()
    assert [p["accuracy"] for p in plain["points"]] == found.values.ravel().tolist()
    assert plain["unconstrained"]["accuracy"] == found.unconstrained.value
    assert plain["test_rows"] == found.test_rows > 0
    first = plain["points"][0]["measured"]
    assert list(first) == ["rates", "accuracy", "local_gap", "global_gap"]
    assert first["rates"]["selection rate"]["F"]["rows"] > 0
    assert plain["strictest_to_loosest"]["accuracy"]["low"] == found.compared.accuracy.low


def test_small_cells_are_named():
    scores, labels, names = table(rows=60)
    found = frontier(scores, labels, local_tolerances=[0.1], global_tolerances=[None], calibration="none", **names)
    assert any(warning.kind == "few rows" for warning in found.warnings)
    assert {warning["kind"] for warning in found.as_dict()["warnings"]} == {warning.kind for warning in found.warnings}


# --- the figure


def drawn(found):
    return ElementTree.fromstring(str(frontier_plot(found)))


def words(root):
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_everything_in_the_figure_lies_inside_its_frame():
    for found in (surface("equalized_odds"), surface(local_tolerances=[0.01]), surface(global_tolerances=[None])):
        root = drawn(found)
        width, height = map(float, root.get("viewBox").split()[2:])
        for element in root.iter():
            for name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(element.get(name, 0)) <= width
            for name in ("y", "y1", "y2", "cy"):
                assert 0 <= float(element.get(name, 0)) <= height


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a & b", 'quote"', "bell\x07 \ud800"])
def test_a_name_cannot_become_markup(name):
    found = surface(Notion(name, given=(None,)))
    assert not list(drawn(found).iter("{http://www.w3.org/2000/svg}script"))
    page = found.page().html()
    assert "<script>alert" not in page
    assert "\x07" not in page


@pytest.mark.parametrize(
    "options",
    [
        {"local_tolerances": [0.1], "global_tolerances": [0.1]},
        {"local_tolerances": [None], "global_tolerances": [None]},
        {"local_tolerances": [0.0], "global_tolerances": [0.0, None]},
        {"sites": 1},
    ],
)
def test_a_grid_of_any_size_can_be_drawn(options):
    assert words(drawn(surface(**options)))[0] == "accuracy, %"


def test_the_figure_marks_the_start_and_its_band_is_the_interval_of_what_was_measured():
    found = surface(chosen=(0.05, 0.01), rows=20_000)
    root = drawn(found)
    tips = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "5 per site, 1 overall: " in " ".join(tips)
    assert ("a good start" in tips) == (found.knee.point is not None)
    (band,) = root.iter("{http://www.w3.org/2000/svg}polygon")
    heights = [float(place.split(",")[1]) for place in band.get("points").split()]
    loosest = [found.at(found.local_tolerances[-1], t).measured.accuracy for t in found.global_tolerances]
    upper, lower = heights[: len(loosest)], heights[len(loosest) :][::-1]
    spans = np.array([figure.high - figure.low for figure in loosest])
    np.testing.assert_allclose(np.subtract(lower, upper) / spans, np.mean(np.subtract(lower, upper) / spans), rtol=0.02)


# --- bad input


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"local_tolerances": 0.1}, "local_tolerances: got 0.1; pass a list"),
        ({"local_tolerances": "0.1"}, "local_tolerances: got '0.1'; pass a list"),
        ({"global_tolerances": []}, "global_tolerances: the list is empty"),
        ({"global_tolerances": [-0.1]}, "global_tolerances: a tolerance is a number"),
        ({"global_tolerances": [math.nan]}, "global_tolerances: a tolerance is a number"),
        ({"local_tolerances": np.linspace(0, 1, 200), "global_tolerances": np.linspace(0, 1, 200)}, "40,000 points"),
        ({"chosen": 0.1}, "chosen: got 0.1; pass a pair"),
        ({"chosen": (0.1, "x")}, "chosen: global: a tolerance is a number"),
        ({"notion": {"demographic_parity": 0.1}}, "notion: got {'demographic_parity': 0.1}; use one of"),
        ({"notion": "parity"}, "notion: unknown notion 'parity'"),
        ({"require": "selection rate gap <= 0.1 at nord"}, "names site 'nord', which has no rows"),
        ({"random_state": -1}, "random_state: got -1"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, sentence):
    with pytest.raises(InputError) as caught:
        surface(**{"rows": 60, **options})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sensitive_features": ["Q"] * 250 + ["F"] * 250}, "test_rows: sensitive_features: no rule is fitted for 'Q'"),
        ({"sites": None}, "test_rows: sites: the rows to fit on have them and the test rows do not"),
        ({"labels": None}, "test_rows: labels: missing"),
        ({"labels": [1, 0]}, "test_rows: labels: has 2 rows"),
        ({"ids": [1, 2]}, "test_rows: ids: has 2 rows"),
        ({"score": [1, 2]}, "test_rows: pass a mapping of columns"),
    ],
)
def test_test_rows_that_cannot_be_used_are_refused_in_one_sentence(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        surface(test_rows=other_rows() | changes)


def test_a_point_off_the_grid_is_refused_with_the_grid():
    with pytest.raises(InputError, match=r"local_tolerance: got 0\.03, which is not on the grid; it has 0, 0\.01"):
        surface().at(0.03, None)


def test_a_cost_must_be_a_number():
    with pytest.raises(InputError, match="accuracy_cost"):
        surface(rows=60).best(None)
