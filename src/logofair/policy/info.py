"""What a policy says about itself: requirements, certificate, where its rows came from, and the run it is of.

Each record is plain values; ``as_dict`` and ``from_dict`` carry it to a file and back, and ``from_dict`` raises
``TypeError``, ``LookupError`` or ``ValueError`` on anything else (for :func:`logofair.files.documents.or_damaged`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from logofair.files.documents import of_type

__all__ = [
    "CertificateInfo",
    "ColumnsInfo",
    "DataInfo",
    "FederationInfo",
    "ModelInfo",
    "PolicyInfo",
    "RequirementInfo",
    "RequirementsInfo",
    "price_sentence",
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
        """The inverse of :meth:`as_dict`."""

        def requirement(item: Any) -> RequirementInfo:
            return RequirementInfo(_text(item["notion"]), _text(item["rate"]), _maybe(item["tolerance"], _number))

        def single(item: Any) -> tuple[str, float | None]:
            return _text(item["client"]), _maybe(item["tolerance"], _number)

        return cls(
            _tuple(data["local"], requirement),
            _tuple(data["global"], requirement),
            _tuple(data["single clients"], single),
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

    @classmethod
    def from_dict(cls, data: Any) -> CertificateInfo:
        """Read stored figures."""
        return cls(
            **{name: _number(data[name]) for name in ("primal", "dual", "optimality_gap", "violation")},
            basis=_text(data["basis"]),
            holds=of_type(data["holds"], bool),
            rounding=_number(data.get("rounding", 0.0)),
        )


@dataclass(frozen=True)
class ColumnsInfo:
    """The columns of the files a policy was made from, so that new files need not name them again."""

    score: str | None = None
    group: tuple[str, ...] = ()
    client: str | None = None
    scale: str = "chance"
    client_is_file_name: bool = False

    @classmethod
    def from_dict(cls, data: Any) -> ColumnsInfo:
        """Read stored names."""
        return cls(
            _maybe(data["score"], _text),
            _tuple(data["group"], _text),
            _maybe(data["client"], _text),
            _text(data["scale"]),
            of_type(data["client_is_file_name"], bool),
        )


@dataclass(frozen=True)
class DataInfo:
    """The files a policy was made from: names, fingerprint, rows, and the columns by role."""

    name: str
    files: tuple[str, ...]
    fingerprint: str
    rows: int
    columns: Mapping[str, str]

    @classmethod
    def from_dict(cls, data: Any) -> DataInfo:
        """Read what was stored."""
        return cls(
            _text(data["name"]),
            _tuple(data["files"], _text),
            _text(data["fingerprint"]),
            of_type(data["rows"], int),
            _mapping(data["columns"], _text),
        )


@dataclass(frozen=True)
class ModelInfo:
    """A federation's trained logistic model, on the features as they come."""

    features: tuple[str, ...]
    weights: tuple[float, ...]
    intercept: float

    @classmethod
    def from_dict(cls, data: Any) -> ModelInfo:
        """Read a stored model."""
        return cls(_tuple(data["features"], _text), _tuple(data["weights"], _number), _number(data["intercept"]))


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

    @classmethod
    def from_dict(cls, data: Any) -> FederationInfo:
        """Read what was stored, or published by the server."""
        return cls(
            _text(data["run"]),
            _tuple(data["sites"], _text),
            _tuple(data["excluded"], lambda each: _mapping(each, _text)),
            _mapping(data["exchanges"], lambda count: of_type(count, int)),
            of_type(data["rounds"], int),
            _mapping(data["global_gaps"], _number),
            _mapping(data["prices"], _number),
            _mapping(data["groups"], _number),
            of_type(data["secure_sums"], bool),
        )


@dataclass(frozen=True)
class PolicyInfo:
    """What a reader of a policy wants to know besides its rules.

    Parameters
    ----------
    requirements, certificate
        What was required, and the proof of how good the policy is on the rows it was made from.
    rows : int or None
        How many rows these were; a federated policy does not tell.
    calibration, solver, version : str
        How scores became chances, which solver found the rules, and the version of logofair that wrote them.
    prices, warnings : tuple of str
        Sentences: what more tolerance would win, and which cells rest on little.
    columns, data
        The columns and files it was made from, where it was made from files.
    site, federation, model, note
        A federated policy's own site, its run, the trained model, and what a site that joined late should know.

    Examples
    --------
    >>> info = PolicyInfo(rows=20, prices=("0.01 more tolerance ...",))
    >>> PolicyInfo.from_dict(info.as_dict()) == info
    True
    """

    requirements: RequirementsInfo = field(default_factory=RequirementsInfo)
    certificate: CertificateInfo | None = None
    rows: int | None = None
    calibration: str = "none"
    solver: str | None = None
    version: str = ""
    prices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    columns: ColumnsInfo | None = None
    data: DataInfo | None = None
    site: str | None = None
    federation: FederationInfo | None = None
    model: ModelInfo | None = None
    note: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values; what is None is left out."""
        plain = asdict(self) | {"requirements": self.requirements.as_dict()}
        return {name: value for name, value in plain.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Any) -> PolicyInfo:
        """The inverse of :meth:`as_dict`; lists are read where tuples were written."""
        of_type(data, dict)
        return cls(
            requirements=RequirementsInfo.from_dict(data["requirements"]),
            certificate=_maybe(data.get("certificate"), CertificateInfo.from_dict),
            rows=_maybe(data.get("rows"), lambda count: of_type(count, int)),
            calibration=_text(data["calibration"]),
            solver=_maybe(data.get("solver"), _text),
            version=_text(data["version"]),
            prices=_tuple(data["prices"], _text),
            warnings=_tuple(data["warnings"], _text),
            columns=_maybe(data.get("columns"), ColumnsInfo.from_dict),
            data=_maybe(data.get("data"), DataInfo.from_dict),
            site=_maybe(data.get("site"), _text),
            federation=_maybe(data.get("federation"), FederationInfo.from_dict),
            model=_maybe(data.get("model"), ModelInfo.from_dict),
            note=_maybe(data.get("note"), _text),
        )


def price_sentence(price: float, rate: str, where: str) -> str:
    """What 0.01 more tolerance for a rate would win at most.

    Examples
    --------
    >>> price_sentence(0.25, "selection rate", " over all clients")
    '0.01 more tolerance for the selection rate over all clients wins at most 0.00250 accuracy.'
    """
    return f"0.01 more tolerance for the {rate}{where} wins at most {0.01 * price:.5f} accuracy."


def _text(value: Any) -> str:
    return of_type(value, str)


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError("number")
    return float(value)


def _maybe(value: Any, read: Callable[[Any], Kind]) -> Kind | None:
    return None if value is None else read(value)


def _tuple(values: Any, read: Callable[[Any], Kind]) -> tuple[Kind, ...]:
    if type(values) not in (list, tuple):
        raise TypeError("list")
    return tuple(read(value) for value in values)


def _mapping(values: Any, read: Callable[[Any], Kind]) -> dict[str, Kind]:
    return {_text(name): read(value) for name, value in of_type(values, dict).items()}
