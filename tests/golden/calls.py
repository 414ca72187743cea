"""The one place that knows how the library is called: a case goes in, its figures come out as plain values."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import logofair
from golden.cases import Case
from golden.columns import Columns, columns
from logofair.auditing import compare
from logofair.calibration import Calibrator
from logofair.calibration.maps import IsotonicMaps, LogisticMaps
from logofair.columns.labels import encode, one_site
from logofair.engines.inprocess import FederatedRun, run, run_apart
from logofair.federation import Plan, SiteColumns, make_plan
from logofair.policy.info import PolicyInfo
from logofair.policy.mixtures import Mixtures
from logofair.requirements import RequirementsInfo, make_requirements
from logofair.solvers.certificate import Certificate
from support.sentences import sentences

STORED_POLICIES = Path(__file__).with_name("policies.json")
KEY = 20260  # of coins and folds


def figures(case: Case) -> dict[str, Any]:
    """What the library finds today."""
    return _KINDS[case.kind](case)


# Translations


def _notion(value: Any) -> Any:
    benefit = logofair.Notion("equal_benefit", given=(logofair.Rate("benefit", -1.0, 2.0, base=(1.0, 0.0)),))
    return benefit if value == "benefit" else value


def _required(case: Case) -> dict[str, Any]:
    """What must hold, as arguments of ``fit``: sentences, and the notion that is shown where nothing is required."""
    wanted = dict(case.required)
    costs, notion = wanted.pop("costs", None), _notion(wanted.pop("notion", "demographic_parity"))
    local, global_ = wanted.pop("local"), wanted.pop("global")
    found = {"require": sentences(notion, local, global_, **wanted), "costs": costs}
    looked_at = {} if isinstance(notion, dict) and not set(notion) & {"local", "global"} else {"notion": notion}
    return found | looked_at | {"local_tolerance": None, "global_tolerance": None}


def _rows(rows: Columns, *, weights: bool = True) -> dict[str, Any]:
    found = {"sensitive_features": rows.groups} | ({} if rows.sites is None else {"sites": rows.sites})
    return found | ({"sample_weight": rows.weight} if weights and rows.weight is not None else {})


def _fit(case: Case) -> logofair.Solution:
    rows = columns(case.rows)
    return logofair.fit(rows.scores, rows.labels, **_rows(rows), **_required(case), **case.given, random_state=KEY)


# Kinds of cases


def _proof(certificate: Certificate) -> dict[str, Any]:
    return {"value": certificate.primal, "bound": certificate.dual, "violation": certificate.violation}


def _fitted(case: Case) -> dict[str, Any]:
    solution, rows = _fit(case), columns(case.rows)
    found: dict[str, Any] = {"certificate": _proof(solution.certificate)}
    if "confidence" in case.given:
        promises, state = solution.promises, {"met": "certified", "unclear": "cannot certify"}
        assert promises is not None
        found["promises"] = {
            "method": promises.method,
            "largest local bound": promises.largest_local_bound,
            "of each": [
                {"state": state[each.state], "bound": each.high, "rows": each.rows, "rows needed": each.rows_needed}
                for each in solution.certified
            ],
        }
    if case.unique:
        accepted = solution.policy.probabilities(rows.scores, **_rows(rows, weights=False))
        found["rules"] = _rates_of_cells(rows, accepted)
    return found


def _rates_of_cells(rows: Columns, accepted: Any) -> dict[str, float]:
    """How many of every group at every site are accepted, in expectation: rules however they are written down."""
    sites = np.full(accepted.size, "all") if rows.sites is None else rows.sites
    return {
        f"{group} at {site}": float(accepted[(sites == site) & (rows.groups == group)].mean())
        for site in np.unique(sites)
        for group in np.unique(rows.groups)
    }


def _conflict(case: Case) -> dict[str, Any]:
    try:
        _fit(case)
    except logofair.InfeasibleError as error:
        return {"conflict": {str(name): least for name, least in error.least_relaxation.items()}}
    return {"conflict": None}


def _swept(case: Case) -> dict[str, Any]:
    rows, given = columns(case.rows), dict(case.given)
    if "measured on" in given:
        other = columns(given.pop("measured on"))
        given["test_rows"] = {"scores": other.scores, "labels": other.labels, **_rows(other)}
    surface = logofair.frontier(rows.scores, rows.labels, **_rows(rows), **_grid(case), **given, random_state=KEY)
    free = surface.unconstrained
    return {
        "points": [_proof(point.certificate) | {"loss value": point.loss} for point in surface.points],
        "infeasible": len(surface.infeasible),
        "unconstrained value": free.value,
        "unconstrained, measured": None if free.measured is None else _audited(free.measured),
    }


def _grid(case: Case) -> dict[str, Any]:
    wanted = case.required
    ratios = any(isinstance(each, tuple) for side in ("local", "global") for each in wanted[side])
    found: dict[str, Any] = {
        f"{side}_tolerances": [each[1] if isinstance(each, tuple) else each for each in wanted[side]]
        for side in ("local", "global")
    }
    held = sentences(capacity=wanted.get("capacity"))
    return {"notion": _notion(wanted["notion"]), "measure": "ratio" if ratios else "gap", "require": held} | found


def _measured(figure: Any) -> Any:
    """A figure with its interval, its rows and, where it has one, its noise floor."""
    if figure is None:
        return None
    names = ("low", "high", "rows", "floor", "detectable")
    return {"is": float(figure)} | {name: getattr(figure, name) for name in names if getattr(figure, name) is not None}


def _audited(found: logofair.Audit) -> dict[str, Any]:
    return {
        "accuracy": _measured(found.accuracy),
        "cost": _measured(found.cost),
        "accepted": _measured(found.accepted),
        "rates": {
            rate: {str(group): _measured(figure) for group, figure in of_groups.items()}
            for rate, of_groups in found.rates.items()
        },
        "global gaps": [_measured(gap.value) for gap in found.global_gaps],
        "local gaps": [_measured(gap.value) for gap in found.local_gaps],
        "sites": {str(each.site): [_measured(each.accuracy), _measured(each.gap)] for each in found.by_site},
        "outcomes": [
            {name: getattr(each, name) for name in ("limit", "after", "low", "high", "rows", "state")}
            for each in found.outcomes
        ],
    }


def _decided(case: Case) -> dict[str, Any]:
    """Decisions, coins and audits of a stored policy on rows it was made from and on rows of an unknown site."""
    policy, rows = _stored(case), columns(case.rows)
    rows = rows.at(np.arange(0, rows.labels.size, 3))
    placed = _rows(rows, weights=False)
    ids = np.arange(rows.labels.size) * 17 + 5
    tosses = policy.tosses(rows.scores, **placed, ids=ids)
    found: dict[str, Any] = {
        "chances": _thinned(policy.probabilities(rows.scores, **placed)),
        "tossed rows": len(tosses.rows),
        "first tossed rows": tosses.rows[:20].tolist(),
        "first chances": tosses.chance[:20].tolist(),
        "accepted by id": _packed(policy.decide(rows.scores, **placed, ids=ids)),
        "accepted by place": _packed(policy.decide(rows.scores, **placed, random_state=11)),
        "accepted without coins": _packed(policy.decide(rows.scores, **placed, deterministic=True)),
        "accepted by count": _packed(policy.decide(rows.scores, **placed, ids=ids, exact_counts=True)),
    }
    if rows.sites is not None:
        elsewhere = placed | {"sites": np.full(rows.labels.size, "elsewhere")}
        for rule in ("merged", "base"):
            found[f"chances elsewhere, {rule}"] = _thinned(
                policy.probabilities(rows.scores, **elsewhere, on_unknown=rule)
            )
    notion = _notion(case.required["notion"])
    found["audit"] = _audited(
        logofair.audit(None, rows.labels, **placed, scores=rows.scores, policy=policy, notion=notion)
    )
    return found


def _thinned(chances: Any) -> list[float]:
    """Every so many of a column, and its mean: enough to see a change."""
    return [*chances[:: max(1, chances.size // 60)].tolist(), float(chances.mean())]


def _packed(decisions: Any) -> str:
    return np.packbits(np.asarray(decisions, dtype=bool)).tobytes().hex()


def _audited_rule(case: Case) -> dict[str, Any]:
    """What a threshold of 1/2 does."""
    rows, required = columns(case.rows), _required(case)
    return _audited(logofair.audit(rows.scores >= 0.5, rows.labels, **_rows(rows), scores=rows.scores, **required))


def _compared(case: Case) -> dict[str, Any]:
    """The rule of a threshold of 1/2 against one per group."""
    rows = columns(case.rows)
    first, second = rows.scores >= 0.5, rows.scores >= np.where(rows.groups == np.unique(rows.groups)[0], 0.4, 0.55)
    required = {name: value for name, value in _required(case).items() if name in ("notion", "costs")}
    found = compare(first.astype(int), second.astype(int), rows.labels, **_rows(rows), **required)
    names = ("accuracy", "cost", "accepted", "global_gap", "local_gap")
    return {name: _measured(getattr(found, name)) for name in names}


def _ran(case: Case) -> dict[str, Any]:
    rows, given = columns(case.rows), dict(case.given)
    sites = {}
    for site in np.unique(rows.sites):
        own = rows.at(rows.sites == site)
        sites[str(site)] = SiteColumns(sensitive_features=own.groups, scores=own.scores, labels=own.labels)
    groups = np.unique(rows.groups).tolist()
    plan = make_plan(groups=groups, **_required(case), **given, optimality_gap=1e-6, random_state=KEY, run="golden")
    result = (_ran_secretly(plan, sites) if plan.secure else run(plan, sites)).result
    return {
        "certificate": {"value": result.accuracy, "bound": result.bound, "violation": result.violation},
        "rounds": result.rounds,
        "exceeding": result.exceeding,
    }


def _ran_secretly(plan: Plan, sites: dict[str, SiteColumns]) -> FederatedRun:
    from support.sites import identities

    return run_apart(plan, sites, identities(sites))


# Stored policies


@cache
def _policies() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(STORED_POLICIES.read_text())
    return stored


def _stored(case: Case) -> logofair.Policy:
    """The policy as it was made at first; what was required of it comes from the case."""
    data, required = _policies()[case.name], _required(case)
    sites = None if data["sites"] is None else tuple(data["sites"])
    return logofair.Policy(
        groups=tuple(data["groups"]),
        sites=(None,) if sites is None else sites,
        mixtures=_rules(data["rules"]),
        calibrator=_calibrator(data["calibrator"]),
        merged_rules=None if data["merged"] is None else _rules(data["merged"]),
        key=data["key"],
        info=PolicyInfo(requirements=_stored_requirements(required, columns(case.rows))),
    )


def _calibrator(data: dict[str, Any]) -> Calibrator:
    shape = (data["n_groups"], data["n_sites"])
    if "parameters" in data:
        return Calibrator(data["method"], *shape, LogisticMaps(data["method"], np.array(data["parameters"])))
    arrays = (np.array(data[name]) for name in ("shares", "starts", "scores", "values") if name in data)
    return Calibrator(data["method"], *shape, None if data["method"] == "none" else IsotonicMaps(*arrays))


def _calibrator_to_store(calibrator: Calibrator) -> dict[str, Any]:
    arrays = {} if calibrator.maps is None else vars(calibrator.maps)
    maps = {name: each.tolist() for name, each in arrays.items() if name != "method"}
    return {"method": calibrator.method, "n_groups": calibrator.n_groups, "n_sites": calibrator.n_sites, **maps}


def _stored_requirements(required: dict[str, Any], rows: Columns) -> RequirementsInfo:
    groups = encode(rows.groups, "groups")
    sites = one_site(rows.labels.size) if rows.sites is None else encode(rows.sites, "sites")
    wanted = [required[name] for name in ("require", "notion", "local_tolerance", "global_tolerance")]
    made = make_requirements(*wanted, sites, groups, costs=required["costs"])
    return made.info


def _rules(data: dict[str, Any]) -> Mixtures:
    single = np.array([np.inf if each is None else each for each in data["single"]])
    return Mixtures(np.array(data["weight"]), np.array(data["threshold"]), np.array(data["above"], dtype=bool), single)


def policy_to_store(case: Case) -> dict[str, Any]:
    """A policy made now, in a form that depends on no file format."""
    policy = _fit(case).policy
    return {
        "groups": list(policy.groups),
        "sites": None if policy.sites == (None,) else list(policy.sites),
        "key": policy.key,
        "rules": _rules_to_store(policy.mixtures),
        "merged": None if policy.merged is None else _rules_to_store(policy.merged),
        "calibrator": _calibrator_to_store(policy.calibrator),
    }


def _rules_to_store(rules: Mixtures) -> dict[str, Any]:
    return {
        "weight": rules.weight.tolist(),
        "threshold": rules.threshold.tolist(),
        "above": rules.above.astype(int).tolist(),
        "single": [None if np.isinf(each) else each for each in rules.single.tolist()],
    }


_KINDS = {
    "fit": _fitted,
    "conflict": _conflict,
    "frontier": _swept,
    "policy": _decided,
    "audit": _audited_rule,
    "compare": _compared,
    "run": _ran,
}
