"""What a policy says about itself: requirements, certificate, where its rows came from, and the run it is of.

Each record is plain values, and is checked against the types of its fields when it is read from a file or a message.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from logofair.files.documents import of_type
from logofair.files.inputs import DataSource

__all__ = [
    "CertificateInfo",
    "ColumnsInfo",
    "FederationInfo",
    "ModelInfo",
    "PolicyInfo",
    "PromiseInfo",
    "PromisesInfo",
    "RequirementInfo",
    "RequirementsInfo",
    "SiteInfo",
    "no_rule",
    "price_sentence",
    "record_from",
]

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class RequirementInfo:
    """One rate whose gap must stay within a tolerance; None: free."""

    notion: str
    rate: str
    tolerance: float | None


@dataclass(frozen=True)
class RequirementsInfo:
    """What must hold inside each client and over all, and the single clients whose tolerance is another."""

    local: tuple[RequirementInfo, ...] = ()
    global_: tuple[RequirementInfo, ...] = ()
    client_tolerances: tuple[tuple[str, float | None], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "local": [asdict(each) for each in self.local],
            "global": [asdict(each) for each in self.global_],
            "single clients": [{"client": name, "tolerance": t} for name, t in self.client_tolerances],
        }

    @classmethod
    def from_dict(cls, data: Any) -> RequirementsInfo:
        """The inverse of :meth:`as_dict`; raises on anything else (for `or_damaged`)."""
        local, global_ = (_value(tuple[RequirementInfo, ...], data[side]) for side in ("local", "global"))
        single = _list(data["single clients"])
        return cls(
            local, global_, tuple((of_type(i["client"], str), _value(float | None, i["tolerance"])) for i in single)
        )


@dataclass(frozen=True)
class CertificateInfo:
    """The figures of a certificate, without prices; ``rounding`` is what secure sums may be off by."""

    primal: float
    dual: float
    optimality_gap: float
    violation: float
    basis: str
    holds: bool
    rounding: float = 0.0


@dataclass(frozen=True)
class PromiseInfo:
    """What was found for one gap of new rows: its bound, and whether that is within the tolerance."""

    side: str  # "local" or "global"
    rate: str
    client: str | None  # None: over all clients
    tolerance: float | None  # None: nothing was required
    status: str  # "certified", "cannot certify" or "not asked"
    bound: float | None
    sentence: str


@dataclass(frozen=True)
class PromisesInfo:
    """What is certified for new rows, how, and what it cost."""

    confidence: float
    method: str
    price: float  # accuracy on the calibration rows
    promises: tuple[PromiseInfo, ...]


@dataclass(frozen=True)
class ColumnsInfo:
    """The columns of the files a policy was made from, so that new files need not name them again."""

    score: str | None = None
    group: tuple[str, ...] = ()
    client: str | None = None
    scale: str = "chance"
    client_is_file_name: bool = False


@dataclass(frozen=True)
class ModelInfo:
    """A federation's trained logistic model, on the features as they come."""

    features: tuple[str, ...]
    weights: tuple[float, ...]
    intercept: float


@dataclass(frozen=True)
class FederationInfo:
    """The federated run a policy is of: who took part, who was excluded when and why, and what was measured."""

    run: str
    sites: tuple[str, ...]
    excluded: tuple[Mapping[str, str], ...]
    exchanges: Mapping[str, int]
    rounds: int
    global_gaps: Mapping[str, float]
    prices: Mapping[str, float]
    groups: Mapping[str, float]
    secure_sums: bool


@dataclass(frozen=True)
class SiteInfo:
    """What the policy of a federation's site does on the site's own rows, or on their noised histogram."""

    accuracy: float  # expected, as the certificate of the federation is
    local_gaps: Mapping[str, float]  # of the rates required inside the site, where at least two groups have one
    accepted: Mapping[str, float]  # the share of each group


@dataclass(frozen=True)
class PolicyInfo:
    """What a reader of a policy wants to know besides its rules."""

    requirements: RequirementsInfo = field(default_factory=RequirementsInfo)
    certificate: CertificateInfo | None = None  # a federated policy's is about the rows of all sites
    rows: int | None = None  # that it was made from, at the site of a federated policy; None where they are noised
    calibration: str = "none"
    solver: str | None = None
    promises: PromisesInfo | None = None  # None: no confidence was given
    version: str = ""
    price_sentences: tuple[str, ...] = ()  # what more tolerance would win
    warnings: tuple[str, ...] = ()  # sentences: which cells rest on little
    columns: ColumnsInfo | None = None
    data: DataSource | None = None
    site: str | None = None  # a federated policy's own
    site_figures: SiteInfo | None = None  # what it does there; stays at the site as the policy does
    federation: FederationInfo | None = None
    model: ModelInfo | None = None
    note: str | None = None  # what a site that joined late should know

    def as_dict(self) -> dict[str, Any]:
        """Plain values; what is None is left out."""
        plain = asdict(self) | {"requirements": self.requirements.as_dict()}
        return {name: value for name, value in plain.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Any) -> PolicyInfo:
        """The inverse of :meth:`as_dict`; raises on anything else (for `or_damaged`)."""
        return record_from(cls, data)


def price_sentence(price: float, rate: str, where: str) -> str:
    """What 0.01 more tolerance for a rate would win at most."""
    return f"0.01 more tolerance for the {rate}{where} wins at most {0.01 * price:.5f} accuracy."


def no_rule(basis: str) -> str:
    """Which rules a bound is about, as the subject of a sentence that says what none of them does.

    With labels the bound covers rules that order people by their score; with chances any rule of these three. Rules
    that look at other features are not meant: they amount to another score.
    """
    return "no weighted thresholds of the score" if basis == "labels" else "no rule of score, group and client"


def record_from(kind: type[Kind], data: Any) -> Kind:
    """A record of this class from plain values by field name, every one of the type that its field says.

    Fields of records, of tuples (written as lists), of mappings by text and of optional values are read as such.
    """
    hints, given = get_type_hints(kind), of_type(data, dict)
    if set(given) - set(hints):
        raise TypeError("unknown fields")
    return kind(**{name: _value(hints[name], value) for name, value in given.items()})


def _value(hint: Any, value: Any) -> Any:
    """A plain value as its type hint says."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return None if value is None else _value(parts[0], value)
    if origin is tuple and parts[-1] is ...:
        return tuple(_value(parts[0], each) for each in _list(value))
    if origin is Mapping:
        return {of_type(name, str): _value(parts[1], each) for name, each in of_type(value, dict).items()}
    if hint is float:
        if type(value) not in (int, float) or not math.isfinite(value):
            raise TypeError("number")
        return float(value)
    if hasattr(hint, "from_dict"):
        return hint.from_dict(value)
    return record_from(hint, value) if isinstance(hint, type) and is_dataclass(hint) else of_type(value, hint)


def _list(value: Any) -> list[Any]:
    return list(value) if type(value) is tuple else of_type(value, list)
