"""The server of secure sums: collects what sites answer, says what to send next, and learns totals only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import InputError, SumError
from logofair.federation.secure.messages import Confirmed, Contributed, Keys, Masked, Material, Relay, Roster, Unmasked

_Message = TypeVar("_Message")


@dataclass(frozen=True)
class SecureServer:
    """State of the server.

    First ``start``, ``collect_keys``, ``collect_shares``; then for every sum ``begin_sum``, ``collect_masked``,
    ``collect_confirmed``, ``collect_unmasked``. Every ``collect`` takes the replies that came, by site; a reply of the
    wrong form counts as none. Where too few came it raises :class:`SumError` and the state stays: ask the missing
    sites again (the same request gets the same reply) and collect all replies together.
    """

    roster: Roster
    stage: str = "keys"  # whose replies are awaited: keys, shares, masked, confirm, unmask; "ready" for the next sum
    number: int = 0  # of the sum begun last
    keys: dict[str, Keys] = field(default_factory=dict, repr=False)  # to be sent to every site in it, for its shares
    materials: dict[str, Material] = field(default_factory=dict, repr=False)  # of the sum, of the next one when ready
    request: bytes = b""  # digest of the request of the sum under way
    steps: tuple[float, ...] = field(default=(), repr=False)
    contributions: dict[str, Contributed] = field(default_factory=dict, repr=False)  # to the sum under way
    upcoming: dict[str, Material] = field(default_factory=dict, repr=False)  # dealt by its contributors for the next
    confirmed: dict[str, bytes] = field(default_factory=dict, repr=False)  # to be sent to each, for its ``unmask``
    totals: tuple[float, ...] | None = field(default=None, repr=False)  # the last total
    relay: Relay | None = field(default=None, repr=False)  # to be sent to every site: what it is recomputed from

    @classmethod
    def start(cls, run: str, roster: Iterable[str], number: int = 1) -> SecureServer:
        """Begin a run with its first roster, or a later roster of the run under the next number."""
        return cls(Roster.of(run, roster, number))

    @property
    def participants(self) -> tuple[str, ...]:
        """Sites of the sum under way, or of the next one: those whose material for it arrived."""
        return tuple(sorted(self.materials))

    @property
    def missing(self) -> tuple[str, ...]:
        """Sites of the roster that take part no more."""
        left = {"keys": self.roster.sites, "shares": tuple(self.keys)}
        left |= dict.fromkeys(("confirm", "unmask"), self.contributors)
        return tuple(site for site in self.roster.sites if site not in left.get(self.stage, self.participants))

    @property
    def contributors(self) -> tuple[str, ...]:
        """Whose total the sum under way will be, or the last one was."""
        return tuple(sorted(self.contributions))

    @property
    def fingerprints(self) -> dict[str, bytes]:
        """To be sent to every contributor, for its ``confirm``: what stands for each contribution."""
        return {site: each.fingerprint for site, each in self.contributions.items()}

    @property
    def deliveries(self) -> dict[str, dict[str, bytes]]:
        """To be sent to each participant with the request: by peer, what the peer dealt to it."""
        self._expect("masked")
        names = self.participants
        return {to: {one: self.materials[one].delivered(to) for one in names if one != to} for to in names}

    @property
    def total(self) -> Floats:
        """The last total, float64, right to half a step times the number of contributors."""
        if self.totals is None:
            raise InputError("total: no sum is complete yet; collect the shares of one first.")
        return np.array(self.totals)

    def collect_keys(self, replies: Mapping[str, Keys]) -> SecureServer:
        """Take the sites' signed keys."""
        self._expect("keys")
        formed = {site: reply for site, reply in replies.items() if isinstance(reply, Keys) and reply.well_formed(site)}
        keys = self._enough(formed, self.roster.sites)
        return replace(self, stage="shares", keys=keys)

    def collect_shares(self, replies: Mapping[str, Material]) -> SecureServer:
        """Take what the sites dealt for the first sum."""
        self._expect("shares")
        formed = {
            site: reply
            for site, reply in replies.items()
            if isinstance(reply, Material) and reply.well_formed(site, 1, set(self.keys) - {site})
        }
        materials = self._enough(formed, self.keys)
        return replace(self, stage="ready", materials=materials)

    def begin_sum(self, request: bytes, steps: Floats) -> SecureServer:
        """Begin the next sum, of answers to the request with this digest."""
        self._expect("ready")
        precise = tuple(steps.tolist())
        begun = replace(self, stage="masked", number=self.number + 1, request=request, steps=precise)
        return replace(begun, contributions={}, totals=None)

    def collect_masked(self, replies: Mapping[str, Masked]) -> SecureServer:
        """Take the masked contributions; from here on the sum is that of ``contributors``."""
        self._expect("masked")
        length, names = len(self.steps) + 1, set(self.participants)
        formed = {
            site: reply
            for site, reply in replies.items()
            if isinstance(reply, Masked) and reply.well_formed(site, self.number, length, names - {site})
        }
        good = self._enough(formed, self.participants)
        return replace(
            self,
            stage="confirm",
            contributions={site: reply.contribution for site, reply in good.items()},
            upcoming={site: reply.material for site, reply in good.items()},
        )

    def collect_confirmed(self, replies: Mapping[str, Confirmed]) -> SecureServer:
        """Take the contributors' signatures of the list of contributions."""
        self._expect("confirm")
        formed = {
            site: reply.signature
            for site, reply in replies.items()
            if isinstance(reply, Confirmed) and reply.well_formed(site, self.number)
        }
        confirmed = self._enough(formed, self.contributors, needed=self.roster.threshold)
        return replace(self, stage="unmask", confirmed=confirmed)

    def collect_unmasked(self, replies: Mapping[str, Unmasked]) -> SecureServer:
        """Take the shares and form the total."""
        self._expect("unmask")
        gone = set(self.participants) - set(self.contributors)
        formed = {
            site: reply
            for site, reply in replies.items()
            if isinstance(reply, Unmasked) and reply.well_formed(site, self.number, self.contributors, gone)
        }
        shares = self._enough(formed, self.confirmed, needed=self.roster.threshold)
        steps = np.array(self.steps)
        digest = self.roster.sum_digest(self.number, self.request, steps, self.participants)
        relay = Relay.of(self.roster, self.contributions, shares)
        total = relay.total(digest, steps, {site: each.mask_key for site, each in self.materials.items()})
        return replace(
            self,
            stage="ready",
            materials=self.upcoming,
            upcoming={},
            confirmed={},
            totals=tuple(total.tolist()),
            relay=relay,
        )

    def _enough(
        self, good: Mapping[str, _Message], sites: Iterable[str], needed: int | None = None
    ) -> dict[str, _Message]:
        """The replies of these sites, if there are enough."""
        replies = {site: good[site] for site in sorted(sites) if site in good}
        needed = self.roster.fewest if needed is None else needed
        if len(replies) < needed:
            raise SumError(
                f"{self.stage}: {len(replies)} of {len(self.roster.sites)} sites answered usably, {needed} are needed; "
                "ask again those that are missing, or start a run without them."
            )
        return replies

    def _expect(self, stage: str) -> None:
        if self.stage != stage:
            raise InputError(f"secure sums: the server is at stage {self.stage!r}, not {stage!r}; keep to the order.")
