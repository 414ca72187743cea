"""FCFL: its programs beside brute force, both stages by hand, annealing, and inputs that leave a program no answer."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from logofair.errors import InputError
from logofair.notions import DEMOGRAPHIC_PARITY, EQUAL_OPPORTUNITY, EQUALIZED_ODDS, NOTIONS, Notion
from logofair_reproduction.training import FCFL, build_network, methods, train
from logofair_reproduction.training.local import batch_gradients
from logofair_reproduction.training.messages import ClientMeasures, Gradients, TrainedParameters
from logofair_reproduction.training.methods import best_mix, shortest_mix
from made.problems import awkward, biased, last
from support.examples import examples

pytestmark = pytest.mark.training

NOBODY = ClientMeasures((), (), np.zeros((0, 2, 2)), np.zeros((0, 2, 2)), np.zeros((0, 2, 2)))


def vectors(seed: int, n: int, d: int, width: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-width, width, size=(n, 1))


def by_vertices(products: np.ndarray, gain: np.ndarray, kept: list[int]) -> float:
    """Best value of the linear program: every vertex has as many active constraints as unknowns."""
    n = len(products)
    active = np.vstack([np.eye(n), products[kept]])
    best = -np.inf
    for chosen in combinations(range(len(active)), n - 1):
        system = np.vstack([active[list(chosen)], np.ones(n)])
        if np.linalg.cond(system) > 1e10:
            continue
        point = np.linalg.solve(system, np.append(np.zeros(n - 1), 1.0))
        if (active @ point >= -1e-9).all():
            best = max(best, float(gain @ point))
    return best


@examples(60)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 5), d=st.integers(2, 5), all_kept=st.booleans())
def test_the_best_mix_is_the_best_vertex(seed: int, n: int, d: int, all_kept: bool) -> None:
    g = vectors(seed, n, d)
    products = g @ g.T
    gain, kept = products[:, :-1].mean(1), list(range(n)) if all_kept else [0]
    found = best_mix(products, gain, kept)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)
    assert (products[kept] @ found >= -1e-7).all()
    assert gain @ found == pytest.approx(by_vertices(products, gain, kept), rel=1e-6, abs=1e-6)


@examples(30)
@given(seed=st.integers(0, 10**6))
def test_the_best_mix_of_three_is_no_worse_than_any_on_a_fine_grid(seed: int) -> None:
    g = vectors(seed, 3, 2)
    products = g @ g.T
    gain, steps = products[2], np.linspace(0.0, 1.0, 81)
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1.0])
    allowed = grid[(grid @ products[:, 0] >= 0) & (grid @ products[:, 1] >= 0)]
    found = best_mix(products, gain, [0, 1])
    assert (found @ products[:, [0, 1]] >= -1e-7).all()
    assert allowed.size == 0 or gain @ found >= (allowed @ gain).max() - 1e-7


@examples(60)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 6), zero_last=st.booleans())
def test_the_second_stage_raises_no_clients_loss_to_first_order_however_unlike_the_gradients_are_in_length(
    seed: int, n: int, zero_last: bool
) -> None:
    g = vectors(seed, n, 8, width=3.0)
    direction = methods.pareto_direction(g[:-1], g[-1], violated=not zero_last)
    length = np.linalg.norm(direction)
    assert length > 0
    kept = g[:-1] if zero_last else g
    cosines = kept @ direction / length / np.linalg.norm(kept, axis=1)
    assert cosines.min() >= -1e-6


def test_the_second_stage_by_hand() -> None:
    # Two clients at a right angle and no gap: all mixes lower both; the mean gradient gains most from the longer.
    g = np.array([[3.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(methods.pareto_direction(g, np.zeros(2), violated=False), [3.0, 0.0], atol=1e-9)
    # A mix a (2, 0) + (1 - a) (-1, 1) raises no loss for a from 1/3 to 1/2; along the mean (1/2, 1/2) it gains a.
    g = np.array([[2.0, 0.0], [-1.0, 1.0]])
    np.testing.assert_allclose(methods.pareto_direction(g, np.zeros(2), violated=False), [0.5, 0.5], atol=1e-9)


def test_the_second_stage_gains_along_the_losses_alone_and_does_not_raise_a_violated_gap() -> None:
    # The long gradient of the gap gains nothing for the loss; beside it the loss may be lowered all the way.
    loss = np.array([[1.0, 0.0]])
    np.testing.assert_allclose(
        methods.pareto_direction(loss, np.array([0.0, 2.0]), violated=True), [1.0, 0.0], atol=1e-9
    )
    # A mix a (1, 0) + (1 - a) (-1, 1) does not raise the second for a up to 2/3; within the tolerance any will do.
    against = np.array([-1.0, 1.0])
    np.testing.assert_allclose(methods.pareto_direction(loss, against, violated=True), [1 / 3, 1 / 3], atol=1e-9)
    np.testing.assert_allclose(methods.pareto_direction(loss, against, violated=False), [1.0, 0.0], atol=1e-9)


@examples(40)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 5), d=st.integers(1, 6))
def test_the_shortest_mix_is_that_of_a_quadratic_program(seed: int, n: int, d: int) -> None:
    g = vectors(seed, n, d) + 0.5
    products = g @ g.T
    found = shortest_mix(products)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)
    program = minimize(
        lambda a: a @ products @ a,
        np.full(n, 1 / n),
        jac=lambda a: 2 * products @ a,
        bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(n)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found @ products @ found <= program.fun + 1e-7
    # The nearest point v of a hull to 0 is the one with g_j . v >= v . v for all j.
    assert (products @ found >= found @ products @ found - 1e-7 * np.abs(products).max()).all()


def reply(values: list[float], gradients: object) -> Gradients:
    return Gradients(np.array(values), np.array(gradients, float))


def stepped(method: FCFL, replies: dict[int, Gradients], taken: int = 0, size: int = 2) -> np.ndarray:
    """How far one step goes, over the step size."""
    state = {**method.initial_state(NOBODY), "taken": np.array([float(taken)])}
    start = np.arange(1.0, size + 1)
    after, _ = method.step(state, start, NOBODY, replies)
    return np.asarray(start - after) / method.step_size


def test_with_inactive_constraints_the_first_stage_is_a_plain_min_max_step() -> None:
    method = FCFL(tolerance=0.1)
    replies = {0: reply([0.9, 0.05], [[1.0, 2.0], [9.0, 9.0]]), 1: reply([0.4, 0.1], [[-3.0, 1.0], [9.0, -9.0]])}
    share = np.exp(0.9 / 0.5) / (np.exp(0.9 / 0.5) + np.exp(0.4 / 0.5))
    expected = share * np.array([1.0, 2.0]) + (1 - share) * np.array([-3.0, 1.0])
    np.testing.assert_allclose(stepped(method, replies), expected, rtol=1e-12)


def test_a_violated_constraint_is_lowered_most_without_raising_the_largest_loss() -> None:
    # One client: u1 = (1, 0), u2 = (-1, 1). All weight on u2 would raise the loss; 1/2 each is as far as it goes.
    method, replies = FCFL(tolerance=0.1), {0: reply([0.7, 0.3], [[1.0, 0.0], [-1.0, 1.0]])}
    np.testing.assert_allclose(stepped(method, replies), [0.0, 0.5], atol=1e-9)
    # u2 = (1, 3) lowers both: all weight on it.
    replies = {0: reply([0.7, 0.3], [[1.0, 0.0], [1.0, 3.0]])}
    np.testing.assert_allclose(stepped(method, replies), [1.0, 3.0], atol=1e-9)


def test_the_gaps_are_mixed_by_the_softmax_of_their_excess() -> None:
    # The losses' gradients are 0, so that the mix is of the gaps alone: weights e^{0.2/d} and e^{0.6/d}.
    method = FCFL(tolerance=0.1, smoothing=0.5)
    replies = {0: reply([0.7, 0.2], [[0, 0], [1.0, 0.0]]), 1: reply([0.7, 0.6], [[0, 0], [0.0, 1.0]])}
    share = 1 / (1 + np.exp((0.6 - 0.2) / 0.5))
    np.testing.assert_allclose(stepped(method, replies), [share, 1 - share], rtol=1e-9)


def test_stages_change_after_the_rounds_of_the_first() -> None:
    replies = {0: reply([2.0, 0.0], [[3.0, 0.0], [0, 0]]), 1: reply([0.1, 0.0], [[0.0, 1.0], [0, 0]])}
    method = FCFL(first_stage=5)
    share = 1 / (1 + np.exp((0.1 - 2.0) / 0.5))
    np.testing.assert_allclose(stepped(method, replies, taken=4), [3 * share, 1 - share], rtol=1e-12)
    np.testing.assert_allclose(stepped(method, replies, taken=5), [3.0, 0.0], atol=1e-9)


def test_smoothing_is_sharpened_where_gradients_are_small_beside_it_and_no_further_than_a_floor() -> None:
    method = FCFL(smoothing=0.5)
    state = method.initial_state(NOBODY)
    assert state["smoothing"].tolist() == [0.5, 0.5]
    # Lengths 6 (0.6 > 0.5: kept) and 5 (0.5 <= 0.5: a hundredth).
    _, state = method.step(state, np.zeros(1), NOBODY, {0: reply([1.0, 0.0], [[6.0], [5.0]])})
    np.testing.assert_allclose(state["smoothing"], [0.5, 0.005])
    assert state["taken"].tolist() == [1.0]
    for _ in range(5):
        _, state = method.step(state, np.zeros(1), NOBODY, {0: reply([1.0, 0.0], [[1e-9], [1e-9]])})
    np.testing.assert_allclose(state["smoothing"], [0.5e-4, 0.5e-4])  # below 1e-4 nothing changes any more


def test_very_sharp_smoothing_does_not_overflow() -> None:
    method = FCFL(smoothing=1e-5)
    replies = {0: reply([900.0, 0.4], [[1.0, 0.0], [0.0, 1.0]]), 1: reply([0.1, 0.0], [[5.0, 0.0], [0.0, 5.0]])}
    assert np.isfinite(stepped(method, replies)).all()


def test_undefined_gaps_count_nothing() -> None:
    method, nan = FCFL(tolerance=0.1), np.nan
    known = {0: reply([0.5, 0.4], [[1.0, 0.0], [0.0, 2.0]])}
    beside = {**known, 1: reply([0.5, nan], [[1.0, 0.0], [0.0, 0.0]])}
    np.testing.assert_allclose(stepped(method, beside), stepped(method, known), rtol=1e-12)
    unknown = {0: reply([0.5, nan], [[1.0, 0.0], [0.0, 0.0]])}
    for taken in (0, 800):
        np.testing.assert_allclose(stepped(method, unknown, taken), [1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("taken", [0, 800])
def test_a_client_whose_numbers_are_no_numbers_counts_nothing(taken: int) -> None:
    method, good = FCFL(), reply([0.5, 0.4], [[1.0, 0.0], [0.0, 2.0]])
    for bad in (reply([np.nan, 0.4], np.ones((2, 2))), reply([0.5, 0.4], [[np.inf, 0.0], [0.0, np.nan]])):
        np.testing.assert_array_equal(stepped(method, {0: good, 1: bad}, taken), stepped(method, {0: good}, taken))
        assert (stepped(method, {0: bad}, taken) == 0.0).all()


def test_replies_of_another_kind_and_no_replies_leave_model_and_state() -> None:
    method, start = FCFL(), np.array([1.0, 2.0])
    state = method.initial_state(NOBODY)
    for replies in ({}, {0: TrainedParameters(np.ones(2))}):
        after, kept = method.step(state, start, NOBODY, replies)
        assert after is start
        assert kept is state


@pytest.mark.parametrize("products", [np.zeros((3, 3)), np.full((3, 3), np.nan), np.full((3, 3), np.inf)])
def test_mixes_of_nothing_and_of_no_numbers_are_still_mixes(products: np.ndarray) -> None:
    for weights in (best_mix(products, products[0], range(3)), shortest_mix(products)):
        assert weights.min() >= 0.0
        assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("taken", [0, 800])
def test_zero_gradients_take_no_step(taken: int) -> None:
    replies = {place: reply([0.7, 0.9], np.zeros((2, 2))) for place in range(3)}
    assert (stepped(FCFL(), replies, taken) == 0.0).all()


@pytest.mark.parametrize("status", [1, 2, 3, 4])
def test_a_program_without_an_answer_gives_the_shortest_mix(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "linprog", lambda *_, **__: SimpleNamespace(status=status, x=None))
    g = vectors(0, 3, 4)
    products = g @ g.T
    np.testing.assert_array_equal(best_mix(products, products[0], range(3)), shortest_mix(products))


def test_a_run_goes_on_where_every_program_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "linprog", lambda *_, **__: SimpleNamespace(status=2, x=None))

    def failing(*_: object) -> None:
        raise RuntimeError("Maximum number of iterations reached.")

    network, method = build_network("logistic", (2,)), FCFL(tolerance=0.0, first_stage=5, measure_every=1)
    states = list(train(method, network, awkward(), rounds=10))
    assert states[-1].round == 10
    monkeypatch.setattr(methods, "nnls", failing)
    *_, final = train(method, network, awkward(), rounds=10)
    assert final.round == 10
    assert np.isfinite(final.parameters).all()


@pytest.mark.parametrize(
    ("notion", "per_client"), [(DEMOGRAPHIC_PARITY, 1), (EQUAL_OPPORTUNITY, 1), (EQUALIZED_ODDS, 2)]
)
def test_equalized_odds_has_two_constraints_per_client_the_others_one(notion: Notion, per_client: int) -> None:
    rows, network = biased(60, 1)[0], build_network("logistic", (3,))
    found = batch_gradients(network, rows, network.start(0), FCFL(notion).request({}), np.random.default_rng(0))
    assert found.values.shape == (1 + per_client,)
    assert found.gradients.shape == (1 + per_client, 4)


def test_the_second_constraint_of_equalized_odds_alone_is_acted_upon() -> None:
    replies = {0: reply([0.7, 0.0, 0.5], [[0.0, 0.0], [5.0, 0.0], [0.0, 2.0]])}
    direction = stepped(FCFL(EQUALIZED_ODDS, tolerance=0.1, smoothing=0.01), replies)
    np.testing.assert_allclose(direction, [0.0, 2.0], atol=1e-9)


@pytest.mark.parametrize("notion", list(NOTIONS.values()), ids=list(NOTIONS))
def test_gaps_fall_on_a_biased_problem(notion: Notion) -> None:
    rows, network = biased(200), build_network("logistic", (3,))
    local = {}
    for tolerance in (0.02, 1.0):  # a tolerance of 1 never binds
        method = FCFL(notion, tolerance=tolerance, step_size=1.0, batch_size=1000, first_stage=25, measure_every=32)
        local[tolerance] = last(train(method, network, rows, rounds=32)).measured.gaps(notion)[0]
    assert local[0.02] < 0.7 * local[1.0]


def test_bad_settings_are_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"^tolerance: got -0\.1; pass a number of at least 0\.$"):
        FCFL(tolerance=-0.1)
    with pytest.raises(InputError, match=r"^step_size: got 0; pass a number above 0 and at most 1e\+06\.$"):
        FCFL(step_size=0)
    with pytest.raises(InputError, match=r"^smoothing: got nan; .*\.$"):
        FCFL(smoothing=float("nan"))
    with pytest.raises(InputError, match=r"^first_stage: got -1; pass a whole number of at least 0\.$"):
        FCFL(first_stage=-1)
    with pytest.raises(InputError, match=r"^batch_size: got 0; pass a whole number of at least 1\.$"):
        FCFL(batch_size=0)
