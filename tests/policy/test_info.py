"""What a policy says about itself: records that come back from JSON as they were, or are refused."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from logofair.costs import Costs
from logofair.files.inputs import DataSource
from logofair.notions import KNOWN_RATES, Rate
from logofair.outcomes import Outcome
from logofair.policy.info import (
    CertificateInfo,
    ColumnsInfo,
    FederationInfo,
    PolicyInfo,
    PoolingInfo,
    PromisesInfo,
    SiteInfo,
    TestedInfo,
)
from logofair.records import FAULTS, plain, read
from logofair.requirement import Requirement
from logofair.requirements import RequirementsInfo

BENEFIT = Rate("benefit", -1.0, 2.0, (1.0, 0.0))
FULL = PolicyInfo(
    requirements=RequirementsInfo(
        (
            Requirement.parse("selection rate gap <= 0.02 per site except north"),
            Requirement.parse("benefit gap <= 0.1 at north", [BENEFIT]),
        ),
        ((KNOWN_RATES["selection rate"],), (BENEFIT,)),
        (120.0, 80.0),
        Costs.of([(1.0, 2.0), (3.0, 1.0)]),
    ),
    certificate=CertificateInfo(0.8, 0.81, 0.01, 0.0, "eta", holds=False, rounding=1e-9),
    rows=12,
    calibration="beta",
    pooling=PoolingInfo("site", None, 4, 1.0, 800.0),
    solver="exact",
    promises=PromisesInfo(0.95, "by rank", 0.001, largest_local_bound=0.03),
    version="1.0",
    warnings=("group 'F': one row only.",),
    coin_share=0.03,
    score_blind_rules=2,
    tested=TestedInfo(
        rows=500,
        data=DataSource("test.csv", ("test.csv",), "7d79", 500, {"score": "p", "where": "part=test"}),
    ),
    found=(
        Outcome(
            Requirement.parse("selection rate gap <= 0.02 per site except north"),
            "north",
            0.02,
            before=0.2,
            after=0.03,
            low=0.0,
            high=0.1,
            rows=31,
            state="unclear",
            basis="test rows",
            rows_needed=900,
            rate="selection rate",
            groups=("M", "F"),
        ),
        Outcome(
            Requirement.parse("benefit gap <= 0.1 at north", [BENEFIT]),
            *("north", 0.1, None, None, None, None, 31, "unclear", "new rows"),
            groups=(1, None),
        ),
    ),
    columns=ColumnsInfo("p", ("sex", "race"), None, "percent"),
    data=DataSource("people.csv", ("people.csv",), "5d41", 12, {"score": "p"}),
    site="north",
    site_figures=SiteInfo(0.79, {"selection rate": 0.02}, {"F": 0.3, "M": 0.32}),
    federation=FederationInfo(
        run="spring",
        sites=2,
        roster="7d79",
        names=("north", "south"),
        excluded=({"site": "east", "reason": "no answer", "during": "totals"},),
        exchanges={"totals": 1},
        rounds=4,
        global_gaps={"selection rate": 0.01},
        prices={"selection rate": 0.2},
        groups={"F": 10.0},
        secure_sums=True,
    ),
    note="joined late",
)


def test_every_field_comes_back_from_json_as_it_was():
    assert all(getattr(FULL, field.name) for field in fields(FULL))
    assert read(json.loads(json.dumps(plain(FULL))), PolicyInfo) == FULL


def test_what_is_not_known_need_not_be_written():
    assert read({"rows": 3}, PolicyInfo) == PolicyInfo(rows=3)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (SiteInfo, []),
        (SiteInfo, {"accuracy": 0.8, "local_gaps": {}}),
        (SiteInfo, {"accuracy": 0.8, "local_gaps": "x", "accepted": {}}),
        (SiteInfo, {"accuracy": True, "local_gaps": {}, "accepted": {}}),
        (SiteInfo, {"accuracy": 0.8, "local_gaps": {}, "accepted": {}, "bias": 1.0}),
        (DataSource, {"name": "x", "files": [], "fingerprint": "", "rows": 2.0, "columns": {}}),
        (DataSource, {"name": "x", "files": [], "fingerprint": "", "rows": 2, "columns": {"score": None}}),
    ],
)
def test_other_content_is_refused(kind, data):
    with pytest.raises(FAULTS):
        read(data, kind)


def test_outcomes_are_stored_with_their_requirements_as_typed():
    assert FULL.outcomes.entries == FULL.found
    first, second = plain(FULL)["found"]
    assert first["requirement"] == "selection rate gap <= 0.02 per site except north"
    benefit = {"name": "benefit", "constant": -1.0, "slope": 2.0, "base": [1.0, 0.0]}
    own = {"require": "benefit gap <= 0.1 at north", "rates": [benefit]}
    assert second["requirement"] == own
    assert read(second, Outcome).requirement == Requirement.parse("benefit gap <= 0.1 at north", [BENEFIT])
    for other in (
        "selection rate gap <= 2 per site",
        "selection rate gap  <= 0.02 per site",
        "benefit gap <= 0.1 at north",
        own | {"note": ""},
        own | {"rates": [benefit, benefit | {"name": "unused"}]},
        own | {"rates": [benefit | {"note": ""}]},
        {"require": own["require"]},
        ["selection rate gap <= 0.02 per site"],
        None,
    ):
        with pytest.raises(FAULTS):
            read(second | {"requirement": other}, Outcome)
