"""What a site's policy says of the site itself, counted again from its own rows, decision by decision."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from logofair.engines.inprocess import run, run_apart
from logofair.federation import SiteColumns, late_policy, make_plan
from logofair.federation.exchange import reply_form
from logofair.federation.exchanges.final import FinalFigures, FinalRequest
from logofair.federation.exchanges.publication import Received
from logofair.federation.rows import Preparation

pytestmark = pytest.mark.federation


def sites(weighted=False):
    made = {}
    for number, name in enumerate(("north", "south", "east")):
        rng = np.random.default_rng(number)
        n = 150 + 50 * number
        weight = rng.integers(1, 4, n).astype(float) if weighted else None
        made[name] = SiteColumns(rng.choice(["F", "M"], n), rng.beta(1 + number, 2, n), sample_weight=weight)
    return made


def plan(notion="demographic_parity", **options):
    return make_plan(
        groups=["F", "M"],
        notion=notion,
        calibration="none",
        pooling="none",
        local_tolerance=0.05,
        global_tolerance=0.02,
        run="spring",
        **options,
    )


def counted(policy, columns, notion):
    """Accuracy, share accepted and local gaps from the chances of single rows."""
    chance, weight = (
        policy.probabilities(columns.scores, sensitive_features=columns.sensitive_features),
        columns.sample_weight,
    )
    weight, eta = np.ones(chance.size) if weight is None else weight, columns.scores
    accuracy = np.average(eta * chance + (1 - eta) * (1 - chance), weights=weight)
    women = columns.sensitive_features == "F"

    def rates(value):
        return [np.average(chance[who], weights=(weight * value)[who]) for who in (women, ~women)]

    accepted = rates(np.ones_like(eta))
    ways = {"selection rate": accepted}
    if notion == "equalized_odds":
        ways = {"true positive rate": rates(eta), "false positive rate": rates(1 - eta)}
    return accuracy, dict(zip(("F", "M"), accepted, strict=True)), {name: abs(a - b) for name, (a, b) in ways.items()}


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("engine", [run, run_apart])
def test_a_sites_figures_are_those_of_its_own_rows(notion, weighted, engine):
    rows = sites(weighted)
    done = engine(plan(notion), rows)
    for site, columns in rows.items():
        info = done.policies[site].info
        accuracy, accepted, gaps = counted(done.policies[site], columns, notion)
        assert info.rows == columns.sensitive_features.size
        assert info.site_figures.accuracy == pytest.approx(accuracy, abs=1e-9)
        assert info.site_figures.accepted == pytest.approx(accepted, abs=1e-9)
        assert info.site_figures.local_gaps == pytest.approx(gaps, abs=1e-9)
        assert max(gaps.values()) <= 0.05 + 1e-9
        late = late_policy(done.result, columns, site).info
        assert late.site_figures == info.site_figures


def test_a_site_whose_gaps_are_free_or_cannot_be_measured_tells_none():
    rows = sites()
    free = run(make_plan(groups=["F", "M"], calibration="none", local_tolerance=None, run="s"), rows)
    assert free.policies["north"].info.site_figures.local_gaps == {}
    alone = SiteColumns(np.array(["F"] * 40), np.linspace(0.1, 0.9, 40))
    figures = run(plan(), rows | {"south": alone}).policies["south"].info.site_figures
    assert figures.local_gaps == {}
    assert list(figures.accepted) == ["F"]


def test_no_reply_of_the_last_messages_has_room_for_them_unless_small_cells_borrow():
    assert {field.name for field in fields(FinalFigures)} == {"gain", "shares", "exceeding", "combinations", "own"}
    request = FinalRequest(np.zeros((1, 2, 1)), np.ones(1))
    assert reply_form(request, plan())[1][-1] == (0, 3)
    assert fields(Received) == ()


def test_a_policy_turns_its_sites_rows_into_chances_once(monkeypatch):
    done, counted = run(plan(), sites()), []
    chances = Preparation.chances
    monkeypatch.setattr(Preparation, "chances", lambda *given: counted.append(1) or chances(*given))
    assert done.policies["south"].info.site_figures is not None
    assert len(counted) == 1
