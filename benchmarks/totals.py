"""``python -m benchmarks.totals``: what the totals of a run with secure sums tell the server, and each site, of rows.

Every site recomputes all totals and can take its own numbers off; a site that tells the server its numbers makes the
server see as much. In a roster of three each sees the sums of the other two together. Three attacks are measured, each
by every site in turn, of which the one that learns most counts:

* **Cuts.** Without a local tolerance the answer to a price cuts the scores of each group at a value that everybody can
  compute, so that the totals are points of the distribution of the others' scores: between two neighbouring cuts lies a
  known number of their rows. Where it is one, that row's score is known to within the distance of the cuts, though not
  whose of the two it is. A local tolerance moves every site's cuts by prices of its own, so that nobody else knows
  them.
* **Folds.** The first sums of calibration are taken at the same point for every fold, so that those of a fold are a
  difference: by beta calibration ten numbers, besides how many rows have which label. Four rows have four scores.
  A site that lies reads more: it claims rows, so that sums of few are sent, or leads calibration to steep maps. All
  sums together are points of smooth functions: how many scores they fix follows from their derivatives.
* **Bins.** The histograms with which small cells borrow hold rows alone in their bins.

Folds and bins are also measured as the protocol was before: sums however few the rows, and pooling.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from unittest import mock

import click
import numpy as np
from scipy.optimize import least_squares
from scipy.special import expit, logit

from logofair.calibration import fits
from logofair.calibration.maps import FAMILIES
from logofair.columns.checks import Floats
from logofair.federation import ClientBatch, Plan, Server, SiteColumns, make_plan
from logofair.federation.exchanges.calibrating import (
    Contributors,
    Curvature,
    CurvatureRequest,
    FoldCounts,
    GroupRows,
)
from logofair.federation.exchanges.pooling import PriorSums
from logofair.federation.exchanges.publication import PublishRequest
from logofair.federation.exchanges.rounds import Answers, AnswersRequest, Steps, StepsRequest, Totals, TotalsRequest
from logofair.solvers.algorithm1 import Algorithm1

_SITES = ("a", "b", "c")
# So many rows of a fold are solved for from ten numbers.
_MOST_SOLVED = 6


@dataclass(frozen=True)
class Seen:
    """What one site, or some that talk to each other, know of the others' rows when the run is over."""

    sums: int
    prices: int
    numbers: int  # of all totals together
    intervals: tuple[tuple[int, float, float, int], ...]  # group, low, high, rows in between

    def alone(self, width: float = 1.0) -> int:
        """Rows of which the score is known to within a width."""
        return sum(1 for _, low, high, rows in self.intervals if rows == 1 and high - low <= width)


def generated(rows: int, rng: np.random.Generator) -> dict[str, SiteColumns]:
    """Sites of so many rows each, with two groups."""
    sites = {}
    for site in _SITES:
        group = rng.integers(0, 2, rows)
        scores = rng.beta(1.0 + 0.7 * group, 2.0)
        sites[site] = SiteColumns(group, scores, (rng.random(rows) < scores).astype(int))
    return sites


def with_small_group(large: int, small: int, rng: np.random.Generator) -> dict[str, SiteColumns]:
    """Sites of so many rows in a large group and so many in a small one, group 1."""
    sites = {}
    for site in _SITES:
        group = np.repeat([0, 1], [large, small])
        scores = rng.beta(1.0 + 0.7 * group, 2.0)
        sites[site] = SiteColumns(group, scores, (rng.random(group.size) < scores).astype(int))
    return sites


def slow_steps(rounds: int) -> Plan:
    """A plan of Algorithm 1 whose cuts move by little in every round."""
    solver = Algorithm1(rounds=rounds, local_steps=1, sharpness=1e9, step=0.01)
    return make_plan(
        groups=[0, 1], local_tolerance=None, global_tolerance=0.0, calibration="none", secure=True,
        solver=solver,
    )  # fmt: skip


def attacked(
    sites: dict[str, SiteColumns], plan: Plan, allies: tuple[int, ...] = (0,), lies: np.random.Generator | None = None
) -> Seen:
    """What some sites read off a run's totals; for selection rates without local tolerance.

    With ``lies`` they add noise to their answers, so that no certificate is good enough and the rounds go on.
    """
    batch, server, sums, numbers = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), 0, 0
    cuts: list[tuple[Floats, Floats]] = []
    while not isinstance(server.request, PublishRequest):
        request = server.request
        batch, replies = batch.answer(request)
        total = replies.total()
        sums, numbers = sums + 1, numbers + total.vector().size
        if isinstance(request, AnswersRequest) and isinstance(replies, Answers) and isinstance(total, Answers):
            for number, prices in enumerate(request.prices):
                gain_u, gain_v = batch.problem.priced_gain(prices)
                own = replies.shares[list(allies), number].sum(axis=0)
                others = (total.shares[number] - own)[:, 0] * request.mass
                cuts.append((-gain_u[0] / gain_v[0], np.rint(others)))
            if lies is not None:
                noised = np.clip(total.shares + lies.normal(0.0, 0.05, total.shares.shape), 0.0, 1.0)
                noise = lies.normal(0.0, 0.01, total.gain.shape)
                total = replace(total, shares=noised, gain=total.gain + noise, bound=total.bound + 0.05)
        server = server.take(total)
    return Seen(sums, len(cuts), numbers, tuple(_intervals(cuts, server)))


def attacked_steps(sites: dict[str, SiteColumns], plan: Plan) -> int:
    """Rows of the others that the first site sees crossing a cut alone, from one round of Algorithm 1 to another."""
    batch, server = ClientBatch.of(sites, plan), Server.start(plan, list(sites))
    seen: dict[float, float] = {}
    while not isinstance(server.request, PublishRequest):
        request = server.request
        batch, replies = batch.answer(request)
        if isinstance(request, StepsRequest) and isinstance(replies, Steps):
            ahead, behind = replies.change[1:].sum(axis=0)[:, 0] / request.step  # unless stopped at 0, opposites
            price = float(request.multipliers[0, 0] - request.multipliers[1, 0])
            seen[price] = ahead if ahead != 0.0 else -behind
            mass = request.mass
        server = server.take(replies.total())
    moves = np.abs(np.diff([seen[price] for price in sorted(seen)]))
    return int(sum(np.isclose(moves, 1.0 / each, rtol=1e-6).sum() for each in mass))


def _intervals(cuts: list[tuple[Floats, Floats]], server: Server) -> list[tuple[int, float, float, int]]:
    """How many of the others' rows lie between neighbouring cuts of each group."""
    found = []
    for group in range(len(server.plan.groups)):
        points = sorted({(float(np.clip(at[group], 0.0, 1.0)), int(above[group])) for at, above in cuts})
        for (low, below), (high, above) in pairwise(points):
            found.append((group, low, high, below - above))
    return found


@contextmanager
def sums_of_few_rows() -> Iterator[None]:
    """The protocol as it was before: every group has sums of its own, however few rows it has, at however few sites.

    With a plan without secure sums, which does not count who contributes; the totals are the same numbers.
    """
    with mock.patch.object(fits, "LEAST_ROWS", 0):
        yield


@contextmanager
def counted_folds() -> Iterator[None]:
    """The protocol as it was before: three sites with both labels in each fold were enough, however few their rows."""
    with mock.patch("logofair.federation.exchanges.calibrating.LEAST_ROWS", 0):
        yield


def attacked_folds(
    sites: dict[str, SiteColumns], plan: Plan, allies: tuple[int, ...] = (), claimed: float = 0.0
) -> tuple[int, int]:
    """How many of the others' rows some sites read off the sums of folds, with score and label, and of how many.

    Without allies it is the server that looks; these may claim more rows than they have, and folds that are full.
    Of the smallest group alone; beta calibration.
    """
    batch, server, found = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), np.zeros((0, 2))
    small = int(
        np.argmin([np.sum(np.concatenate([each.sensitive_features for each in sites.values()]) == g) for g in (0, 1)])
    )
    while not isinstance(server.request, PublishRequest):
        batch, replies = batch.answer(server.request)
        total = replies.total()
        if claimed and isinstance(total, Contributors):
            total.folds[list(allies), small] = 1.0
        if claimed and isinstance(total, GroupRows):
            total.rows[small] += claimed
        if isinstance(total, FoldCounts) and isinstance(replies, FoldCounts):
            own = list(allies)
            sums = (total.sums - replies.sums[own].sum(axis=0))[:, :, 1 + small]
            counts = (total.counts - replies.counts[own].sum(axis=0))[:, -1, :, small]
            solved = [_rows_of(sums[:, -1] - sums[:, f], counts[:, -1] - counts[:, f]) for f in range(plan.folds)]
            found = np.concatenate(solved)
        server = server.take(total)
    others = [each for number, each in enumerate(sites.values()) if number not in allies]
    there = np.concatenate(
        [
            np.column_stack([np.asarray(e.scores), np.asarray(e.labels)])[np.asarray(e.sensitive_features) == small]
            for e in others
        ]
    )
    return _matched(found, there), len(there)


def _rows_of(sums: Floats, counts: Floats) -> Floats:
    """Scores and labels of the rows of a fold, where its ten numbers can tell that many; else none."""
    negatives, positives = np.rint(counts).astype(int)
    if not 0 < negatives + positives <= _MOST_SOLVED:
        return np.zeros((0, 2))
    labels, rng = np.repeat([1.0, 0.0], [positives, negatives]), np.random.default_rng(0)

    def off(odds: Floats) -> Floats:
        return _ten_numbers(expit(odds), labels) - sums

    starts = rng.normal(size=(30, labels.size))
    best = min((least_squares(off, start, xtol=1e-14, ftol=1e-14) for start in starts), key=lambda found: found.cost)
    return np.column_stack([expit(best.x), labels])


def _ten_numbers(scores: Floats, labels: Floats) -> Floats:
    """Log-loss, gradient and Hessian of beta calibration at the map that changes nothing."""
    features = np.stack([np.log(scores), -np.log1p(-scores), np.ones_like(scores)])
    loss = -np.log(np.where(labels > 0.5, scores, 1.0 - scores)).sum()
    hessian = (features[:, None] * features * (scores * (1.0 - scores))).sum(axis=2)
    return np.concatenate([[loss], features @ (scores - labels), hessian[np.triu_indices(3)]])


def _matched(found: Floats, there: Floats) -> int:
    """How many rows were found to within 0.001 of their score, with their label, each once."""
    left, matched = there.copy(), 0
    for score, label in found:
        near = np.flatnonzero((np.abs(left[:, 0] - score) < 1e-3) & (left[:, 1] == label))
        if near.size:
            left, matched = np.delete(left, near[0], axis=0), matched + 1
    return matched


_STEEP = 2.0**14  # so steep a map sums what lies above a value of its own
_HEAVY = 2.0**30  # curvature beside which that of rows is nothing: whoever claims it chooses the next point


def attacked_points(sites: dict[str, SiteColumns], plan: Plan) -> tuple[int, int]:
    """How many of the others' scores a site reads that chooses by its lies where they are summed, and of how many.

    The last site, of the last group, by beta calibration: each fit is led from one steep map to another, and what
    changes in the others' gradient is the sum of the log-odds between two values. Where that is one row, it is read.
    """
    batch, server, group = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), len(plan.groups)
    seen: list[dict[float, Floats]] = [{} for _ in range(plan.folds + 1)]
    cuts, loss = [0.0] * len(seen), 2.0**40
    while not isinstance(server.request, PublishRequest):
        request = server.request
        batch, replies = batch.answer(request)
        total = replies.total()
        if isinstance(total, GroupRows):
            total.mass[group - 1] += 2.0**41
        if isinstance(request, CurvatureRequest):
            assert isinstance(total, Curvature)
            assert isinstance(replies, Curvature)
            others = total.sums - replies.sums[-1]
            loss -= 2.0**20  # lower every time, so that every step is taken
            for fit in np.flatnonzero(request.live[:, group]):
                if not isinstance(total, FoldCounts):
                    seen[fit][cuts[fit]] = others[1:4, fit, group]
                cuts[fit] = _next_cut(seen[fit], (fit + 0.5) / len(seen))
                away = request.at[:, fit, group] - np.array([_STEEP, _STEEP, -_STEEP * cuts[fit]])
                lie = np.concatenate([[loss], _HEAVY * away, (_HEAVY * np.eye(3))[np.triu_indices(3)]])
                total.sums[:, fit, group] = others[:, fit, group] + lie
        server = server.take(total)
        if isinstance(total, Totals):
            break
    there = np.concatenate(
        [np.asarray(e.scores)[np.asarray(e.sensitive_features) == group - 1] for e in list(sites.values())[:-1]]
    )
    between = [each[low] - each[high] for each in seen for low, high in pairwise(sorted(each))]
    read = [odds[0] + odds[1] for odds in between if abs(odds[2] - 1.0) < 0.01]
    return sum(bool(np.min(np.abs(logit(there) - each)) < 1e-3) for each in read), there.size


def _next_cut(seen: dict[float, Floats], share: float) -> float:
    """Halve the interval that holds the fewest rows, but more than one."""
    points = sorted(seen)
    if len(points) < 2:
        return points[0] + 0.25 if points else float(logit(np.clip(share, 0.03, 0.97)))
    rows = [(round(float(seen[low][2] - seen[high][2])), low, high) for low, high in pairwise(points)]
    several = [each for each in rows if each[0] > 1]
    return (min(several)[1] + min(several)[2]) / 2.0 if several else points[-1] + 0.02


def fixed_by_calibration(sites: dict[str, SiteColumns], plan: Plan, width: float) -> tuple[int, int]:
    """How many of the others' scores all sums of calibration together fix to a width in log-odds, and of how many.

    For the first site, of the last group, where labels and folds of the others' rows were known and only scores not:
    the posterior deviation from a prior of deviation 1, with the sums linear in the scores and as precise as they are.
    """
    batch, server, group = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), len(plan.groups)
    rows, points = batch.preparation.folded, []
    while not isinstance(server.request, TotalsRequest):
        if isinstance(server.request, CurvatureRequest):
            points.append(server.request)
        batch, replies = batch.answer(server.request)
        server = server.take(replies.total())
    others = [(each.sample.groups.codes == group - 1) & (each.sample.sites.codes > 0) for each in rows]
    scores, labels, fold = (
        np.concatenate([column[own] for column, own in zip(columns, others, strict=True)])
        for columns in zip(*((each.sample.scores, each.sample.labels, each.fold) for each in rows), strict=True)
    )
    tells = []
    for request in points:
        for fit in np.flatnonzero(request.live[:, group] & (request.places[group - 1] >= 0)):
            at, small = request.at[:, fit, group], 1e-5
            odds = logit(scores)
            change = _of_each(odds + small, labels, at, plan) - _of_each(odds - small, labels, at, plan)
            tells.append(change / (2.0 * small) * (fold != fit))
    if not tells:
        return 0, scores.size
    _, strength, directions = np.linalg.svd(np.concatenate(tells) / 2.0**-20, full_matrices=False)
    known = (directions.T * (strength**2 / (1.0 + strength**2))) @ directions
    return int(np.sum(1.0 - np.diag(known) < width**2)), scores.size


def _of_each(odds: Floats, labels: Floats, at: Floats, plan: Plan) -> Floats:
    """What each row adds to loss, gradient and Hessian at some parameters."""
    family = FAMILIES[plan.calibration]
    features = np.stack([*family.features(expit(odds)), *([np.ones_like(odds)] * family.intercept)])
    margin = at @ features
    chance = expit(margin)
    bend = (features[:, None] * features * (chance * (1.0 - chance)))[np.triu_indices(len(features))]
    return np.concatenate([(np.logaddexp(0.0, margin) - labels * margin)[None], features * (chance - labels), bend])


def attacked_bins(sites: dict[str, SiteColumns], plan: Plan, allies: tuple[int, ...] = (0,)) -> int:
    """How many of the others' rows lie alone in a bin of the last histogram of pooling."""
    batch, server, alone = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), 0
    while not isinstance(server.request, PublishRequest):
        batch, replies = batch.answer(server.request)
        total = replies.total()
        if isinstance(total, PriorSums) and isinstance(replies, PriorSums):
            others = total.mass - replies.mass[list(allies)].sum(axis=0)
            alone = int(np.sum(np.isclose(others, 1.0, atol=1e-6)))
        server = server.take(total)
    return alone


def _print_cuts(seed: int) -> None:
    click.echo("| rows per site | calibration | sums | prices | at most | numbers | who looks | to 0.1 | to 0.01 |")
    click.echo("|---|---|---|---|---|---|---|---|---|")
    for rows in (30, 300, 3000):
        for calibration in ("none", "beta"):
            for who, lookers in (("one site", ((0,), (1,), (2,))), ("two together", ((0, 1), (0, 2), (1, 2)))):
                plan = make_plan(groups=[0, 1], global_tolerance=0.02, calibration=calibration, secure=True)
                sites = generated(rows, np.random.default_rng(seed))
                seen = max((attacked(sites, plan, allies) for allies in lookers), key=lambda each: each.alone(0.1))
                exchanged = f"{seen.sums} | {seen.prices} | {plan.most_prices} | {seen.numbers}"
                known = f"{seen.alone(0.1)} of {(3 - len(lookers[0])) * rows} | {seen.alone(0.01)}"
                click.echo(f"| {rows} | {calibration} | {exchanged} | {who} | {known} |")


def _print_folds(seed: int) -> None:
    click.echo("| rows of the small group per site | before: the server reads | one site reads | now | now |")
    click.echo("|---|---|---|---|---|")
    for small in (6, 8, 10, 30, 100, 300):
        sites, words = with_small_group(400, small, np.random.default_rng(seed)), []
        for secure in (False, True):
            plan = make_plan(groups=[0, 1], pooling="none", secure=secure)
            with nullcontext() if secure else sums_of_few_rows():
                for lookers in (((),), ((0,), (1,), (2,))):
                    known, of = max(attacked_folds(sites, plan, allies) for allies in lookers)
                    words.append(f"{known} of {of}")
        click.echo(f"| {small} | {' | '.join(words)} |")
    sites, plan = with_small_group(400, 15, np.random.default_rng(9)), make_plan(groups=[0, 1], secure=True)
    with counted_folds():
        before, of = attacked_folds(sites, plan, (2,), claimed=500.0)
    now, _ = attacked_folds(sites, plan, (2,), claimed=500.0)
    click.echo(f"15 rows per site, of which one claims 500 more: it read {before} of the others' {of}; now {now}.")


@click.command()
@click.option("--seed", default=0, show_default=True, help="Of the generated rows.")
def main(seed: int) -> None:
    """Print what the server, and the sites of a roster of three, know of the others' rows after a usual run."""
    _print_cuts(seed)
    _print_folds(seed)
    large, plan = generated(1000, np.random.default_rng(seed)), make_plan(groups=[0, 1], secure=True)
    with mock.patch("logofair.federation.exchanges.calibrating.MOST_ROUNDS", 60):
        before, of = attacked_points(large, plan)
    now, _ = attacked_points(large, plan)
    click.echo(f"1000 rows per site, points of calibration by lies: in 60 rounds {before} of {of} scores, in 10 {now}.")
    few = with_small_group(400, 170, np.random.default_rng(seed))
    for method in ("beta", "platt", "temperature"):
        plan = make_plan(groups=[0, 1], secure=True, calibration=method)
        close, of = fixed_by_calibration(few, plan, 0.1)
        exactly, _ = fixed_by_calibration(few, plan, 0.01)
        click.echo(
            f"170 rows per site, all sums of {method}: {close} of {of} scores to 0.1 in log-odds, {exactly} to 0.01."
        )
    sites = generated(300, np.random.default_rng(seed))
    free = {"groups": [0, 1], "global_tolerance": 0.02, "calibration": "none", "secure": True}
    many = attacked(sites, make_plan(**free, trials=10_000))  # type: ignore[arg-type]
    usual, long = make_plan(**free), make_plan(**free, rounds=60)  # type: ignore[arg-type]
    for plan in (usual, long):
        lied = attacked(sites, plan, lies=np.random.default_rng(seed))
        read = (
            f"{lied.prices} prices in {plan.rounds} rounds, {lied.alone(0.1)} scores to 0.1, {lied.alone(0.01)} to 0.01"
        )
        click.echo(f"300 rows per site, one lies in its answers: {read}.")
    crossing = attacked_steps(sites, slow_steps(500))
    merged = make_plan(groups=[0, 1], calibration="none", pooling="full")
    alone = max(attacked_bins(sites, merged, (site,)) for site in range(3))
    click.echo(f"300 rows per site, pooling, which secure sums refuse: {alone} rows are alone in their bin.")
    click.echo(f"300 rows per site, 10,000 prices in a message: one site knows {many.alone(0.1)} scores to 0.1.")
    click.echo(f"300 rows per site, 500 short steps of Algorithm 1: it sees {crossing} rows cross a cut alone.")


if __name__ == "__main__":
    main()
