"""``fit(..., confidence=)``: rules whose requirements are certified for new rows, by rank or on rows held out.

The rows are split at random. Some choose the rule, its calibrator included; the others place its thresholds (by rank)
or test it (held out), so that nothing that is certified rests on the rows that chose what it is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
from scipy.special import ndtr

from logofair.auditing.certification import (
    added_up,
    held_out_errors,
    holm,
    rank_errors,
    rows_needed,
    single_rows_needed,
    targets_on_held_out_rows,
)
from logofair.auditing.judging import Compared, CountedRules, accepted_share, compared, rates_of
from logofair.auditing.measure import counting_labels, counts_rows, tally_of, value_of
from logofair.calibration.crossfit import assign_folds, assign_folds_by_person
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.errors import InfeasibleError, InputError
from logofair.fitting.ranks import choose_ranks, place_thresholds
from logofair.fitting.solving import (
    FitSettings,
    Prepared,
    Solved,
    merged_cells,
    merged_rules,
    ordered_cells,
    prepare,
    solve,
    solve_prepared,
    with_best,
    with_fitted,
)
from logofair.notions import Rate, as_number
from logofair.outcomes import MET, NEW_ROWS, TRUE_GAP, UNCLEAR, Outcome, Outcomes, room
from logofair.policy.info import PoolingInfo, PromisesInfo
from logofair.policy.mixtures import Mixtures, filled
from logofair.policy.policy import Policy
from logofair.requirement import ALL, TODAY, Requirement
from logofair.requirements import Requirements
from logofair.solvers.certificate import certify
from logofair.solvers.problem import Problem, make_problem

BY_RANK, _HELD_OUT = "by rank", "on rows held out"

# Of ten parts of the rows, those that choose the rule. By rank few choose well enough, since the others still place the
# thresholds. Held out, the gap of a rule fitted on a share s of n rows has a noise of about 0.8 / sqrt(s n) standard
# errors of a row and its limit a margin of 1.64 / sqrt((1 - s) n): together least for s = 0.38, 2% more for a half, and
# accuracy wants more rows to choose.
_PARTS = 10
_PARTS_FOR_CHOICE = {BY_RANK: 3, _HELD_OUT: 5}
_RATES = (0.05, 0.95)  # margins are reckoned for rates between these: at 0 the normal approximation would need none


def check_confidence(confidence: object) -> float | None:
    """Return a confidence between 0 and 1, or None; raise otherwise."""
    if confidence is None:
        return None
    value = as_number(confidence)
    if not 0.0 < value < 1.0:
        raise InputError(
            f"confidence: got {confidence!r}; pass a number above 0 and below 1, such as 0.95, or None for no promises."
        )
    return value


# ---------------------------------------------------------------- the split


@dataclass(frozen=True, eq=False)
class CalibrationSplit:
    """A random split of the calibration rows: one part chooses the rule, the other certifies it for new rows."""

    method: str  # "by rank" or "on rows held out"
    chooses: Booleans  # which rows choose the rule
    part: Prepared  # these, calibrated by themselves
    prepared: Prepared  # all rows, in the calibrated scores of that part


def split_rows(prepared: Prepared, requirements: Requirements, settings: FitSettings) -> CalibrationSplit:
    """Split the rows at random, stratified by cell; the requirements say which method certifies them.

    The policy's calibrator is fitted to the part that chooses, so that for the other part the calibrated scores are as
    independent of the labels as for new rows.
    """
    rows = prepared.rows
    rates = tuple(dict.fromkeys(rate for item in requirements.items for rate in rates_of(item)))
    for rate in rates:
        if rows.labels is None and rate.needs_labels:
            raise InputError(
                f"confidence: a promise about the {rate.name} of new rows needs labels; pass labels, or leave out "
                "confidence."
            )
    one_share = requirements.only_gaps and len(rates) == 1 and counts_rows(rates[0])
    # The rate of a union of cells has weights that are estimated, too: no order statistic tells of it.
    cells_alone = all(each.parted is None for each in chain(*requirements.holding.values()))
    by_rank = one_share and cells_alone and rows.people is None and rows.weights is None
    method = BY_RANK if by_rank else _HELD_OUT
    # A stream of its own: the folds of the calibration are drawn from the number alone.
    rng = np.random.default_rng([settings.random_state, 1])
    if rows.people is not None:
        n_cells = math.prod(rows.shape)
        chooses = (
            assign_folds_by_person(rows.people.codes, rows.cells, n_cells, _PARTS, rng) < _PARTS_FOR_CHOICE[method]
        )
    else:
        order = rows.order() if prepared.fitted.held_out is None else prepared.fitted.held_out.order
        chooses = np.empty(rows.scores.size, dtype=bool)
        chooses[order.rows] = assign_folds(order, _PARTS, rng) < _PARTS_FOR_CHOICE[method]
    if not chooses.any():  # fewer rows than parts
        chooses[:] = True
    part = prepare(rows.at(chooses), settings)
    fitted = replace(prepared.fitted, calibrator=part.fitted.calibrator)  # chances are still those of all folds
    all_rows = with_fitted(rows, fitted)
    cells = ordered_cells(all_rows, settings.basis)
    return CalibrationSplit(method, chooses, part, Prepared(all_rows, cells, fitted, PoolingInfo()))


# ---------------------------------------------------------------- what is to be certified


@dataclass(frozen=True, eq=False)
class _Statement:
    """One requirement on one rate as it is to be shown, site by site or over all.

    ``group`` is the number of the only group that it is about. ``bounds`` are numbers that were fixed before the rows
    that certify were looked at; NaN where there is none, so that nothing can be shown. ``at``: where it holds.
    """

    requirement: Requirement
    side: str  # "local" or "global"
    of_rate: int  # place of the rate among those that the requirement compares
    column: int  # of the rate in the problem
    group: int | None
    at: Booleans
    bounds: Floats

    def measured(self, rules: CountedRules) -> Compared:
        """The shares it is about, with their limits, at every place."""
        found = compared(self.requirement, rules if self.side == "local" else rules.over_all())
        of_each = self.requirement.measure == "rate" and not self.requirement.who
        return found.only(self.of_rate, self.group if of_each else None)

    def judged(self, own: Compared) -> Booleans:
        """Where there is a bound, and every share is known."""
        known = ~np.isnan(own.after).any(axis=1) & (own.people > 0).all(axis=1)
        return np.asarray(known & self.at & ~np.isnan(self.bounds))

    def ends(self, own: Compared, tail: Floats) -> Floats:
        """What the figure of each place stays within but for a chance of ``tail``; of an equality there is none."""
        if self.requirement.relation == "=":
            return np.full(tail.shape, np.nan)
        return own.end(np.ones(own.after.shape, dtype=bool), tail, kept=True)


def _statements(requirements: Requirements, problem: Problem) -> list[_Statement]:
    """What is to be shown, inside sites first; what is "today" comes from the rows of the problem.

    Floors and ceilings of today are of each group by itself. Today's gaps and ratios have no bound: on few rows chance
    alone makes them large.
    """
    found = []
    for side, columns, defined in (
        ("local", problem.local_holding, problem.inside.defined),
        ("global", problem.global_holding, problem.over_all.defined),
    ):
        for k, each in ((k, each) for k, column in enumerate(columns) for each in column):
            item, today = each.requirement, each.requirement.bound == TODAY
            of_rate = item.rates.index(each.of) if isinstance(each.of, Rate) else 0
            apart = today and each.measure == "rate" and each.group is None
            groups, _ = requirements.attributes.parted(item.by or ALL)
            for group in range(len(groups)) if apart else (each.group,):
                own = 0 if group is None else group
                bounds, known = each.bounds[:, own], defined[..., k].any(axis=1)
                bounds = np.full_like(bounds, item.bound) if item.measure == "precision" else bounds
                if today and item.measure in ("gap", "ratio"):
                    known = np.zeros_like(known)
                elif today and each.measure == "rate":
                    known = defined[:, own, k]
                if item.is_loss:  # which is of the rule that is fitted as much as of the rows
                    bounds = np.full_like(bounds, np.nan)
                fixed = np.where(each.at & known, bounds, np.nan) if today else np.where(each.at, bounds, np.nan)
                found.append(_Statement(item, side, of_rate, k, group, np.asarray(each.at), fixed))
    return found


@dataclass(frozen=True, eq=False)
class _Found:
    """What was found of one statement, at every place."""

    shown: Booleans  # together with all others that are
    ends: Floats  # of each by itself; NaN where not known
    rates: Floats  # (places, populations): what the rows that are needed are reckoned from
    deviation: Floats  # of a row, where one share less another is meant; NaN otherwise


def _rows_needed(
    method: str, errors: float, requirement: Requirement, bound: float, rates: Floats, deviation: float
) -> int | None:
    """Rows of every group that it takes to show a bound; None where no number suffices.

    ``errors`` are the standard errors between what is true and the bound.
    """
    true_gap, share = 0.0 if method == BY_RANK else TRUE_GAP, 1.0 - _PARTS_FOR_CHOICE[method] / _PARTS
    known, least = np.clip(rates[~np.isnan(rates)], *_RATES), requirement.relation == ">="
    if math.isnan(bound):
        return None
    if requirement.measure == "gap":
        rate = float(known[np.argmin(np.abs(known - 0.5))]) if known.size else 0.5
        needed = float(rows_needed(rate, bound, true_gap * bound, errors))
    elif requirement.measure == "ratio":
        rate = float(known.min()) if known.size else 0.5
        tolerance = (1.0 - bound) * rate / bound
        needed = float(rows_needed(rate, tolerance, true_gap * tolerance, errors))
    elif not known.size or requirement.relation == "=":  # which no number of rows shows
        return None
    else:
        rate = float(known.min() if least else known.max())
        variance = rate * (1.0 - rate)
        if requirement.measure == "difference":
            rate, variance = float(rates[0]), deviation**2
        left = rate - bound if least else bound - rate
        needed = float(single_rows_needed(variance, left, errors)) if left > 0 else math.inf
    return math.ceil(needed / share) if math.isfinite(needed) else None


# ---------------------------------------------------------------- certifying


def certify_for_new_rows(
    split: CalibrationSplit, requirements: Requirements, confidence: float, settings: FitSettings
) -> Solved:
    """Fit rules on the rows that choose, and certify by the others which requirements they meet for new rows.

    All outcomes that are met hold together with this confidence, were the rows drawn again and the rules fitted again;
    for new rows drawn like the calibration rows of the same site. The certificate is of these rules on all calibration
    rows, where its bound is that of all rules. Sites of which nothing can be certified keep the rules of all rows.

    By rank the outcomes follow from ranks and numbers of rows alone, so that other requirements on the same rate may be
    tried on the same split. On rows held out every trial is a look at the rows that test.
    """
    solved = solve_prepared(split.prepared, requirements, settings)
    problem = make_problem(with_best(requirements, split.part.cells, settings.basis)[0], split.part.cells)
    statements, error = _statements(requirements, problem), 1.0 - confidence
    if split.method == BY_RANK:
        rules, found, together, largest = _by_rank(split, statements, problem, solved.mixtures, error, settings)
    else:
        rules, found, together, largest = _held_out(split, requirements, statements, problem, solved, error, settings)
    by_rank = split.method == BY_RANK
    errors = rank_errors(error, together, len(requirements.groups)) if by_rank else held_out_errors(error, together)
    needed = partial(_rows_needed, split.method, errors)
    counted = _counted(split, rules, np.ones_like(split.chooses))
    outcomes = Outcomes(tuple(_outcomes(requirements, statements, found, counted, needed)))
    prices = solved.optimum.local_prices, solved.optimum.global_prices
    certificate = certify(solved.problem, rules, *prices, settings.basis)
    prepared = replace(solved.prepared, pooling=split.part.pooling)  # what the rows that choose borrow
    promises = PromisesInfo(confidence, split.method, largest_local_bound=largest)
    return replace(
        solved, prepared=prepared, mixtures=rules, certificate=certificate, certified=outcomes, promises=promises
    )


def _outcomes(
    requirements: Requirements,
    statements: Sequence[_Statement],
    found: Sequence[_Found],
    counted: CountedRules,
    rows_needed: Callable[..., int | None],
) -> Iterator[Outcome]:
    """What was found, by requirement and site: of several rates or groups all must be shown."""
    behind = [each.measured(counted) for each in statements]
    for item in requirements.items:
        own = [k for k, each in enumerate(statements) if each.requirement == item]
        for place in np.flatnonzero(statements[own[0]].at).tolist() if own else ():
            limits = np.array([statements[k].bounds[place] for k in own])
            ends = np.array([found[k].ends[place] for k in own])
            smallest = min(own, key=lambda k: behind[k].rows[place].min())
            worst = own.index(smallest)
            if not np.isnan(ends).any():
                worst = int(room(item.relation, limits, ends).argmin())
            needed = [
                rows_needed(item, limit, found[k].rates[place], float(found[k].deviation[place]))
                for k, limit in zip(own, limits.tolist(), strict=True)
            ]
            end = None if np.isnan(ends).any() else float(ends[worst])
            counts = behind[smallest].rows[place]
            yield Outcome(
                item,
                None if item.scope.is_global else counted.sites[place],
                float(item.bound) if item.is_loss else value_of(float(limits[worst])),  # type: ignore[arg-type]
                before=None,
                after=None,
                low=end if item.relation == ">=" else None,
                high=end if item.relation == "<=" else None,
                rows=int(counts.min()),
                state=MET if all(found[k].shown[place] for k in own) else UNCLEAR,
                basis=NEW_ROWS,
                rows_needed=None if None in needed else max(each for each in needed if each is not None),
                rate=behind[smallest].rates[0],
                groups=behind[smallest].names[int(counts.argmin())],
            )


# ---------------------------------------------------------------- by rank


def _by_rank(
    split: CalibrationSplit,
    statements: Sequence[_Statement],
    problem: Problem,
    otherwise: Mixtures,
    error: float,
    settings: FitSettings,
) -> tuple[Mixtures, list[_Found], int, float | None]:
    """Gaps of one share of rows: target rates chosen on the split's rows, thresholds placed among the others.

    A looser of two tolerances is kept with the stricter one.
    """
    rows, (rate,) = split.prepared.rows, statements[0].requirement.rates
    counted = np.ones(rows.scores.size, dtype=bool)
    if rows.labels is not None and rate.needs_labels:
        counted = np.isin(rows.labels, counting_labels(rate))
    placing = counted & ~split.chooses
    left, every = (
        np.bincount(rows.cells[which], minlength=problem.mass.size).reshape(problem.shape)
        for which in (placing, counted)
    )
    ranks = choose_ranks(problem, rate, left, every, error, lambda p: solve(p, settings)[0])
    made = added_up(ranks.risks, error)
    bounds, merged_bounds = ranks.bounds(error)
    shown = [each.at & (made[:-1] if each.side == "local" else made[-1:]) for each in statements]
    kept = np.asarray(made[:-1] | made[-1])
    here = kept[:, None]
    placed = replace(ranks, ranks=np.where(here, ranks.ranks, 0), rows=np.where(here, ranks.rows, 0))
    rng = np.random.default_rng([settings.random_state, 2])
    mixtures = place_thresholds(placed, rows.calibrated[placing], rows.cells[placing], otherwise, rng)
    inside = np.where(kept, bounds, np.nan), ranks.laws.means
    over_all = merged_bounds if kept.all() else np.full(1, np.nan), ranks.merged.means
    found = []
    for each, own in zip(statements, shown, strict=True):
        ends, rates = inside if each.side == "local" else over_all
        found.append(_Found(own, ends, rates, np.full(own.size, np.nan)))
    return mixtures, found, int((ranks.risks <= 1.0).sum()), placed.largest_local_bound(error)


# ---------------------------------------------------------------- on rows held out


def _held_out(
    split: CalibrationSplit,
    requirements: Requirements,
    statements: Sequence[_Statement],
    problem: Problem,
    solved: Solved,
    error: float,
    settings: FitSettings,
) -> tuple[Mixtures, list[_Found], int, float | None]:
    """Anything: rules fitted on the split's rows are tested on the others, with Holm's correction.

    Where the rows that choose know no rule that meets the requirements, nothing is shown.
    """

    def rules_of(problem: Problem) -> Mixtures:
        cells = split.part.cells
        rules = solve(problem, settings)[0]
        empty = bool((cells.mass == 0).any())
        merged = merged_rules(merged_cells(split.part, settings.basis), requirements, settings.basis) if empty else None
        return filled(cells, rules, merged, requirements.costs)

    places = [each.at.size for each in statements]
    try:
        mixtures = rules_of(problem)
    except InfeasibleError:
        nothing = [np.full(size, np.nan) for size in places]
        found = [_Found(np.zeros(none.size, dtype=bool), none, none[:, None], none) for none in nothing]
        return solved.mixtures, found, sum(int(each.at.sum()) for each in statements), None
    with suppress(InfeasibleError):  # where there is no room for the limits
        mixtures = rules_of(_with_room(problem, statements, _counted(split, mixtures, split.chooses), error))

    tested = _counted(split, mixtures, ~split.chooses)
    parts = [each.measured(tested) for each in statements]
    judged = [each.judged(own) for each, own in zip(statements, parts, strict=True)]
    flat, starts = np.concatenate(judged), np.cumsum(places)[:-1]

    def holds(tail: Floats) -> Booleans:
        tails = np.full(flat.size, error)
        tails[flat] = tail
        every = zip(statements, parts, np.split(tails, starts), strict=True)
        kept = [room(s.requirement.relation, s.bounds, s.ends(own, own_tail)) >= 0.0 for s, own, own_tail in every]
        return np.asarray(np.concatenate(kept)[flat])

    made = np.zeros(flat.size, dtype=bool)
    made[flat] = holm(holds, int(flat.sum()), error)
    by_statement = list(zip(statements, np.split(made, starts), strict=True))
    shown = [
        np.logical_and.reduce([own for other, own in by_statement if other.requirement == each.requirement])
        for each in statements
    ]
    # Where nothing is shown of them, the rules fitted on all rows are better than those of few: of a site by itself,
    # but what is shown over all sites is of the rules of all. Each was tested by itself, so that others still hold.
    kept = np.zeros(len(split.prepared.rows.sites.names), dtype=bool)
    for each, own_shown in zip(statements, shown, strict=True):
        kept |= own_shown if each.side == "local" else own_shown.any()
    found, gaps = [], []
    for each, own, known, own_shown in zip(statements, parts, judged, shown, strict=True):
        known = known & (kept if each.side == "local" else kept.all())
        ends = np.where(known, each.ends(own, np.full(known.size, error)), np.nan)
        deviation = np.full(known.size, np.nan)
        if each.requirement.measure == "difference":
            deviation = (_standard_errors(own) * np.sqrt(own.people))[:, 0]
        found.append(_Found(own_shown, ends, own.after, deviation))
        gaps += [ends[each.at]] if each.requirement.measure == "gap" and each.side == "local" else []
    # The pair that is worst in truth is one fixed pair: its own limit is a bound of the largest gap.
    bounds = np.concatenate(gaps) if gaps else np.array([np.nan])
    largest = None if np.isnan(bounds).any() else float(bounds.max())
    rule = np.arange(mixtures.single.size)
    own_rules = np.repeat(kept, len(requirements.groups))
    chosen = mixtures.joined_with(solved.mixtures).at(np.where(own_rules, rule, rule + rule.size))
    return chosen, found, int(flat.sum()), largest


def _counted(split: CalibrationSplit, mixtures: Mixtures, which: Booleans) -> CountedRules:
    """What rules do on some of the rows."""
    rows, some = split.prepared.rows, split.prepared.rows.at(which)
    policy = Policy(rows.groups.names, rows.sites.names, mixtures, split.prepared.fitted.calibrator, None, 0)
    chance = policy.chances(rows.calibrated[which], some.cells)
    ids = None if rows.people is None else some.ids
    tally = tally_of(chance, some.labels, some.weights, some.groups, some.sites, ids)
    return CountedRules(tally, rows.groups.names, rows.sites.names)


def _standard_errors(own: Compared) -> Floats:
    """Half of what lies between the ends that each figure is outside of as often as a normal one beyond 1."""
    low, high = own.limits(np.full((len(own.after), 1), ndtr(-1.0)))
    return np.asarray((high - low) / 2.0)


def _with_room(problem: Problem, statements: Sequence[_Statement], rules: CountedRules, error: float) -> Problem:
    """The problem with requirements that leave room for the limits on the rows held out, where these are enough.

    A rule that uses its tolerance up on the rows that choose it would hardly ever be shown to keep it on others.
    Nothing of these is looked at: there are as many of them as choose, and ``rules`` are fitted on those.
    """
    parts = [(each, each.measured(rules)) for each in statements]
    parts = [(each, own) for each, own in parts if own.has_interval]
    error /= max(sum(int(each.judged(own).sum()) for each, own in parts), 1)
    # Copies, which may be written to.
    limits = {
        side: each.of(np.arange(len(each.unit))) for side, each in zip(("local", "global"), problem.limits, strict=True)
    }
    for each, own in parts:
        requirement, k, judged = each.requirement, each.column, each.judged(own)
        own_limits = limits[each.side]
        if requirement.measure in ("gap", "ratio"):
            tally = rules.after if each.side == "local" else rules.over_all().after
            of_all = tally.summed(1).rate(requirement.rates[each.of_rate])[:, 0]
            common = np.clip(np.nan_to_num(of_all, nan=0.5), *_RATES)
            if requirement.measure == "gap":
                wanted = np.where(judged, each.bounds, np.inf)
                target = targets_on_held_out_rows(own.people, common, wanted, error)
                own_limits.tolerance[:, k] = np.minimum(own_limits.tolerance[:, k], target)
            else:
                target = targets_on_held_out_rows(own.people, common, each.bounds, error, ratio=True)
                own_limits.ratio[:, k] = np.where(
                    judged, np.maximum(own_limits.ratio[:, k], target), own_limits.ratio[:, k]
                )
        elif requirement.relation != "=":
            floor, bound = requirement.relation == ">=", each.bounds[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):  # where there is nobody, there is no room
                share = np.clip(bound, *_RATES)
                deviation = np.sqrt(share * (1.0 - share) / own.people)
                if requirement.measure == "difference":
                    deviation = _standard_errors(own)
                target = bound + held_out_errors(error, 1) * deviation * (1.0 if floor else -1.0)
                enough = judged[:, None] & (target * bound > 0.0) & (np.abs(target) < 1.0)
                if requirement.measure == "precision":  # its row is of all people: about as many as now are accepted
                    accepted = accepted_share(requirement, rules if each.side == "local" else rules.over_all())
                    target = (target - bound) * accepted[:, None]
            target = np.where(enough, target, -np.inf if floor else np.inf)
            if requirement.measure == "rate" and requirement.who != ((),):
                group = slice(target.shape[1]) if each.group is None else slice(each.group, each.group + 1)
                end = (own_limits.least if floor else own_limits.most)[:, group, k]
            else:
                end, target = (own_limits.total_least if floor else own_limits.total_most)[:, k], target[:, 0]
            end[...] = np.maximum(end, target) if floor else np.minimum(end, target)
    return replace(problem, local_limits=limits["local"], global_limits=limits["global"])
