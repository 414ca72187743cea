"""A frontier over tolerances while costs, ratios, floors, ceilings and a capacity are held."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import logofair
from logofair import InfeasibleError, InputError
from logofair.solvers import decomposition
from logofair.tradeoff.result import find_knee
from logofair.words.tradeoffs import frontier_plot

HELD = {"costs": (1, 3), "require": ["accepted <= 0.3 overall", "selection rate of M >= 0.35 per site"]}


def rows(n=900):
    rng = np.random.default_rng(3)
    sex, site = np.array(["F", "M"])[rng.integers(0, 2, n)], np.array(["north", "south"])[rng.integers(0, 2, n)]
    score = rng.beta(1 + (sex == "M"), 2)
    return {"scores": score, "labels": (rng.random(n) < score).astype(int), "sensitive_features": sex, "sites": site}


ROWS = rows()


def surface(**given):
    columns = ROWS | {name: given.pop(name) for name in ("sites",) if name in given}
    usual = {"calibration": "none", "pooling": "none", "global_tolerances": [None]}
    return logofair.frontier(columns.pop("scores"), columns.pop("labels"), **columns, **(usual | given))


def fitted(local, global_, *, measure="gap", require=(), **held):
    given = {"calibration": "none", "pooling": "none", "require": list(require)}
    if measure == "ratio" and local is not None:
        given["require"].insert(0, f"selection rate ratio >= {local:g} per site")
        local = None
    given |= {"local_tolerance": local, "global_tolerance": global_}
    columns = {name: ROWS[name] for name in ("sensitive_features", "sites")}
    return logofair.fit(ROWS["scores"], ROWS["labels"], **columns, **given, **held, random_state=0)


@pytest.fixture(scope="module")
def held():
    return surface(measure="ratio", local_tolerances=[1.0, 0.8, 0.6, None], **HELD)


def test_every_point_is_the_fit_with_its_requirements_or_the_same_proof_that_there_is_none(held):
    assert held.infeasible
    assert held.points
    for point in held.points:
        found = fitted(point.local_tolerance, None, measure=held.measure, **HELD)
        assert point.value == pytest.approx(found.certificate.primal, abs=1e-6)
        assert found.certificate.objective == held.objective == "cost"
    for point in held.infeasible:
        with pytest.raises(InfeasibleError) as caught:
            fitted(point.local_tolerance, None, measure=held.measure, **HELD)
        assert str(caught.value) == str(point.error)


def test_answers_of_one_point_serve_others_though_more_is_required(monkeypatch):
    solved, solve = [], decomposition.solve_local
    monkeypatch.setattr(decomposition, "solve_local", lambda *given: solved.append(1) or solve(*given))
    held, grid = (
        {"require": ["accepted <= 0.3 overall", "true positive rate of F >= 0.3 overall"]},
        [0.0, 0.02, 0.05, 0.1, None],
    )
    found = surface(local_tolerances=[0.0, 0.1], global_tolerances=grid, **held)
    together = len(solved)
    for point in found.points:
        alone = fitted(point.local_tolerance, point.global_tolerance, **held)
        assert point.value == pytest.approx(alone.certificate.primal, abs=1e-6)
    assert together < 0.7 * (len(solved) - together)


def test_a_ratio_is_as_loose_as_it_is_near_to_where_it_stops_binding():
    free = fitted(None, None)
    chances = free.policy.probabilities(**{name: ROWS[name] for name in ("scores", "sensitive_features", "sites")})
    rates = [
        [chances[(ROWS["sensitive_features"] == g) & (ROWS["sites"] == c)].mean() for g in "FM"]
        for c in ("north", "south")
    ]
    stops = min(min(own) / max(own) for own in rates)  # the unconstrained rule's own ratio
    for ratios in ([1.0, 0.9], [1.0, 0.5, 0.1]):
        found = surface(measure="ratio", local_tolerances=[*ratios, None])
        expected = [min((1 - ratio) / (1 - stops), 1) for ratio in ratios]
        assert found.looseness == pytest.approx([*expected, 1.0])


def test_looseness_counts_from_the_first_points_that_can_be_had():
    points = surface(measure="ratio", local_tolerances=[0.8, 0.6, None]).points
    bent = [replace(point, loss=loss) for point, loss in zip(points, (1.0, 0.2, 0.0), strict=True)]
    knee = find_knee(bent, np.array([0.4, 0.7, 1.0]))  # half of the way that is left
    assert knee.point is bent[1]
    assert knee.lead == pytest.approx(0.8 - 0.5)


def test_losses_are_what_tolerances_take_beyond_what_is_held(held):
    free = fitted(None, None, **HELD).certificate.primal
    assert held.unconstrained.value == pytest.approx(free, abs=1e-6)
    for point in held.points:
        assert point.loss == pytest.approx(point.value - free, abs=2e-6)
    assert held.points[-1].loss == pytest.approx(0.0, abs=2e-6)


def test_no_point_is_cheaper_than_prices_say():
    found = surface(local_tolerances=[0.0, 0.05, 0.1], costs=(1, 3), require="accepted <= 0.4 overall")
    assert any(point.local_price > 0 for point in found.points)
    for here in found.points:
        for there in found.points:
            more = there.local_tolerance - here.local_tolerance
            assert there.value >= here.certificate.dual - here.local_price * more - 1e-6


def test_what_cannot_be_had_is_said_with_its_proof_everywhere(held):
    line = next(line for line in held.as_csv().splitlines() if line.startswith("ratio,1.0,none"))
    assert "no rule meets all of them" in line
    plain = held.as_dict()
    assert [("infeasible" in point) for point in plain["points"]] == [bool(v) for v in np.isnan(held.values).ravel()]
    assert plain["objective"] == "cost"
    assert plain["held"]["require"] == HELD["require"]
    with pytest.raises(InfeasibleError, match="conflict"):
        held.at(1.0, None)


def test_what_cannot_be_had_is_said_and_cost_is_per_person_on_the_page_and_in_the_picture(held):
    text = " ".join(held.summary().split())
    assert "no rule" in text
    assert "per person" in text
    assert "no rule meets all of them: 'selection rate ratio >= 1 per site'" in text
    words = " ".join(ElementTree.fromstring(str(frontier_plot(held))).itertext())
    assert "cost per person" in words


def test_costs_are_measured_on_other_rows():
    other = {**ROWS, "sites": np.where(ROWS["sites"] == "north", "north", "elsewhere")}
    found = surface(
        local_tolerances=[0.02, None],
        costs={"north": (1, 3), "south": (2, 1)},
        require="accepted <= 0.4 overall",
        test_rows=other,
    )
    audit = found.points[0].measured
    assert audit.cost.rows == 900
    assert found.compared.cost.low is not None


def test_requirements_that_conflict_without_any_tolerance_raise_their_proof():
    with pytest.raises(InfeasibleError, match=r"'accepted <= 0.1 overall'.* conflict"):
        surface(local_tolerances=[0.05], require=["accepted <= 0.1 overall", "selection rate >= 0.5 per site"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"measure": "gaps"}, "measure: got 'gaps'; use one of gap, ratio"),
        ({"measure": "ratio", "local_tolerances": [0.0]}, "local_tolerances: got 0.0; a ratio of rates is above 0"),
        ({"measure": "ratio", "local_tolerances": [1.1]}, "local_tolerances: got 1.1; a ratio of rates is above 0"),
        ({"require": "accepted <= 2 overall"}, "got a bound of 2"),
        ({"costs": (0, 0)}, "costs: both errors cost 0"),
        ({"require": "selection rate of X >= 0.1 per site"}, "names group 'X'"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_sentence(given, said):
    with pytest.raises(InputError, match=said):
        surface(**given)


def test_a_chosen_ratio_brings_a_grid_of_ratios():
    found = surface(measure="ratio", global_tolerances=None, chosen=(0.85, None))
    assert 0.85 in found.local_tolerances
    assert found.local_tolerances[0] == 1.0
    assert found.as_dict()["measure"] == "ratio"


@pytest.mark.parametrize(
    "loss", ["accuracy loss <= 0.01 per site", "accuracy loss from unconstrained <= 0.01 per site"]
)
def test_what_sites_may_lose_is_that_of_a_fit_at_every_point(loss):
    given = {"local_tolerances": [0.02, 0.1, 0.2], "global_tolerances": [0.0, 0.02, 0.1], "require": [loss]}
    found = surface(**given)
    assert found.infeasible
    assert found.points
    for point in found.points:
        own = fitted(point.local_tolerance, point.global_tolerance, require=[loss])
        assert point.value == pytest.approx(own.certificate.primal, abs=2e-6)
    for point in found.infeasible:
        with pytest.raises(InfeasibleError) as caught:
            fitted(point.local_tolerance, point.global_tolerance, require=[loss])
        assert str(caught.value) == str(point.error)
