"""Requirements as sentences, from what tests say in numbers: a notion, tolerances, floors, ceilings, a capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import logofair
from logofair.notions import NOTIONS, Notion
from logofair.requirement import People, Requirement, Scope

PER_SITE, GLOBAL = Scope("per site"), Scope("overall")
WHERE = {"local": PER_SITE, "global": GLOBAL}


def sentences(
    notion: Any = "demographic_parity",
    local: Any = None,
    global_: Any = None,
    *,
    single: Mapping[Any, Any] | None = None,
    floors: Any = None,
    ceilings: Any = None,
    capacity: Any = None,
) -> list[Requirement]:
    """What must hold: tolerances are numbers, ("ratio", 0.8) or None; ``single`` are those of single sites.

    ``notion``: a name, a Notion, {name: tolerance}, or one of these per side. Floors and ceilings are {notion: number},
    {notion: {group: number}} or per side, a capacity a share, ("exactly", 0.2), or per side.
    """
    both = notion if isinstance(notion, dict) and set(notion) == {"local", "global"} else dict.fromkeys(WHERE, notion)
    single = dict(single or {})
    usual = Scope("per site", tuple(map(str, single)))
    found = [*_side(both["local"], local, usual), *_side(both["global"], global_, GLOBAL)]
    for site, tolerance in single.items():
        found += _side(_free(both["local"]), tolerance, Scope("at", (str(site),)))
    for relation, limits in ((">=", floors), ("<=", ceilings)):
        found += _limits(relation, limits)
    found += _capacities(capacity)
    return list(dict.fromkeys(found))


def _notion(notion: Any) -> Notion:
    return notion if isinstance(notion, Notion) else NOTIONS[notion]


def _free(notion: Any) -> Any:
    """Notions without tolerances of their own."""
    return list(notion) if isinstance(notion, Mapping) else notion


def _side(notion: Any, tolerance: Any, scope: Scope) -> Iterator[Requirement]:
    if isinstance(notion, Mapping):
        for each, own in notion.items():
            yield from _side(each, own, scope)
        return
    for each in notion if isinstance(notion, list) else [notion]:
        rates = _notion(each).rates
        for some in [rates] if rates == NOTIONS["equalized_odds"].rates else [(rate,) for rate in rates]:
            if isinstance(tolerance, tuple):
                yield Requirement(measure="ratio", rates=some, relation=">=", bound=tolerance[1], scope=scope)
            elif tolerance is not None:
                yield Requirement(measure="gap", rates=some, relation="<=", bound=tolerance, scope=scope)


def _limits(relation: str, limits: Any) -> Iterator[Requirement]:
    by_side = limits or {}
    by_side = by_side if set(by_side) <= {"local", "global"} else {"local": by_side}
    for side, of_notions in by_side.items():
        for notion, given in (of_notions or {}).items():
            for group, bound in (given if isinstance(given, dict) else {None: given}).items():
                who = () if group is None else ((str(group),),)
                for rate in _notion(notion).rates:
                    yield Requirement(
                        measure="rate", rates=(rate,), who=who, relation=relation, bound=bound, scope=WHERE[side]
                    )


def _capacities(capacity: Any) -> Iterator[Requirement]:
    by_side = capacity if isinstance(capacity, dict) else {"global": capacity}
    for side, share in by_side.items():
        if share is not None:
            relation, bound = ("=", share[1]) if isinstance(share, tuple) else ("<=", share)
            bound = People(bound) if isinstance(bound, int) and bound > 1 else bound
            yield Requirement(measure="accepted", relation=relation, bound=bound, scope=WHERE[side])


_IN_NUMBERS = ("site_tolerances", "floors", "ceilings", "capacity")
_SHORT = ("local_tolerance", "global_tolerance")


def asking(**given: Any) -> dict[str, Any]:
    """Arguments of ``fit`` or ``make_plan`` that say all that must hold in sentences where it is more than two gaps.

    Tolerances of neither side are 0.02 where they are not given.
    """
    notion = given.get("notion", "demographic_parity")
    per_side = (
        notion if isinstance(notion, dict) and set(notion) == {"local", "global"} else dict.fromkeys(WHERE, notion)
    )
    several = any(isinstance(each, Mapping) for each in per_side.values())
    ratios = any(isinstance(given.get(name), tuple) for name in _SHORT)
    if not (several or ratios or any(given.get(name) is not None for name in _IN_NUMBERS)):
        return {name: each for name, each in given.items() if name not in _IN_NUMBERS}
    sides = [given.get(name, 0.02) for name in _SHORT]
    for (side, own), tolerance in zip(per_side.items(), sides, strict=True):
        if isinstance(own, Mapping) and tolerance is None:  # the side is not constrained
            notion = {**per_side, side: _free(own)}
            per_side = notion
    single, floors, ceilings, capacity = (given.get(name) for name in _IN_NUMBERS)
    require = sentences(notion, *sides, single=single, floors=floors, ceilings=ceilings, capacity=capacity)
    rest = {name: each for name, each in given.items() if name not in (*_IN_NUMBERS, *_SHORT, "notion")}
    looked_at = {} if several else {"notion": notion}
    return rest | looked_at | {"require": [*require, *rest.get("require", ())], **dict.fromkeys(_SHORT)}


def fit(scores: Any, labels: Any, **given: Any) -> logofair.Solution:
    """:func:`logofair.fit` with what must hold said in numbers."""
    return logofair.fit(scores, labels, **asking(**given))


def audit(decisions: Any, labels: Any, **given: Any) -> logofair.Audit:
    """:func:`logofair.audit` likewise, where nothing is required that is not given."""
    return logofair.audit(decisions, labels, **asking(**(dict.fromkeys(_SHORT) | given)))
