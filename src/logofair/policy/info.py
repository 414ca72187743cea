"""What a policy says about itself: requirements, certificate, where its rows came from, and the run it is of.

Each record passes through :mod:`logofair.records`, which holds it to its types when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logofair.files.inputs import MISSING, DataSource
from logofair.outcomes import Outcome, Outcomes
from logofair.requirements import RequirementsInfo

_ROUNDING = 1e-9  # a violation up to here is none


@dataclass(frozen=True)
class PoolingInfo:
    """What cells borrow from their group at the other sites; nothing by default.

    ``prior`` is "group", the group's scores at all sites; "site", these moved by the site's shift in log-odds;
    "cell", moved by a shift for each group of the site; or "none".
    """

    prior: str = "none"
    kappa: float | None = 0.0  # how many rows it is worth in a cell; None: the cell's own rows count nothing beside it
    cells: int = 0  # how many borrow
    largest_share: float | None = 0.0  # of a cell that is borrowed; None: known to each site of a federation alone
    strength: float | None = None  # how many rows a group's calibration map is worth in its cells; None: uncalibrated

    def __post_init__(self) -> None:
        """Refuse a prior that no page knows: a policy's also comes from its file."""
        if self.prior not in ("group", "site", "cell", "none"):
            raise ValueError("prior")


@dataclass(frozen=True)
class CertificateInfo:
    """The figures of a certificate, without prices; ``rounding`` is what secure sums may be off by.

    ``pooling`` is the prior that is part of what was measured, or "none": the calibration rows alone.
    """

    primal: float
    dual: float | None  # None: no bound is proved, since rates count what the rules do not see
    optimality_gap: float | None
    violation: float
    basis: str
    holds: bool | None
    rounding: float = 0.0
    objective: str = "accuracy"  # or "cost": then ``primal`` is a cost per row, and no rule is below ``dual``
    pooling: str = "none"
    empty_ratios: int = 0  # which are met, and say nothing, since nobody is selected there
    looks_away: bool = False  # whether it is about rules of score, group probabilities and site

    @property
    def meets_requirements(self) -> bool:
        """Whether every gap is within its tolerance."""
        return bool(self.holds) or self.violation <= _ROUNDING


@dataclass(frozen=True)
class PromisesInfo:
    """How it was certified what holds for new rows; what is certified are outcomes."""

    confidence: float  # with which all that is certified holds together
    method: str  # "by rank" or "on rows held out"
    price: float = 0.0  # in expected accuracy, or cost per person, on the calibration rows; below 0: nothing is lost
    largest_local_bound: float | None = None  # what the largest gap inside sites stays below with this confidence


@dataclass(frozen=True)
class ColumnsInfo:
    """The columns of the files a policy was made from, so that new files need not name them again."""

    score: str | None = None
    group: tuple[str, ...] = ()
    site: str | None = None
    scale: str = "chance"
    na: tuple[str, ...] = MISSING
    group_probability: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class FederationInfo:
    """The federated run a policy is of: who took part, who was excluded when and why, and what was measured."""

    run: str
    sites: int  # how many took part
    roster: str  # fingerprint of their names
    names: tuple[str, ...]  # known to a site with secure sums only
    excluded: tuple[Mapping[str, str], ...]
    exchanges: Mapping[str, int]
    rounds: int
    global_gaps: Mapping[str, float]
    prices: Mapping[str, float]
    groups: Mapping[str, float]
    secure_sums: bool
    global_rates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # limited by more than tolerances
    today: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # what rates are without any requirement


@dataclass(frozen=True)
class OwnRowsInfo:
    """What a federation's result says of the sites' own rows alone; without an accuracy where costs differ by site."""

    accuracy: float | None
    global_gaps: Mapping[str, float]


@dataclass(frozen=True)
class PublishedInfo:
    """What the sites are sent of a federation's result; of the roster a number and a fingerprint of its names."""

    logofair: str  # the version
    run: FederationInfo
    requirements: RequirementsInfo
    certificate: CertificateInfo
    pooling: PoolingInfo
    own_rows: OwnRowsInfo


@dataclass(frozen=True)
class SiteInfo:
    """What the policy of a federation's site does on the site's own rows, or on their noised histogram."""

    accuracy: float | None  # expected, as the certificate of the federation is; None: no group has rows enough
    local_gaps: Mapping[str, float]  # of the rates required inside the site, where at least two groups have one
    accepted: Mapping[str, float]  # the share of each group
    smallest_cell: int = 1  # a group with fewer rows than this is not counted
    too_small: tuple[str, ...] = ()  # such groups: they take the merged rule


@dataclass(frozen=True)
class TestedInfo:
    """The rows on which a policy was tested, which took no part in its fit."""

    __test__ = False  # no test, whatever its name says to pytest

    rows: int
    data: DataSource | None = None


@dataclass(frozen=True)
class PolicyInfo:
    """What a reader of a policy wants to know besides its rules."""

    requirements: RequirementsInfo = field(default_factory=RequirementsInfo)
    certificate: CertificateInfo | None = None  # a federated policy's is about the rows of all sites
    rows: int | None = None  # that it was made from, at the site of a federated policy; None where they are noised
    calibration: str = "none"
    pooling: PoolingInfo | None = None  # of a federated policy: its own site's cells; None in files of older versions
    solver: str | None = None
    promises: PromisesInfo | None = None  # None: no confidence was given
    version: str = ""
    warnings: tuple[str, ...] = ()  # sentences: which cells rest on little
    coin_share: float | None = None  # of the rows it was made from: those decided by a coin
    score_blind_rules: int | None = None  # of cells with rows: those that give every score the same chance
    tested: TestedInfo | None = None  # None: not yet tested on other rows
    found: tuple[Outcome, ...] = ()  # about the requirements: those outcomes that tell most
    columns: ColumnsInfo | None = None
    data: DataSource | None = None
    site: str | None = None  # a federated policy's own
    site_figures: SiteInfo | None = None  # what it does there; stays at the site as the policy does
    federation: FederationInfo | None = None
    note: str | None = None  # what a site that joined late should know

    @property
    def outcomes(self) -> Outcomes:
        """What was found about the requirements: of many sites those that tell most."""
        return Outcomes(self.found)
