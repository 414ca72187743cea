"""One site of a secure sum: a frozen state, and for each stage a function to the next state and the message."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from logofair.columns.checks import Floats
from logofair.errors import GarbledTotalError, SecureRefusalError
from logofair.federation.secure.messages import (
    DELIVERED_SIZE,
    PAIR_SIZE,
    Confirmed,
    Contributed,
    Keys,
    Masked,
    Material,
    Relay,
    Roster,
    Unmasked,
    is_blobs,
    list_statement,
    seed_commitment,
)
from logofair.federation.secure.primitives import (
    KEY_SIZE,
    NONCE_SIZE,
    SHARE_SIZE,
    RandomBytes,
    SecureRefusal,
    SigningKey,
    agreed_key,
    check_signature,
    context,
    encoded,
    pair_mask,
    public_half,
    public_key,
    random_words,
    seal,
    self_mask,
    signature,
    split,
    unseal,
)


@dataclass(frozen=True)
class DealtSecrets:
    """What a site keeps of its secrets for one sum (all but ``material`` is secret)."""

    mask_key: bytes = field(repr=False)
    mask_seed: bytes = field(repr=False)
    own_pair: bytes = field(repr=False)
    material: Material


def deal(roster: Roster, site: str, number: int, channels: Mapping[str, bytes], random: RandomBytes) -> DealtSecrets:
    """Make fresh secrets for a sum and seal their shares to every peer that has a channel."""
    mask_key, mask_seed = random(KEY_SIZE), random(KEY_SIZE)
    shares = [split(secret, roster.threshold, len(roster.sites), random) for secret in (mask_key, mask_seed)]
    pairs = {name: first + second for name, first, second in zip(roster.sites, *shares, strict=True)}
    public = public_half(mask_key)
    sealed = {
        peer: seal(key, random(NONCE_SIZE), pairs[peer], _place(roster, number, site, peer, public))
        for peer, key in channels.items()
    }
    return DealtSecrets(mask_key, mask_seed, pairs[site], Material(site, number, public, sealed))


def opened(
    roster: Roster, site: str, number: int, channels: Mapping[str, bytes], incoming: Mapping[str, bytes]
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the mask key of each peer and the pair of shares it dealt to this site, or refuse."""
    if not is_blobs(incoming, incoming, DELIVERED_SIZE):
        raise SecureRefusalError(SecureRefusal.BAD_SEAL)
    mask_keys, pairs = {}, {}
    for peer, delivered in incoming.items():
        mask_keys[peer], sealed = delivered[:KEY_SIZE], delivered[KEY_SIZE:]
        pairs[peer] = unseal(channels[peer], sealed, _place(roster, number, peer, site, mask_keys[peer]))
        if len(pairs[peer]) != PAIR_SIZE:
            raise SecureRefusalError(SecureRefusal.BAD_SEAL)
    return mask_keys, pairs


def _place(roster: Roster, number: int, sender: str, receiver: str, mask_key: bytes) -> bytes:
    """What a seal is bound to: it opens for this sum, direction and mask key only."""
    return context("shares", roster.digest, number, sender, receiver, mask_key)


@dataclass(frozen=True)
class Contribution:
    """What a site keeps of the sum it contributed to last (``held`` is secret)."""

    digest: bytes
    mask_keys: dict[str, bytes] = field(repr=False)  # public ones of all participants
    held: dict[str, bytes] = field(repr=False)
    message: Masked
    listed: dict[str, bytes] | None = field(default=None, repr=False)  # contributions, once a list was confirmed
    confirmed: Confirmed | None = None
    unmasked: Unmasked | None = None
    contributors: tuple[str, ...] | None = None  # once known from a list or from what was passed on

    @property
    def participants(self) -> tuple[str, ...]:
        """Who could contribute."""
        return tuple(sorted(self.mask_keys))


@dataclass(frozen=True)
class SecureClient:
    """State of one site. **It holds secrets**: store it where only the site can read it, and never send it.

    Save a new state *before* its message leaves: a site that answers twice from one state could answer two requests,
    and the difference of two replies is what the masks hide. Where a state of the run exists, go on from it; for
    another roster of the same run call :meth:`again`, never :meth:`start`.
    """

    site: str
    roster: Roster
    peers: dict[str, str] = field(repr=False)  # long-term public keys, from outside the protocol
    agreed_without: tuple[str, ...]
    channel: bytes = field(repr=False)  # private key of the run (secret)
    keys: Keys
    heard: dict[str, bytes] | None = field(default=None, repr=False)  # whose keys were taken
    channels: dict[str, bytes] = field(default_factory=dict, repr=False)  # keys shared with each peer (secret)
    dealt: DealtSecrets | None = field(default=None, repr=False)  # for the next sum (secret)
    number: int = 0  # sums contributed to
    last: Contribution | None = None
    first_contributors: tuple[str, ...] | None = None  # none of them may later be missing without agreement

    @classmethod
    def start(
        cls,
        run: str,
        site: str,
        roster: Iterable[str],
        signing_key: SigningKey,
        peers: Mapping[str, str],
        agreed_without: Iterable[str] = (),
        *,
        number: int = 1,
        first_contributors: Iterable[str] = (),
        random: RandomBytes = os.urandom,
    ) -> tuple[SecureClient, Keys]:
        """Join a run: make a key for it and sign it (first exchange).

        Pass ``first_contributors`` of an earlier run's state where this run is about the same data: two runs that
        differ by one site tell that site's numbers as two rosters of one run do.
        """
        sites = Roster.of(run, roster, number)
        if site not in sites.sites or not set(sites.sites) <= {site, *peers}:
            raise SecureRefusalError(SecureRefusal.UNKNOWN_SITE)
        channel = random(KEY_SIZE)
        public = public_half(channel)
        keys = Keys(site, public, signature(signing_key, _transcript(sites, site, public)))
        known = {name: public_key(peers[name].encode(), f"key of {name}") for name in sites.sites if name != site}
        agreed, before = (tuple(sorted(set(some))) for some in (agreed_without, first_contributors))
        state = cls(site, sites, known, agreed, channel, keys, first_contributors=before or None)
        state._check_agreed(sites.sites, before)
        return state, keys

    def again(
        self,
        roster: Iterable[str],
        signing_key: SigningKey,
        *,
        number: int | None = None,
        random: RandomBytes = os.urandom,
    ) -> tuple[SecureClient, Keys]:
        """Join a later roster of the same run with new keys; sites may leave by agreement, none may join."""
        sites = set(roster)
        if not sites <= set(self.roster.sites):
            raise SecureRefusalError(SecureRefusal.UNKNOWN_SITE)
        if self.site not in sites:
            raise SecureRefusalError(SecureRefusal.LEFT_OUT)
        self._check_agreed(sites, self.roster.sites)
        took_part = self.last.participants if self.last is not None else ()
        return SecureClient.start(
            self.roster.run,
            self.site,
            sites,
            signing_key,
            self.peers,
            self.agreed_without,
            number=self.roster.number + 1 if number is None else number,
            first_contributors=self.first_contributors or took_part,
            random=random,
        )

    def agree(self, without: Iterable[str]) -> SecureClient:
        """Agree, by name, to go on without further sites (a person's decision)."""
        return replace(self, agreed_without=tuple(sorted({*self.agreed_without, *without})))

    def shares(self, keys: Mapping[str, Keys], *, random: RandomBytes = os.urandom) -> tuple[SecureClient, Material]:
        """Check everybody's keys and deal the secrets of the first sum (second exchange)."""
        if self.dealt is not None:  # the first answer once more, if the keys are the same and no sum has begun
            if self.number > 0:
                raise SecureRefusalError(SecureRefusal.OUT_OF_ORDER)
            if self.heard != {name: getattr(message, "channel", None) for name, message in keys.items()}:
                raise SecureRefusalError(SecureRefusal.OTHER_REQUEST)
            return self, self.dealt.material
        self.roster.check_enough(keys)
        if self.site not in keys:
            raise SecureRefusalError(SecureRefusal.LEFT_OUT)
        for name, message in keys.items():
            if not isinstance(message, Keys) or not message.well_formed(name):
                raise SecureRefusalError(SecureRefusal.BAD_KEY)
            if name != self.site:
                check_signature(self.peers[name], _transcript(self.roster, name, message.channel), message.signature)
            elif message != self.keys:  # exchanged on the way
                raise SecureRefusalError(SecureRefusal.BAD_KEY)
        heard = {name: message.channel for name, message in keys.items()}
        channels = {
            name: agreed_key(self.channel, public, context("channel", self.roster.digest, *sorted((self.site, name))))
            for name, public in heard.items()
            if name != self.site
        }
        dealt = deal(self.roster, self.site, 1, channels, random)
        return replace(self, heard=heard, channels=channels, dealt=dealt), dealt.material

    def masked(
        self,
        number: int,
        request: bytes,
        incoming: Mapping[str, bytes],
        values: Floats | None,
        steps: Floats,
        signing_key: SigningKey,
        *,
        random: RandomBytes = os.urandom,
    ) -> tuple[SecureClient, Masked]:
        """Contribute to sum ``number``, the answer to ``request``, and deal the secrets of the next sum.

        Without ``values``, at a site that has none to give, every word is random, that which counts contributors too:
        the total is then garbled, and tells nothing of those who did answer.
        """
        participants = tuple(sorted({*incoming, self.site}))
        digest = self.roster.sum_digest(number, request, steps, participants)
        if self.last is not None and number == self.number:
            if digest != self.last.digest:
                raise SecureRefusalError(SecureRefusal.OTHER_REQUEST)
            return self, self.last.message
        if self.dealt is None or number != self.number + 1:
            raise SecureRefusalError(SecureRefusal.OUT_OF_ORDER)
        self._check_participants(participants)
        mask_keys, held = opened(self.roster, self.site, number, self.channels, incoming)
        words = (
            random_words(steps.size + 1, random) if values is None else encoded(values, steps, len(self.roster.sites))
        )
        words = words + self_mask(self.dealt.mask_seed, digest, words.size)
        words = words + pair_mask(self.dealt.mask_key, mask_keys, self.site, digest, words.size)
        channels = {name: key for name, key in self.channels.items() if name in held}
        dealt = deal(self.roster, self.site, number + 1, channels, random)
        own_key = self.dealt.material.mask_key
        given = Contributed(
            self.site, number, words.astype("<u8").tobytes(), seed_commitment(self.dealt.mask_seed), b""
        )
        signed = signature(signing_key, given.statement(digest, own_key))
        message = Masked(self.site, number, given.vector, given.commitment, signed, dealt.material)
        mask_keys, held = {**mask_keys, self.site: own_key}, {**held, self.site: self.dealt.own_pair}
        # A site that did not confirm the first list learns from the second sum who was in the first.
        first_contributors = self.first_contributors if number == 1 else self.first_contributors or participants
        state = replace(
            self,
            number=number,
            channels=channels,
            dealt=dealt,
            last=Contribution(digest, mask_keys, held, message),
            first_contributors=first_contributors,
        )
        return state, message

    def confirm(
        self, number: int, fingerprints: Mapping[str, bytes], signing_key: SigningKey
    ) -> tuple[SecureClient, Confirmed]:
        """Sign the list of contributions to the sum, once; the list of all contributors must be the same."""
        last = self._last(number)
        if last.confirmed is not None:
            if fingerprints != last.listed:
                raise SecureRefusalError(SecureRefusal.OTHER_REQUEST)
            return self, last.confirmed
        if not is_blobs(fingerprints, fingerprints, len(last.digest)):
            raise SecureRefusalError(SecureRefusal.BAD_KEY)
        named = tuple(sorted(fingerprints))
        self._check_contributors(named, last)
        if fingerprints[self.site] != last.message.fingerprint:
            raise SecureRefusalError(SecureRefusal.LEFT_OUT)
        message = Confirmed(self.site, number, signature(signing_key, list_statement(last.digest, fingerprints)))
        last = replace(last, listed=dict(fingerprints), confirmed=message, contributors=named)
        return replace(self, last=last, first_contributors=self.first_contributors or named), message

    def unmask(self, number: int, confirmed: Mapping[str, bytes]) -> tuple[SecureClient, Unmasked]:
        """Hand out the shares that reveal the total of the list that enough of its contributors have confirmed."""
        last = self._last(number)
        if last.listed is None or last.contributors is None:
            raise SecureRefusalError(SecureRefusal.OUT_OF_ORDER)
        if last.unmasked is not None:
            return self, last.unmasked
        signers = isinstance(confirmed, Mapping) and set(confirmed) <= set(last.listed)
        if not signers or not all(isinstance(each, bytes) for each in confirmed.values()):
            raise SecureRefusalError(SecureRefusal.UNKNOWN_SITE)
        if len({*confirmed, self.site}) < self.roster.threshold:  # so many that no other list can have as many
            raise SecureRefusalError(SecureRefusal.TOO_FEW_SITES)
        statement = list_statement(last.digest, last.listed)
        for site, signed in confirmed.items():
            if site != self.site:
                check_signature(self.peers[site], statement, signed)
        named, held = last.contributors, last.held
        message = Unmasked(
            self.site,
            number,
            seeds={name: held[name][SHARE_SIZE:] for name in named},
            mask_keys={name: held[name][:SHARE_SIZE] for name in last.participants if name not in named},
        )
        # Nothing else of this sum will need the shares: what is not kept cannot leak.
        return replace(self, last=replace(last, held={}, unmasked=message)), message

    def recomputed(self, relay: Relay, steps: Floats) -> tuple[SecureClient, Floats]:
        """The total of the last sum, from everybody's signed contributions; refuse what they did not sign."""
        last = self._last(self.number)
        if not isinstance(relay, Relay) or not relay.well_formed(self.number, len(steps) + 1, last.mask_keys):
            raise SecureRefusalError(SecureRefusal.BAD_RELAY)
        named = tuple(sorted(relay.contributions))
        self._check_contributors(named, last)
        if last.listed not in (None, {site: each.fingerprint for site, each in relay.contributions.items()}):
            raise SecureRefusalError(SecureRefusal.BAD_RELAY)
        if relay.contributions[self.site] != last.message.contribution:
            raise SecureRefusalError(SecureRefusal.BAD_RELAY)
        for site in named:
            if site != self.site:
                given = relay.contributions[site]
                check_signature(self.peers[site], given.statement(last.digest, last.mask_keys[site]), given.signature)
        try:
            total = relay.total(last.digest, steps, last.mask_keys)
        except GarbledTotalError:
            raise SecureRefusalError(SecureRefusal.BAD_RELAY) from None
        last = replace(last, held={}, contributors=named)
        return replace(self, last=last, first_contributors=self.first_contributors or named), total

    def _last(self, number: int) -> Contribution:
        """What this site contributed to the sum with this number, if it is the last one."""
        if self.last is None or number != self.number:
            raise SecureRefusalError(SecureRefusal.OUT_OF_ORDER)
        return self.last

    def _check_participants(self, participants: Collection[str]) -> None:
        """Refuse a sum among others than those whom this site knows to be left."""
        self.roster.check_enough(participants)
        if not set(participants) <= {*self.channels, self.site}:
            raise SecureRefusalError(SecureRefusal.UNKNOWN_SITE)
        known = None if self.last is None else self.last.contributors
        if known is not None and set(participants) != set(known):
            raise SecureRefusalError(SecureRefusal.ROSTER_CHANGED)
        self._check_agreed(participants, self.first_contributors or ())

    def _check_contributors(self, named: Collection[str], last: Contribution) -> None:
        """Refuse to reveal a total without this site, of too few, or of others than before."""
        self.roster.check_enough(named)
        if not set(named) <= set(last.participants):
            raise SecureRefusalError(SecureRefusal.UNKNOWN_SITE)
        if self.site not in named:
            raise SecureRefusalError(SecureRefusal.LEFT_OUT)
        self._check_agreed(named, self.first_contributors or ())

    def _check_agreed(self, present: Collection[str], before: Collection[str]) -> None:
        """Refuse if someone is missing without whom this site has not agreed to go on."""
        if not set(before) <= {*present, *self.agreed_without}:
            raise SecureRefusalError(SecureRefusal.ROSTER_CHANGED)


def _transcript(roster: Roster, site: str, channel: bytes) -> bytes:
    """What a site signs: the key, for this run, roster and name."""
    return context("keys", roster.digest, site, channel)
