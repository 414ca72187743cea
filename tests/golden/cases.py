"""The cases, as data: what is asked of which rows. ``calls`` translates them for the library."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BOTH = {"local": 0.02, "global": 0.02}
BARE = {"calibration": "none", "pooling": "none"}


@dataclass(frozen=True)
class Case:
    """A question: its kind, the rows, what is required, and how it is solved.

    ``required``: "notion" (a name, "benefit" for a rate of our own, {name: tolerance}, or one per side), "local",
    "global" (a tolerance, ("ratio", 0.8), or None), "single" sites, "floors", "ceilings", "capacity" (a share,
    ("exactly", 0.2), or per side), "costs". ``given``: options such as the calibration; ``unique`` says that the
    optimum is unique and reached to the last digits, so that the rules are compared too.
    """

    name: str
    rows: str = "adult"
    required: dict[str, Any] = field(default_factory=lambda: dict(BOTH))
    given: dict[str, Any] = field(default_factory=dict)
    kind: str = "fit"
    unique: bool = False


def _dp(local: Any, global_: Any, **more: Any) -> dict[str, Any]:
    return {"notion": "demographic_parity", "local": local, "global": global_, **more}


def _of(notion: Any, local: Any, global_: Any, **more: Any) -> dict[str, Any]:
    return {"notion": notion, "local": local, "global": global_, **more}


FITS = (
    Case("default call", unique=True),
    Case("parity 0 and 0", required=_dp(0.0, 0.0)),
    Case("parity, local only", required=_dp(0.01, None), unique=True),
    Case("parity, global only", required=_dp(None, 0.01)),
    Case("parity, coarse scores", "adult, coarse", _dp(0.1, 0.02), BARE),
    Case("parity, two sites", "two sites", _dp(0.02, 0.0), BARE, unique=True),
    Case("parity, nothing required", required=_dp(None, None), unique=True),
    Case("equal opportunity", required=_of("equal_opportunity", 0.02, 0.01)),
    Case("predictive equality, global only", required=_of("predictive_equality", None, 0.0)),
    Case("equalized odds", required=_of("equalized_odds", 0.02, 0.02)),
    Case("equalized odds 0, three groups", "three groups", _of("equalized_odds", 0.0, 0.0), BARE),
    Case("own notion", required=_of("benefit", 0.02, 0.01)),
    Case(
        "one notion per side", required=_of({"local": "demographic_parity", "global": "equal_opportunity"}, 0.1, 0.02)
    ),
    Case("two notions at once", required=_of({"demographic_parity": 0.1, "equal_opportunity": 0.05}, 0.02, 0.02)),
    Case("single sites", required=_dp(0.02, 0.02, single={"north": 0.1, "west": 0.0, "south": None})),
    Case("ratio, local", required=_dp(("ratio", 0.8), None, floors={"demographic_parity": 0.1})),
    Case("ratio, global", "three groups", _of("equal_opportunity", None, ("ratio", 0.9)), BARE),
    Case("ratio of a single site", required=_dp(0.05, 0.02, single={"east": ("ratio", 0.9)})),
    Case("floors of groups", required=_dp(0.1, 0.02, floors={"demographic_parity": {"Female": 0.2}})),
    Case("floors, global", required=_dp(None, 0.1, floors={"global": {"equal_opportunity": 0.6}})),
    Case("ceilings", required=_dp(0.1, 0.1, ceilings={"predictive_equality": 0.15})),
    Case("floors of today", required=_dp(0.05, 0.05, floors={"equal_opportunity": "today"})),
    Case("ceilings of today, global", required=_dp(0.02, 0.02, ceilings={"global": {"predictive_equality": "today"}})),
    Case("capacity", required=_dp(0.02, 0.02, capacity=0.1)),
    Case("exact capacity", required=_dp(0.02, 0.02, capacity=("exactly", 0.25))),
    Case("exact capacity per site", "three groups", _dp(0.1, None, capacity={"local": ("exactly", 0.3)}), BARE),
    Case("costs", required=_dp(0.02, 0.02, costs=(1.0, 3.0))),
    Case(
        "costs per site",
        "two sites",
        _of("equalized_odds", 0.1, 0.02, costs={"s0": (1.0, 2.0), "s1": (3.0, 1.0)}),
        BARE,
    ),
    Case("labels as basis", required=_dp(0.02, 0.02), given={"basis": "labels", **BARE}),
    Case("labels as basis, odds", "three groups", _of("equalized_odds", 0.1, 0.02), {"basis": "labels", **BARE}),
    Case("platt", given={"calibration": "platt"}),
    Case("temperature", given={"calibration": "temperature"}),
    Case("isotonic", given={"calibration": "isotonic"}),
    Case("uncalibrated, pooled", given={"calibration": "none"}),
    Case("full pooling", required=_of("equal_opportunity", 0.02, 0.02), given={"pooling": "full"}),
    Case("weighted", "adult, weighted"),
    Case("weighted odds", "adult, weighted", _of("equalized_odds", 0.1, 0.02), BARE),
    Case("five groups", "adult by race", _dp(0.1, 0.02), BARE),
    Case("five groups, odds", "adult by race", _of("equalized_odds", 0.1, 0.1), {"calibration": "none"}),
    Case("four groups, odds", "four groups", _of("equalized_odds", 0.02, 0.02)),
    Case("one site", "adult, one site", unique=True),
    Case("one site, odds", "adult, one site", _of("equalized_odds", 0.01, 0.02)),
    Case("200 sites", "200 sites", _dp(0.02, 0.01), BARE),
    Case("200 sites, pooled odds", "200 sites", _of("equalized_odds", 0.1, 0.02)),
    Case("empty cells", "empty cells", _dp(0.02, 0.02), BARE),
    Case("empty cells, opportunity", "empty cells", _of("equal_opportunity", 0.0, 0.02), {"calibration": "none"}),
    Case("promises by rank", "large", _dp(0.1, 0.1), {"confidence": 0.95}, unique=True),
    Case("promises on rows held out", "large", _dp(0.1, 0.1, capacity=0.4), {"confidence": 0.9}, unique=True),
    Case("algorithm 1", given={"solver": "algorithm1"}),
    Case("algorithm 1, odds", "two sites", _of("equalized_odds", 0.05, 0.05), {"solver": "algorithm1", **BARE}),
)

CONFLICTS = (
    Case(
        "floor against capacity",
        "two sites",
        _dp(0.02, 0.02, floors={"demographic_parity": 0.5}, capacity=0.3),
        BARE,
        "conflict",
    ),
    Case(
        "floor against ceiling and gap",
        "three groups",
        _of(
            "equal_opportunity",
            0.1,
            None,
            floors={"equal_opportunity": {"g2": 0.8}},
            ceilings={"demographic_parity": {"g0": 0.1}},
        ),
        BARE,
        "conflict",
    ),
)

SWEEPS = (
    Case(
        "frontier",
        "adult",
        {"notion": "demographic_parity", "local": (0.0, 0.05, None), "global": (0.0, 0.02, None)},
        {"measured on": "adult, other rows"},
        "frontier",
    ),
    Case(
        "frontier of ratios with a capacity",
        "three groups",
        _of("equal_opportunity", (None,), (("ratio", 1.0), ("ratio", 0.8), None), capacity=0.4),
        BARE,
        "frontier",
    ),
)

# Policies are stored as they were made at first, and decide on the same rows ever since.
POLICIES = (
    Case("stored: parity with coins", "adult, coarse", _dp(0.02, 0.0), BARE, "policy"),
    Case("stored: odds, three groups", "three groups, coarse", _of("equalized_odds", 0.05, 0.02), BARE, "policy"),
    Case("stored: calibrated", "adult", _of("equal_opportunity", 0.02, 0.02), kind="policy"),
    Case(
        "stored: costs, floors, capacity",
        "two sites",
        _dp(0.1, 0.05, floors={"equal_opportunity": "today"}, capacity=0.8, costs={"s0": (1.0, 2.0), "s1": (2.0, 1.0)}),
        BARE,
        "policy",
    ),
    Case("stored: isotonic, one site", "adult, one site", _dp(0.02, 0.02), {"calibration": "isotonic"}, "policy"),
    Case("stored: empty cells", "empty cells", _dp(0.1, 0.02), BARE, "policy"),
)

AUDITS = (
    Case("audited: parity by race", "adult by race", _dp(0.1, 0.02), kind="audit"),
    Case("audited: weighted odds", "adult, weighted", _of("equalized_odds", 0.1, ("ratio", 0.8)), kind="audit"),
    Case("audited: 200 sites", "200 sites", _of("equal_opportunity", 0.2, 0.05, capacity=0.5), kind="audit"),
    Case("audited: empty cells", "empty cells", _dp(0.2, 0.2, costs=(1.0, 2.0)), kind="audit"),
)

COMPARISONS = (
    Case("compared: parity", "adult, coarse", _dp(0.02, 0.0), kind="compare"),
    Case(
        "compared: odds with costs", "three groups", _of("equalized_odds", None, None, costs=(1.0, 2.0)), kind="compare"
    ),
)

RUNS = (
    Case("run: parity", "four sites", _dp(0.02, 0.01), BARE, "run"),
    Case("run: calibrated and pooled", "four sites", _of("equal_opportunity", 0.1, 0.02), kind="run"),
    Case("run: odds, three groups", "three groups", _of("equalized_odds", 0.05, 0.02), BARE, "run"),
    Case(
        "run: floors and capacity",
        "four sites",
        _dp(0.1, 0.05, floors={"equal_opportunity": 0.5}, capacity=0.5),
        BARE,
        "run",
    ),
    Case("run: algorithm 1", "four sites", _dp(0.05, 0.05), {"solver": "algorithm1", **BARE}, "run"),
    Case("run: secure", "four sites", _dp(0.02, 0.02), {"secure": True, **BARE}, "run"),
)

CASES = (*FITS, *CONFLICTS, *SWEEPS, *POLICIES, *AUDITS, *COMPARISONS, *RUNS)
