"""``python -m benchmarks.totals``: what the totals of a run with secure sums tell one site of three about the others.

Every site recomputes all totals, so in a roster of three each sees the sums of the other two together. Without a local
tolerance the answer to a price cuts the scores of each group at a value that everybody can compute, so that the totals
are points of the distribution of the others' scores: between two neighbouring cuts lies a known number of their rows.
Where it is one, that row's score is known to within the distance of the cuts, though not whose of the two it is; two
sites that talk to each other know that of the third. The rows here are generated. A local tolerance moves every site's
cuts by prices of its own, so that nobody else knows them. A plan with more prices in a message has more cuts, and
Algorithm 1 has one in every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import click
import numpy as np

from logofair.columns.checks import Floats
from logofair.federation import ClientBatch, Plan, Server, SiteColumns, make_plan
from logofair.federation.replies import Answers, Steps
from logofair.federation.requests import AnswersRequest, PublishRequest, StepsRequest
from logofair.solvers.algorithm1 import Algorithm1

_SITES = ("a", "b", "c")


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
        sites[site] = SiteColumns(group, rng.beta(1.0 + 0.7 * group, 2.0))
    return sites


def slow_steps(rounds: int) -> Plan:
    """A plan of Algorithm 1 whose cuts move by little in every round."""
    solver = Algorithm1(rounds=rounds, local_steps=1, sharpness=1e9, step=0.01)
    return make_plan(
        groups=[0, 1], local_tolerance=None, global_tolerance=0.0, calibration="none", pooling="none", secure=True,
        solver=solver,
    )  # fmt: skip


def attacked(sites: dict[str, SiteColumns], plan: Plan, allies: int = 1) -> Seen:
    """What the first sites read off a run's totals; for selection rates without local tolerance or calibration."""
    batch, server, sums, numbers = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), 0, 0
    cuts: list[tuple[Floats, Floats]] = []
    while not isinstance(server.request, PublishRequest):
        request = server.request
        batch, replies = batch.answer(request)
        total = replies.combined()
        sums, numbers = sums + 1, numbers + total.vector().size
        if isinstance(request, AnswersRequest) and isinstance(replies, Answers) and isinstance(total, Answers):
            for number, prices in enumerate(request.prices):
                gain_u, gain_v = batch.problem.priced_gain(prices)
                own = replies.shares[:allies, number].sum(axis=0)
                others = (total.shares[number] - own)[:, 0] * request.mass
                cuts.append((-gain_u[0] / gain_v[0], np.rint(others)))
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
        server = server.take(replies.combined())
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


@click.command()
@click.option("--seed", default=0, show_default=True, help="Of the generated rows.")
def main(seed: int) -> None:
    """Print what a site of three knows of the others after a usual run, and what two of them know of the third."""
    click.echo(
        "| rows per site | sums | price vectors | at most | numbers | who looks | scores known to 0.1 | to 0.01 |"
    )
    click.echo("|---|---|---|---|---|---|---|---|")
    for rows in (30, 300, 3000):
        for allies, who in ((1, "one site"), (2, "two together")):
            plan = make_plan(groups=[0, 1], local_tolerance=None, calibration="none", pooling="none", secure=True)
            seen = attacked(generated(rows, np.random.default_rng(seed)), plan, allies)
            exchanged = f"{seen.sums} | {seen.prices} | {plan.most_prices} | {seen.numbers}"
            known = f"{seen.alone(0.1)} of {(3 - allies) * rows} | {seen.alone(0.01)}"
            click.echo(f"| {rows} | {exchanged} | {who} | {known} |")
    sites = generated(300, np.random.default_rng(seed))
    free = {"groups": [0, 1], "local_tolerance": None, "calibration": "none", "pooling": "none", "secure": True}
    many = attacked(sites, make_plan(**free, trials=10_000))  # type: ignore[arg-type]
    crossing = attacked_steps(sites, slow_steps(500))
    click.echo(f"300 rows per site, 10,000 prices in a message: one site knows {many.alone(0.1)} scores to 0.1.")
    click.echo(f"300 rows per site, 500 short steps of Algorithm 1: it sees {crossing} rows cross a cut alone.")


if __name__ == "__main__":
    main()
