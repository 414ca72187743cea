"""A site stores no rule it has not checked, whatever weights and totals the server sends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from logofair.errors import RefusedError
from logofair.federation import ClientBatch, Server, SiteColumns, make_plan
from logofair.federation.requests import AnswersRequest, FinalRequest, PublishRequest

pytestmark = pytest.mark.federation


def batch_at_the_end():
    """A site that has answered, and the final_step it is asked for."""
    rng = np.random.default_rng(0)
    rows = SiteColumns(groups=["F", "M"] * 100, scores=rng.random(200))
    plan = make_plan(
        groups=["F", "M"], calibration="none", local_tolerance=0.01, global_tolerance=0.01, run="s", quorum=1
    )
    batch, server = ClientBatch.of({"a": rows}, plan), Server.start(plan, ["a"])
    while not isinstance(server.request, FinalRequest):
        batch, sums = batch.answer(server.request)
        server = server.take(sums.total())
    return batch, server.request


@pytest.mark.parametrize("weights", [[3.0, -2.0], [5.0, 0.0], [-1.0, 0.0], [np.nan, 1.0], [1.0]])
def test_weights_that_mix_nothing_are_refused(weights):
    batch, request = batch_at_the_end()
    prices = np.concatenate([request.prices[:1], request.prices[:1] + 0.0])
    with pytest.raises(RefusedError):
        batch.answer(FinalRequest(prices, np.array(weights)))


def test_a_settled_rule_does_not_change_after_the_result():
    batch, request = batch_at_the_end()
    batch, _ = batch.answer(request)
    batch, _ = batch.answer(PublishRequest({}))
    with pytest.raises(RefusedError):
        batch.answer(request)


def test_a_result_for_a_rule_that_breaks_the_local_promise_is_refused():
    batch, request = batch_at_the_end()
    batch, _ = batch.answer(request)
    with pytest.raises(RefusedError, match="local tolerance"):
        replace(batch, state=replace(batch.state, broken=True)).answer(PublishRequest({}))


def test_totals_below_the_sites_own_are_refused():
    rows = SiteColumns(groups=["F", "M"] * 10, scores=np.linspace(0.1, 0.9, 20))
    plan = make_plan(groups=["F", "M"], calibration="none", run="s", quorum=1)
    batch, _ = ClientBatch.of({"a": rows}, plan).answer(Server.start(plan, ["a"]).request)
    with pytest.raises(RefusedError):
        batch.answer(AnswersRequest(np.full(2, 9.0), np.full(2, 5.0), np.zeros((1, 2, 1))))
