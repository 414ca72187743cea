"""What a client remembers of a run: state in, state out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from logofair.calibration.levels import GroupMaps
from logofair.columns.checks import Floats
from logofair.federation.messages import (
    Model,
)
from logofair.federation.plan import Plan
from logofair.federation.privacy.release import Release
from logofair.federation.wire import carried
from logofair.policy.mixtures import Mixtures


@carried
@dataclass(frozen=True, eq=False)
class ClientState:
    """A client's side of a run; where several clients share a process, the axes named ``clients`` count them.

    Answers are stored before they are sent: the final policy mixes the very ones the server has counted.
    """

    plan: Plan
    sites: tuple[str, ...]
    roster: int = 0
    model: Model | None = None
    maps: GroupMaps | None = None
    releases: tuple[Release, ...] = ()
    mass: Floats | None = None  # of the roster, (groups,)
    positives: Floats | None = None
    prices: Floats | None = None  # (answers, groups, global rates)
    u: Floats | None = None  # (answers, clients, groups)
    v: Floats | None = None
    own: Floats | None = None  # Algorithm 1: the clients' own multipliers, (clients, pairs, local rates)
    steps: int = 0  # Algorithm 1: rounds taken
    rules: Mixtures | None = None
    broken: bool = False  # whether these rules exceed a local tolerance
    result: dict[str, Any] | None = None

    def opened(self, roster: int) -> ClientState:
        """The memory when a new roster begins: its totals, answers and steps are void."""
        return replace(
            self,
            roster=roster,
            mass=None,
            positives=None,
            prices=None,
            u=None,
            v=None,
            own=None,
            steps=0,
            rules=None,
            broken=False,
            result=None,
        )

    def answered(self, prices: Floats, u: Floats, v: Floats) -> ClientState:
        """The memory with more answers."""
        if self.prices is None or self.u is None or self.v is None:
            return replace(self, prices=prices, u=u, v=v)
        return replace(
            self,
            prices=np.concatenate([self.prices, prices]),
            u=np.concatenate([self.u, u]),
            v=np.concatenate([self.v, v]),
        )

    def find(self, prices: Floats) -> int | None:
        """Number of the stored answer to the very same prices, if there is one."""
        if self.prices is None:
            return None
        same = np.flatnonzero((self.prices == prices).reshape(len(self.prices), -1).all(axis=1))
        return int(same[0]) if same.size else None
