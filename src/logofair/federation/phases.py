"""The server's side, phase by phase: each asks one thing of all clients and takes the total of their replies.

A phase is a frozen value that can travel (:mod:`logofair.federation.wire`), so that a server can be stored after every
exchange and resumed to the bit. ``take`` returns the next phase. When clients are lost, ``without`` says how to go on:
totals that do not depend on who else takes part are simply taken from those who remain; the answers of a roster are
void with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from logofair.calibration.levels import GroupMaps, Levels
from logofair.calibration.newton import Descent, Normal
from logofair.federation import messages as ask
from logofair.federation import sums as told
from logofair.federation.messages import Model, Request
from logofair.federation.plan import Plan
from logofair.federation.pricing import Pricing
from logofair.federation.settlement import Phase, Standing
from logofair.federation.stepping import Steepening, Stepping
from logofair.federation.wire import carried
from logofair.inputs import Floats

__all__ = ["Averaging", "Calibrating", "Measuring", "Totalling", "first_phase"]

for kind in (Levels, Descent, Normal):
    carried(kind)

# A feature that never varies must not be divided by zero.
_LEAST_SPREAD = 1e-9


def first_phase(plan: Plan) -> Phase:
    """Where a run begins."""
    return Measuring() if plan.training is not None else after_training(plan, None)


def after_training(plan: Plan, model: Model | None, prices: Floats | None = None) -> Phase:
    """Calibration where the plan has one, else the totals; ``prices`` are worth asking once these are known."""
    if plan.calibration == "none":
        return Totalling(None, model, prices)
    levels = Levels.start(plan.calibration, n_groups=len(plan.groups), folds=plan.folds, **_precision(plan))
    return Calibrating(levels, model, prices)


def _precision(plan: Plan) -> dict[str, float]:
    # Sums of limited precision cannot show progress below it.
    return {"slack": 1e-3, "promise": 1e-4} if plan.secure else {}


@carried
@dataclass(frozen=True, eq=False)
class Measuring:
    """How features are spread, so that all sites scale them alike."""

    name = "training"

    @property
    def request(self) -> Request:
        """Ask for sums and sums of squares."""
        return ask.AskMoments()

    def take(self, total: told.Moments, plan: Plan, clients: int) -> Phase:
        """Scale by mean and standard deviation, and start from the zero model."""
        mean = total.first / total.mass
        spread = np.sqrt(np.maximum(total.second / total.mass - mean**2, 0.0))
        spread = np.where(spread > _LEAST_SPREAD, spread, 1.0)
        return Averaging(Model(mean, spread, np.zeros(mean.size + 1)), 1)

    def without(self, plan: Plan) -> Phase | None:
        """Sums of those who remain."""
        return None


@carried
@dataclass(frozen=True, eq=False)
class Averaging:
    """One round of federated averaging (McMahan et al., 2017)."""

    model: Model
    round: int
    name = "training"

    @property
    def request(self) -> Request:
        """Ask for local steps."""
        return ask.AskUpdate(self.model, self.round)

    def take(self, total: told.Update, plan: Plan, clients: int) -> Phase:
        """Average with the numbers of rows as weights."""
        model = replace(self.model, parameters=total.parameters / total.mass)
        assert plan.training is not None
        return Averaging(model, self.round + 1) if self.round < plan.training.rounds else after_training(plan, model)

    def without(self, plan: Plan) -> Phase | None:
        """Averaging goes on with those who remain."""
        return None


@carried
@dataclass(frozen=True, eq=False)
class Calibrating:
    """The calibrators of all rows and of the groups, by Newton's method on additive sums."""

    levels: Levels
    model: Model | None
    prices: Floats | None = None  # worth asking later, from a roster before this one
    name = "calibration"

    @property
    def request(self) -> Request:
        """Ask for loss, gradient and Hessian, and in the first round for counts."""
        points = self.levels.ask
        if self.levels.counts is None:
            return ask.AskCounts(points.at, points.live, self.model)
        return ask.AskCurvature(points.at, points.live)

    def take(self, total: told.Counts | told.Curvature, plan: Plan, clients: int) -> Phase:
        """One Newton step."""
        levels = self.levels.count(total.counts) if isinstance(total, told.Counts) else self.levels
        levels = levels.take(total.sums)
        if levels.done:
            return Totalling(levels.published, self.model, self.prices, model_known=True)
        return replace(self, levels=levels)

    def without(self, plan: Plan) -> Phase | None:
        """The loss of other rows: begin again, unless this is the beginning."""
        return None if self.levels.counts is None else after_training(plan, self.model, self.prices)


@carried
@dataclass(frozen=True, eq=False)
class Totalling:
    """Rows and expected positives of the roster; ``prices`` were asked of a roster before this one."""

    maps: GroupMaps | None
    model: Model | None
    prices: Floats | None = None
    model_known: bool = False  # whether the clients have the model already
    name = "totals"

    @property
    def request(self) -> Request:
        """Ask for rows and expected positives per group."""
        return ask.AskTotals(self.maps, None if self.model_known else self.model)

    def take(self, total: told.Totals, plan: Plan, clients: int) -> Phase:
        """Begin with prices, or with Algorithm 1."""
        standing = Standing(total.mass, total.positives, clients, self)
        if plan.solver is None:
            return Pricing.start(standing, plan)
        if plan.solver.step is None:
            return Steepening(standing)
        return Stepping.start(standing, plan, float(plan.solver.step), clients)

    def without(self, plan: Plan) -> Phase | None:
        """Totals of those who remain; where calibrators hold the lost rows too, these are fitted again first."""
        return None if self.maps is None else self.again(plan, self.prices)

    def again(self, plan: Plan, prices: Floats | None) -> Phase:
        """Where a new roster begins."""
        return after_training(plan, self.model, prices)
