"""What a site's people have agreed to: the plan itself by its digest, or limits that a plan must keep within.

The plan is the server's word. A site checks it before the first number leaves; what it refuses is said on its own
screen, and the server is told no more than that the plan was refused.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from logofair.columns.checks import nearest_name, positive_number, whole_number
from logofair.costs import read_pair
from logofair.errors import InputError, RefusedError
from logofair.federation.exchange import Refusal
from logofair.federation.plan import Band, Plan, strictest
from logofair.federation.privacy import check_neighbours
from logofair.files.documents import read_bytes
from logofair.records import SPOKEN, spoken_digest
from logofair.requirements import check_tolerance

_MOST_DELTA = 1e-6


@dataclass(frozen=True)
class SiteLimits:
    """What a plan must keep within for a site to answer; by default anything.

    Parameters
    ----------
    plan : str, optional
        Digest of the one plan that is agreed to (:attr:`Plan.fingerprint`), as the server's people read it out.
    only_secure : bool
        Refuse plans without secure sums.
    most_epsilon, most_delta : float, optional
        The most that differential privacy may spend; with either of them plans without it are refused. Beside an
        epsilon alone delta is 1e-6 at most: a large one would undo what the epsilon promises.
    neighbours : str, optional
        Between which data sets it must not distinguish: "replace" or "add-remove".
    smallest_cell, most_smallest_cell : int, optional
        Refuse plans that count smaller cells; differential privacy counts none exactly and is enough. Refuse plans
        that leave out cells of this many rows, which may be all that other sites have.
    least_sites : int, optional
        Refuse rosters of fewer sites, this one among them.
    most_local_tolerance, most_global_tolerance : float, optional
        The largest tolerance of any gap inside this site, and over all; a gap that is free exceeds it.
    local_tolerance : float, optional
        This site's own tolerance, in place of the plan's for every gap inside this site and never larger. It counts
        here alone: the server is not told, and totals stay sums of what the sites answer.
    costs : pair of numbers, optional
        What a wrongly accepted and a wrongly rejected row cost here, in place of the plan's costs and neither of them
        larger. They count here alone, likewise.
    most_rounds, most_prices : int, optional
        Refuse plans of more rounds, and plans of which a site answers more prices (:attr:`Plan.most_prices`): each
        tells of its scores.
    calibration : bool
        Whether sums over labels may be sent.
    most_folds : int, optional
        Refuse plans that deal the rows into more folds, for each of which sums are sent.
    pooling : bool
        Whether histograms of scores may be sent.

    Examples
    --------
    >>> from logofair.federation import make_plan
    >>> plan = make_plan(groups=["F", "M"], local_tolerance=0.05, run="spring")
    >>> SiteLimits(most_local_tolerance=0.1).objection(plan, "north") is None
    True
    >>> SiteLimits(most_local_tolerance=0.02).objection(plan, "north")
    'its tolerance inside this site is 0.05 (selection rate); this site allows 0.02 at most'
    """

    plan: str | None = None
    only_secure: bool = False
    most_epsilon: float | None = None
    most_delta: float | None = None
    neighbours: str | None = None
    smallest_cell: int | None = None
    most_smallest_cell: int | None = None
    least_sites: int | None = None
    most_local_tolerance: float | None = None
    most_global_tolerance: float | None = None
    local_tolerance: float | None = None
    costs: tuple[float, float] | None = None
    most_rounds: int | None = None
    most_prices: int | None = None
    calibration: bool = True
    most_folds: int | None = None
    pooling: bool = True

    def __post_init__(self) -> None:
        checked: dict[str, object] = {}
        for name in ("only_secure", "calibration", "pooling"):
            if type(getattr(self, name)) is not bool:
                raise InputError(f"{name}: got {getattr(self, name)!r}; use true or false.")
        if self.plan is not None:
            checked["plan"] = read_fingerprint(self.plan)
        if self.neighbours is not None:
            check_neighbours(self.neighbours)
        if self.costs is not None:
            checked["costs"] = read_pair(self.costs, "costs")
        for name in ("smallest_cell", "most_smallest_cell", "least_sites", "most_folds", "most_rounds", "most_prices"):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name)
        if self.most_epsilon is not None and self.most_delta is None:
            checked["most_delta"] = _MOST_DELTA
        for name in ("most_epsilon", "most_delta"):
            if getattr(self, name) is not None:
                positive_number(getattr(self, name), name, 100.0)
        for name in ("most_local_tolerance", "most_global_tolerance", "local_tolerance"):
            check_tolerance(getattr(self, name), name, of_shares=False)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def objection(self, plan: Plan, site: str, sites: int | None = None) -> str | None:
        """Why a plan is not agreed to, as the rest of a sentence about it; None where it is.

        ``sites`` is how many are in the roster, where it is known.
        """
        return next(self._objections(plan, site, sites), None)

    def check(self, plan: Plan, site: str, sites: int | None = None) -> None:
        """Raise where a plan is not agreed to."""
        objection = self.objection(plan, site, sites)
        if objection is not None:
            raise RefusedError(Refusal.PLAN_REFUSED, f"run {plan.run!r}: the plan is refused, since {objection}.")

    def _objections(self, plan: Plan, site: str, sites: int | None) -> Iterator[str]:
        private, secure = plan.privacy, plan.secure
        if self.plan is not None and plan.fingerprint != self.plan:
            yield f"its digest is {plan.fingerprint}; this site has agreed to {self.plan}"
        if self.only_secure and not secure:
            yield "it has no secure sums; this site wants them"
        if private is None and (self.most_epsilon, self.most_delta, self.neighbours) != (None, None, None):
            yield "it has no differential privacy; this site wants it"
        rounds, folds = plan.rounds if plan.solver is None else plan.solver.rounds, plan.folds * plan.deals_folds
        cell = np.inf if private is not None else plan.smallest_cell  # noise covers small cells already
        roster = np.inf if sites is None else sites
        epsilon, delta = (0.0, 0.0) if private is None else (private.epsilon, private.delta)
        for there, most, sentence in (
            (epsilon, self.most_epsilon, "it would spend epsilon {:g}; this site spends {:g} at most"),
            (delta, self.most_delta, "it would spend delta {:g}; this site spends {:g} at most"),
            (
                plan.smallest_cell,
                self.most_smallest_cell,
                "it leaves out groups below {} rows; this site allows {} at most",
            ),
            (rounds, self.most_rounds, "it may take {} rounds; this site allows {} at most"),
            (plan.most_prices, self.most_prices, "it may send {:,} prices; this site answers {:,} at most"),
            (folds, self.most_folds, "it has {} folds; this site deals its rows into {} at most"),
        ):
            if most is not None and there > most:
                yield sentence.format(there, most)
        for there, least, sentence in (
            (cell, self.smallest_cell, "it counts groups of {} rows; this site wants {} at least"),
            (roster, self.least_sites, "its roster has {} sites; this site wants {} at least"),
        ):
            if least is not None and there < least:
                yield sentence.format(there, least)
        if private is not None and self.neighbours not in (None, private.neighbours):
            yield f"its privacy is for neighbours by {private.neighbours!r}; this site wants {self.neighbours!r}"
        if not self.calibration and plan.calibration != "none":
            yield "it calibrates, for which sums over labels are sent; this site sends none"
        if not self.pooling and plan.pooling != "none":
            yield "it pools, for which histograms of scores are sent; this site sends none"
        yield from self._about_gaps(plan, site)
        largest = plan.cost_scale.largest
        if self.costs is not None and plan.cost_scale.every is None:
            yield "it counts accuracy; this site's own costs can only take the place of others"
        elif self.costs is not None and any(own > most for own, most in zip(self.costs, largest, strict=True)):
            own, theirs = (f"{accepted:g} and {rejected:g}" for accepted, rejected in (self.costs, largest))
            yield f"its costs are {theirs} at most, and this site's own, {own}, are larger"
        elif self.costs is not None and any(item.is_loss and item.scope.is_global for item in plan.require):
            yield "it limits what is lost over all sites, at its own costs; a site's own cannot take their place"
        elif self.costs is None and not plan.has_costs(site):
            yield "it says what errors cost at other sites, and not at this one"

    def _about_gaps(self, plan: Plan, site: str) -> Iterator[str]:
        """Gaps that may be wider than this site allows; within a ratio shares differ by 1 less the ratio at most."""
        inside = plan.requirements((site,))
        inside = inside.only(item for item in inside.items if item.measure in ("gap", "ratio"))
        over_all = plan.over_all.compared or tuple(map(Band, plan.looked_at[1]))
        for where, rates, bands, most, own in (
            (
                "inside this site",
                plan.inside.rates,
                strictest(inside.holding["local"], {}),
                self.most_local_tolerance,
                self.local_tolerance,
            ),
            ("over all sites", [band.rate for band in over_all], over_all, self.most_global_tolerance, None),
        ):
            known = {band.rate: band for band in bands}
            for rate in rates:
                band = known.get(rate, Band(rate))
                if own is not None and own >= 1.0 and rate.is_share:
                    yield f"this site's own tolerance, {own:g}, allows any gap in the {rate.name}; choose one below 1"
                if own is not None and own > band.tolerance:
                    yield (
                        f"its tolerance {where} is {band.tolerance:g} ({rate.name}), and this site's own, {own:g}, is "
                        "larger; only a smaller one can hold beside it"
                    )
                tolerance = band.tolerance if own is None else own
                by_ratio = np.inf if band.ratio is None else 1.0 - band.ratio
                if most is None or min(tolerance, by_ratio) <= most:
                    continue
                if np.isfinite(tolerance):
                    yield f"its tolerance {where} is {tolerance:g} ({rate.name}); this site allows {most:g} at most"
                elif band.ratio is not None:
                    yield (
                        f"its ratio {where} is {band.ratio:g} ({rate.name}), so that gaps are up to {by_ratio:g}; this "
                        f"site allows {most:g} at most"
                    )
                else:
                    yield f"it leaves the {rate.name} {where} free; this site allows gaps of {most:g} at most"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SiteLimits:
        """Limits from a TOML file, such as ``site-policy.toml``: one ``name = value`` a line."""
        content = read_bytes(path)
        file = Path(path)
        known = [field.name for field in fields(cls)]
        try:
            found = tomllib.loads(content.decode("utf-8"))
            unknown = next((name for name in found if name not in known), None)
            if unknown is not None:
                there = ", ".join(known)
                raise InputError(f"{unknown}: no such limit{nearest_name(unknown, known)}; there are {there}.")
            return cls(**found)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{file}: is no TOML file ({error}); write one limit a line, name = value.") from None
        except InputError as error:
            raise InputError(f"{file}: {error}") from None


def read_fingerprint(text: object) -> str:
    """A plan's digest as people write it: case, spaces, '-' and ':' do not matter."""
    plain = "".join(c for c in str(text).lower() if c not in " -:") if isinstance(text, str) else ""
    if len(plain) != SPOKEN or any(c not in "0123456789abcdef" for c in plain):
        raise InputError(
            f"plan: got {text!r}; pass the digest that the server prints, {SPOKEN} digits and letters a to f."
        )
    return spoken_digest(bytes.fromhex(plain))
