"""From a finished run to the policy of each site; and for sites that come later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from logofair.auditing.measure import FEW_ROWS
from logofair.columns.labels import Codes
from logofair.errors import RefusedError
from logofair.federation.batch import ClientBatch, ClientState
from logofair.federation.plan import Training
from logofair.federation.privacy import Release, at_edges
from logofair.federation.replies import Refusal
from logofair.federation.requests import FinalRequest, Model
from logofair.federation.result import RunResult
from logofair.federation.rows import SiteColumns, site_rows
from logofair.files.documents import of_type
from logofair.fitting.prepare import CalibrationRows
from logofair.fitting.solution import FitWarning, cell_warnings
from logofair.policy.info import (
    CertificateInfo,
    FederationInfo,
    ModelInfo,
    PolicyInfo,
    RequirementsInfo,
    price_sentence,
    record_from,
)
from logofair.policy.mixtures import Mixtures
from logofair.policy.policy import Policy

_LATE = (
    "This site did not take part in the run: its rule meets the local requirements on its own rows (or their noised "
    "histogram); the global requirements were met without it."
)


class SitePolicies(Mapping[str, Policy]):
    """The stored policies of the clients of a batch by site, each put together when it is looked up."""

    def __init__(self, batch: ClientBatch) -> None:
        self._batch = batch

    def __getitem__(self, site: str) -> Policy:
        if site not in self._batch.state.sites:
            raise KeyError(site)
        return _policy(self._batch, self._batch.state.sites.index(site), self._batch.state.result or {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch.state.sites)

    def __len__(self) -> int:
        return len(self._batch.state.sites)


def late_policy(result: RunResult, columns: SiteColumns, site: str, release: Release | None = None) -> Policy:
    """A site's policy from the published result and its own rows alone.

    For a site that was absent or joins later: it is fair inside the site, and says that the global requirements were
    met without it. A site of the roster gets back the policy it had. Under differential privacy a site that has
    released its histogram passes it as ``release``; otherwise one is made, and spends.

    Examples
    --------
    >>> from logofair.engines.inprocess import run
    >>> from logofair.federation import make_plan
    >>> rows = SiteColumns(groups=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> plan = make_plan(groups=["F", "M"], calibration="none", run="demo")
    >>> result = run(plan, {"north": rows, "south": rows}).result
    >>> late_policy(result, rows, "east").info.note[:36]
    'This site did not take part in the r'
    """
    state = ClientState(
        result.plan,
        (site,),
        model=result.model,
        maps=result.maps,
        releases=() if release is None else (release,),
        mass=result.mass,
        positives=result.positives,
    )
    batch = ClientBatch.resumed([site_rows(columns, result.plan)], state)
    state = replace(state, releases=batch.preparation.releases(state.releases))
    batch, figures = replace(batch, state=state).answer(FinalRequest(result.prices, result.weights))
    if figures.exceeding.any():  # type: ignore[attr-defined]
        raise RefusedError(Refusal.NO_SOLUTION, f"site {site!r}: no rule within its local tolerances; report the case.")
    return _policy(batch, 0, result.as_dict(), note=None if site in result.sites else _LATE)


def _policy(batch: ClientBatch, number: int, result: Mapping[str, Any], note: str | None = None) -> Policy:
    plan, site, chances = batch.state.plan, batch.state.sites[number], batch.chances[number]
    model, training = batch.state.model, plan.training
    return Policy(
        groups=plan.groups,
        clients=(site,),
        mixtures=_rules(batch, number),
        calibrator=chances.calibrator,
        merged=None,
        key=plan.random_state,
        info=replace(
            _published(result),
            calibration=plan.calibration,
            warnings=tuple(map(str, _warnings(batch, number))),
            site=site,
            model=None if model is None or training is None else _model(model, training),
            note=note,
        ),
    )


def _published(result: Mapping[str, Any]) -> PolicyInfo:
    """What the server published about the run, checked: it comes from outside."""
    if not result:
        return PolicyInfo()
    try:
        figures = {name: result[name] for name in FederationInfo.__match_args__}
        run = record_from(FederationInfo, figures)
        return PolicyInfo(
            requirements=RequirementsInfo.from_dict(result["requirements"]),
            certificate=record_from(CertificateInfo, result["certificate"]),
            version=of_type(result["logofair"], str),
            price_sentences=tuple(
                price_sentence(p, name, " over all clients") for name, p in run.prices.items() if p > 1e-9
            ),
            federation=run,
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        raise RefusedError(Refusal.BAD_MESSAGE, "the published result is malformed; no policy is stored.") from None


def _model(model: Model, training: Training) -> ModelInfo:
    """The trained model on the features as they come, for :class:`logofair.training.LogisticModel`."""
    weights = model.parameters[:-1] / model.deviation
    intercept = float(model.parameters[-1] - weights @ model.mean)
    return ModelInfo(tuple(training.features), tuple(weights.tolist()), intercept)


def _rules(batch: ClientBatch, number: int) -> Mixtures:
    """The stored rules; on a histogram thresholds stand at the edges of bins, whose rows are treated alike."""
    rules, privacy = batch.rules_of(number), batch.state.plan.privacy
    return rules if privacy is None else at_edges(rules, privacy.bins)


def _warnings(batch: ClientBatch, number: int) -> Iterator[FitWarning]:
    """What the site should know of its own small cells; this never leaves it."""
    plan, sites = batch.state.plan, batch.state.sites
    if plan.privacy is not None:
        return _noised_warnings(batch, number)
    one = batch if len(sites) == 1 else _alone(batch, number)
    chances, scored = one.chances[0], one.preparation.scored(0, one.state.model)
    codes = Codes((sites[number],), np.zeros(chances.groups.size, dtype=np.int32))
    groups = Codes(plan.groups, chances.groups)
    rows = CalibrationRows(chances.calibrated, scored.labels, groups, codes, chances.weights)
    return cell_warnings(one.problem, rows, merged=False)


def _noised_warnings(batch: ClientBatch, number: int) -> Iterator[FitWarning]:
    """Groups with few rows as far as the noised histogram tells; the true counts would not be covered."""
    chances, groups = batch.chances[number], batch.state.plan.groups
    counts = np.bincount(chances.groups, chances.weight, minlength=len(groups))
    few = [groups[a] for a in np.flatnonzero(counts < FEW_ROWS)]
    finding = f"fewer than {FEW_ROWS} rows by the noised counts, so its rates are mostly noise"
    if few:
        yield FitWarning("few rows", "", finding, tuple((batch.state.sites[number], group) for group in few), len(few))


def _alone(batch: ClientBatch, number: int) -> ClientBatch:
    state = batch.state
    releases = state.releases[number : number + 1]
    answers_void = replace(state, prices=None, u=None, v=None, local_multipliers=None)
    own = replace(answers_void, sites=(state.sites[number],), releases=releases, rules=batch.rules_of(number))
    return ClientBatch.resumed([batch.preparation.rows[number]], own)
