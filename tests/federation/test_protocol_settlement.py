"""A site stores no rule it has not checked, whatever weights and totals the server sends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from logofair.errors import RefusedError
from logofair.federation import ClientBatch, Server, SiteColumns, make_plan
from logofair.federation.messages import AnswersRequest, FinalRequest, Publish

pytestmark = pytest.mark.federation


def settled_crowd():
    """A site that has answered, and the settlement it is asked for."""
    rng = np.random.default_rng(0)
    rows = SiteColumns(groups=["F", "M"] * 100, scores=rng.random(200))
    plan = make_plan(
        groups=["F", "M"], calibration="none", local_tolerance=0.01, global_tolerance=0.01, run="s", quorum=1
    )
    crowd, server = ClientBatch.of({"a": rows}, plan), Server.start(plan, ["a"])
    while not isinstance(server.request, FinalRequest):
        crowd, sums = crowd.answer(server.request)
        server = server.take(sums.total())
    return crowd, server.request


@pytest.mark.parametrize("weights", [[3.0, -2.0], [5.0, 0.0], [-1.0, 0.0], [np.nan, 1.0], [1.0]])
def test_weights_that_mix_nothing_are_refused(weights):
    crowd, request = settled_crowd()
    prices = np.concatenate([request.prices[:1], request.prices[:1] + 0.0])
    with pytest.raises(RefusedError):
        crowd.answer(FinalRequest(prices, np.array(weights)))


def test_a_settled_rule_does_not_change_after_the_result():
    crowd, request = settled_crowd()
    crowd, _ = crowd.answer(request)
    crowd, _ = crowd.answer(Publish({}))
    with pytest.raises(RefusedError):
        crowd.answer(request)


def test_a_result_for_a_rule_that_breaks_the_local_promise_is_refused():
    crowd, request = settled_crowd()
    crowd, _ = crowd.answer(request)
    with pytest.raises(RefusedError, match="local promise"):
        replace(crowd, memory=replace(crowd.memory, broken=True)).answer(Publish({}))


def test_totals_below_the_sites_own_are_refused():
    rows = SiteColumns(groups=["F", "M"] * 10, scores=np.linspace(0.1, 0.9, 20))
    plan = make_plan(groups=["F", "M"], calibration="none", run="s", quorum=1)
    crowd, _ = ClientBatch.of({"a": rows}, plan).answer(Server.start(plan, ["a"]).request)
    with pytest.raises(RefusedError):
        crowd.answer(AnswersRequest(np.full(2, 9.0), np.full(2, 5.0), np.zeros((1, 2, 1))))
