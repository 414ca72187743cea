"""What a client keeps between messages: its place in the run, its last reply, and what its answers depend on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from logofair.calibration.levels import GroupMaps
from logofair.columns.checks import Floats
from logofair.federation.plan import Plan
from logofair.federation.privacy import Release
from logofair.federation.replies import ReplyMessage
from logofair.federation.requests import Model
from logofair.federation.wire import wire_type
from logofair.policy.mixtures import Mixtures

__all__ = ["ClientState", "StoredClient"]


for kind in (Mixtures, Release):
    wire_type(kind)


@wire_type
@dataclass(frozen=True, eq=False)
class ClientState:
    """A client's side of a run; where several clients are in one process, the axes named ``clients`` count them.

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
    local_multipliers: Floats | None = None  # Algorithm 1: (clients, pairs, local rates)
    steps: int = 0  # Algorithm 1: rounds taken
    rules: Mixtures | None = None
    exceeding: bool = False  # whether these rules exceed a local tolerance
    result: dict[str, Any] | None = None

    def opened(self, roster: int) -> ClientState:
        """The state when a new roster begins: totals, answers and steps of the last one are void."""
        return ClientState(self.plan, self.sites, roster, self.model, self.maps, self.releases)

    def answered(self, prices: Floats, u: Floats, v: Floats) -> ClientState:
        """The state with more answers."""
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


@wire_type
@dataclass(frozen=True, eq=False)
class StoredClient:
    """All that a client must find again after its process ended; it may hold secrets. Store it before a reply is sent.

    ``run``, ``roster``, ``number`` and ``step`` are those of the last message, ``digest`` its fingerprint and ``reply``
    what was replied to it.
    """

    run: str = ""
    roster: int = 0
    opened: int = 0  # number of the message that began the roster
    number: int = 0
    step: str = ""
    digest: bytes = b""
    reply: ReplyMessage | None = None
    state: ClientState | None = None
    masks: bytes = b""  # the state of secure sums, where they are used
    history: bytes = b""  # fingerprint of all requests of this roster
