"""``logofair.recommend``: what it claims is certified by the call it prints, and is true as often as it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import logofair
from logofair.outcomes import NEW_ROWS, UNCLEAR, Outcomes
from logofair.tradeoff import recommend, recommendation

GRID = np.linspace(0.005, 0.995, 199)  # the scores there are: what is true of new people can be summed up


class World:
    """Sites with two groups each, whose scores follow known laws."""

    def __init__(self, seed, n_sites):
        rng = np.random.default_rng(seed)
        self.sites = n_sites
        self.shares = rng.dirichlet(np.full(n_sites, 5.0))
        a, b = rng.uniform(0.8, 3.0, (2, n_sites, 2))
        laws = GRID[None, None] ** (a[..., None] - 1) * (1 - GRID) ** (b[..., None] - 1)
        self.laws = laws / laws.sum(axis=-1, keepdims=True)

    def rows(self, n, rng):
        """Scores, labels, group and site of people drawn at random."""
        site, group = rng.choice(self.sites, n, p=self.shares), rng.integers(0, 2, n)
        score = np.zeros(n)
        for c in range(self.sites):
            for g in range(2):
                here = (site == c) & (group == g)
                score[here] = rng.choice(GRID, here.sum(), p=self.laws[c, g])
        return score, rng.random(n) < score, group, site

    def gap(self, policy, given, site):
        """The true gap of new people in a rate: of all, or those of one label, at a site or (None) over all."""
        counts = {None: np.ones_like(GRID), 1: GRID, 0: 1.0 - GRID}[given]
        top, base = np.zeros((2, 2))
        for c in range(self.sites) if site is None else [site]:
            for g in range(2):
                where = {"sensitive_features": np.full(GRID.size, g), "sites": np.full(GRID.size, c)}
                mass = self.shares[c] * self.laws[c, g] * counts
                top[g] += mass @ policy.probabilities(GRID, **where)
                base[g] += mass.sum()
        return abs(top[0] / base[0] - top[1] / base[1])


GIVEN = {"selection rate": (None,), "true positive rate": (1,), "false positive rate": (0,), "equalized odds": (1, 0)}


def fitted(line, rows, **more):
    score, label, group, site = rows
    return logofair.fit(score, label, sensitive_features=group, sites=site, **line.arguments, **more)


def claimed(outcomes):
    return {(str(each.requirement), each.site) for each in outcomes}


def check_that_the_calls_certify(rows, **more):
    score, label, group, site = rows
    found = recommend(score, label, sensitive_features=group, sites=site, **more)
    for line in found.lines:
        if line.found:
            solution = fitted(line, rows, random_state=found.random_state)
            assert claimed(line.certified) <= claimed(solution.outcomes.where(basis=NEW_ROWS, state="met"))
            assert solution.certificate.primal == pytest.approx(line.value, abs=1e-9)
    return found


@pytest.mark.parametrize(("n", "n_sites"), [(900, 1), (6000, 3)])
def test_the_call_of_each_line_certifies_what_the_line_says(n, n_sites):
    world, rng = World(n, n_sites), np.random.default_rng(n)
    found = check_that_the_calls_certify(world.rows(n, rng))
    assert {line.method for line in found.lines} == {"by rank", "on rows held out"}
    assert any(line.found for line in found.lines)
    assert all(line.confidence == pytest.approx(0.9875) for line in found.lines if line.method == "by rank")
    assert all(line.confidence >= 0.9875 for line in found.lines if line.method != "by rank")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(48))
def test_the_call_of_each_line_certifies_what_the_line_says_on_many_data(seed):
    rng = np.random.default_rng(seed)
    n, n_sites = int(np.exp(rng.uniform(np.log(470), np.log(50_000)))), int(np.exp(rng.uniform(0, np.log(150))))
    check_that_the_calls_certify(World(seed, n_sites).rows(n, rng), random_state=seed)


@pytest.mark.slow
@pytest.mark.parametrize("sensitive", ["sex", "race"])
def test_the_call_of_each_line_certifies_what_the_line_says_on_adult(sensitive):
    from sklearn.linear_model import LogisticRegression

    from logofair.datasets import dirichlet_sites, load_adult, split

    data = load_adult(sensitive)
    parts = split(len(data), {"train": 0.5, "calibrate": 0.5}, rng=0)
    train, rows = parts["train"], parts["calibrate"]
    model = LogisticRegression(solver="newton-cholesky").fit(data.features[train], data.labels[train])
    score, group = model.predict_proba(data.features[rows])[:, 1], data.sensitive[rows]
    check_that_the_calls_certify((score, data.labels[rows], group, dirichlet_sites(group, n_sites=4, alpha=5.0, rng=0)))


def wrong(seed, n=2000):
    """Whether any limit that is claimed is exceeded in truth, under the rules that were certified."""
    world, rng = World(seed, 2), np.random.default_rng([seed, 1])
    rows = world.rows(n, rng)
    score, label, group, site = rows
    found = recommend(score, label, sensitive_features=group, sites=site, random_state=seed)
    claims = 0
    for line in found.lines:
        if not line.found:
            continue
        policy = fitted(line, rows, random_state=seed).policy
        for each in line.certified:
            claims += 1
            subject = str(each.requirement).split(" gap ")[0]
            if any(world.gap(policy, given, each.site) > each.limit for given in GIVEN[subject]):
                return True, claims
    return False, claims


@pytest.mark.slow
def test_what_is_claimed_is_true_as_often_as_it_says():
    runs = [wrong(seed) for seed in range(60)]
    assert sum(claims for _, claims in runs) > 100, "something must be claimed"
    assert sum(was for was, _ in runs) <= binom.ppf(0.999, len(runs), 0.05)


def test_one_site_has_limits_over_all_alone():
    rng = np.random.default_rng(0)
    score, group = rng.random(3000), rng.integers(0, 2, 3000)
    found = recommend(score, rng.random(3000) < score, sensitive_features=group, notion="demographic_parity")
    (line,) = found.lines
    assert line.local_limit is None
    assert line.global_limit <= 0.1
    assert line.confidence == 0.95
    assert not line.too_small


@pytest.mark.parametrize("confidence", [0.9999999, 1.0 - 1e-15])
def test_next_to_certain_the_call_of_a_line_is_still_one_that_fit_takes(confidence):
    rng = np.random.default_rng(0)
    score, group = rng.random(3000), rng.integers(0, 2, 3000)
    rows = score, (rng.random(3000) < score).astype(int), group, None
    for line in recommend(*rows[:2], sensitive_features=group, confidence=confidence).lines:
        assert confidence <= line.confidence < 1.0
        assert claimed(line.certified) <= claimed(fitted(line, rows).outcomes.where(basis=NEW_ROWS, state="met"))


def test_the_call_of_a_line_about_a_notion_of_ones_own_names_its_rates():
    rng = np.random.default_rng(0)
    score, group = rng.random(3000), rng.integers(0, 2, 3000)
    own = logofair.Notion("ours", given=(logofair.Rate("benefit", -1.0, 2.0, base=(1.0, 0.0)),))
    rows = score, (rng.random(3000) < score).astype(int), group, None
    (line,) = recommend(*rows[:2], sensitive_features=group, notion=own).lines
    assert line.arguments["notion"] == own
    assert line.as_dict()["rates"] == ["benefit"]
    fitted(replace(line, global_limit=0.1), rows)


def test_without_labels_only_what_needs_none_is_tried():
    rng = np.random.default_rng(0)
    found = recommend(rng.random(2000), None, sensitive_features=rng.integers(0, 2, 2000), calibration="none")
    assert [line.notion for line in found.lines] == ["demographic_parity"]


def test_nothing_is_recommended_where_nothing_can_be_defended():
    rng = np.random.default_rng(0)
    score = rng.random(60)
    found = recommend(score, rng.random(60) < score, sensitive_features=rng.integers(0, 2, 60))
    odds = found.lines[-1]
    assert not odds.found
    assert odds.rows_needed > 60
    assert odds.certified.entries == ()


def test_small_sites_are_named_and_do_not_hinder_the_others():
    world, rng = World(7, 2), np.random.default_rng(7)
    score, label, group, site = world.rows(8000, rng)
    site = np.where(np.arange(8000) < 20, 2, site)  # twenty people at a site of their own
    found = recommend(score, label, sensitive_features=group, sites=site, notion="demographic_parity")
    (line,) = found.lines
    assert line.too_small == (2,)
    assert set(line.sites) == {0, 1}
    assert line.local_limit < 0.2


def test_tries_on_rows_held_out_share_the_error_and_the_tightest_that_holds_is_kept(monkeypatch):
    world, rng = World(3, 4), np.random.default_rng(3)
    score, label, group, site = world.rows(40_000, rng)
    tried = []

    def certify(split, requirements, confidence, settings):
        rules = certify_for_new_rows(split, requirements, confidence, settings)
        tried.append((min(item.bound for item in requirements.items if not item.scope.is_global), confidence))
        if len(tried) > 1:
            return rules
        return replace(rules, certified=Outcomes(tuple(replace(each, state=UNCLEAR) for each in rules.certified)))

    certify_for_new_rows = recommendation.certify_for_new_rows
    monkeypatch.setattr(recommendation, "certify_for_new_rows", certify)
    rows = {"sensitive_features": group, "sites": site, "notion": "equalized_odds"}
    (line,) = recommend(score, label, **rows).lines
    assert [limit for limit, _ in tried] == sorted(limit for limit, _ in tried)
    assert {confidence for _, confidence in tried} == {line.confidence}
    assert 1.0 - line.confidence == pytest.approx(0.05 / 3, abs=1e-6)
    assert line.local_limit == tried[-1][0]


def test_a_rate_that_is_low_makes_limits_void():
    rng = np.random.default_rng(0)
    score = rng.beta(1, 12, 8000)
    rows = {"sensitive_features": rng.integers(0, 2, 8000), "notion": "demographic_parity"}
    (line,) = recommend(score, rng.random(8000) < score, **rows).lines
    assert line.share < 0.02
    assert line.is_void


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"notion": "parity"}, "notion: unknown notion 'parity'"),
        ({"notion": ()}, "notion: got none"),
        ({"notion": 5}, "notion: unknown notion 5"),
        ({"confidence": None}, "confidence: got None"),
        ({"confidence": 1.0}, "confidence: got 1.0"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_input_gets_one_sentence(given, words):
    with pytest.raises(logofair.InputError, match=words):
        recommend([0.2, 0.8] * 20, [0, 1] * 20, sensitive_features=["a", "b"] * 20, **given)
