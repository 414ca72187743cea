"""The policy: what was decided, per site and group, ready to decide on new rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.calibration import Calibrator
from logofair.columns.attributes import known_groups, row_of
from logofair.columns.checks import (
    Floats,
    Integers,
    Label,
    listed_names,
    probabilities,
    random_number,
    same_length,
    same_order,
)
from logofair.columns.labels import Codes, encode, encode_known
from logofair.columns.segments import Booleans, cell_numbers
from logofair.costs import ACCURACY
from logofair.errors import InputError
from logofair.files.documents import Document
from logofair.policy.coins import Tosses, Words, coin_words, id_words, place_words, read_ids
from logofair.policy.coins import exact_counts as counted
from logofair.policy.info import PolicyInfo
from logofair.policy.linear import LinearRules, read_probabilities
from logofair.policy.mixtures import Mixtures, Rules
from logofair.policy.rules import RuleTable
from logofair.records import plain
from logofair.reportable import Reportable

_UNKNOWN = ("raise", "merged", "base")


@dataclass(frozen=True, eq=False)
class Policy(Reportable):
    """The rules: for each group at each site, from which score on people are accepted.

    Made by :func:`logofair.fit`. ``decide`` decides on new rows, ``save`` writes a file and ``load`` reads it anywhere.
    A rule is a mixture of at most three thresholds on the calibrated score; the policy has the calibration with it.

    Attributes
    ----------
    groups, sites : tuple
        The labels it knows, in the order of its tables. Where it :attr:`looks_away`, those of the probabilities.
    mixtures, calibrator, key
        The rules of its cells, the maps from scores to chances that they are rules of, and the key of its coins.
    merged_rules
        What :attr:`merged` gives, or how it is made.
    info : PolicyInfo
        What it says about itself: requirements, certificate, where its rows came from, version.

    Examples
    --------
    >>> import logofair
    >>> policy = logofair.fit(
    ...     [0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "a", "b", "b"],
    ...     local_tolerance=0, global_tolerance=0, calibration="none",
    ... ).policy
    >>> policy.decide([0.95, 0.1, 0.3], sensitive_features=["a", "b", "b"]).tolist()
    [1, 0, 0]
    """

    groups: tuple[Label, ...]
    sites: tuple[Label, ...]
    mixtures: Rules
    calibrator: Calibrator
    merged_rules: Rules | Callable[[], Rules | None] | None  # for sites that are not known yet; see ``merged``
    key: int
    info: PolicyInfo = field(default_factory=PolicyInfo)

    @property
    def merged(self) -> Rules | None:
        """The rules for sites that are not known yet, one per group: those of all rows taken as one site.

        None where there are none (:attr:`has_merged`). After a fit they are made when first asked for; saving or
        copying the policy asks for them.
        """
        rules = self.merged_rules
        if callable(rules):  # which is let go, with what they are made of
            rules = rules()
            object.__setattr__(self, "merged_rules", rules)
        return rules

    @property
    def has_merged(self) -> bool:
        """Whether there are rules for sites that are not known yet; to ask makes none.

        Examples
        --------
        >>> import logofair
        >>> columns = {"sensitive_features": ["a", "b"] * 2, "sites": ["n", "n", "s", "s"], "calibration": "none"}
        >>> policy = logofair.fit([0.9, 0.6, 0.4, 0.2], None, **columns).policy
        >>> policy.has_merged
        True
        """
        return self.merged_rules is not None

    def __getstate__(self) -> dict[str, Any]:
        """What a copy holds: rules that are made, and not the rows to make them of."""
        return self.__dict__ | {"merged_rules": self.merged}

    @property
    def looks_away(self) -> bool:
        """Whether it decides by the probabilities of the groups and never sees anybody's group."""
        return isinstance(self.mixtures, LinearRules)

    @property
    def width(self) -> int:
        """Numbers of rules at every site: one of each group, or one for everybody."""
        return 1 if self.looks_away else len(self.groups)

    @property
    def site(self) -> str | None:
        """The site a federated policy belongs to."""
        return self.info.site

    @property
    def too_small(self) -> tuple[str, ...]:
        """Groups with too few rows at a federated policy's site to say anything: they take the merged rule."""
        return () if self.info.site_figures is None else self.info.site_figures.too_small

    @property
    def has_sites(self) -> bool:
        """Whether rows come with their sites; not where it was fitted without, nor where it belongs to one site."""
        return self.sites != (None,) and self.site is None

    def __repr__(self) -> str:
        coins, what = int(self.mixtures.mixed.sum()), "sites" if self.looks_away else "cells"
        return f"Policy({len(self.sites):,} sites, {len(self.groups):,} groups, {coins:,} {what} with coins)"

    def decide(
        self,
        scores: object,
        *,
        sensitive_features: object = None,
        sites: object = None,
        group_probabilities: object = None,
        ids: object = None,
        random_state: int | None = None,
        on_unknown: str = "raise",
        deterministic: bool = False,
        exact_counts: bool = False,
    ) -> npt.NDArray[np.int64]:
        """Decide on rows: 1 accept, 0 reject.

        Parameters
        ----------
        scores, sensitive_features, sites : array-like of shape (n,)
            As in :func:`logofair.fit`; ``sites`` is left out exactly where the policy has none, ``sensitive_features``
            where it was fitted with ``group_probabilities``. Labels are found
            as Python compares them: 1, 1.0 and True are one label, ``"1"`` is another. A federated policy takes rows
            without sites as its site's own; with sites it refuses those of other sites.
        group_probabilities : table of shape (n, groups), optional
            As in :func:`logofair.fit`, for a policy that may not look at anybody's group.
        ids : array-like of shape (n,), optional
            Ids of the rows (integers or text, none missing): where a coin is needed, the same id of the same site
            and group always gets the same decision.
        random_state : int, optional
            Key of the coins where there are no ids: they then depend on the row's position. Where the rules of some
            rows toss coins, there must be one or the other.
        on_unknown : {"raise", "merged", "base"}
            What to do with sites the policy does not know: refuse, use the rule of the merged federation, or the
            raw score >= 1/2. Unknown groups can only be refused or take ``"base"``.
        deterministic : bool
            One threshold per cell with the mixture's selection rate, no coins. Not optimal, and not within the
            tolerances: it misses those of equalized odds by 0.10 to 0.18 on Adult. Its violation and accuracy stand in
            the solution's summary.
        exact_counts : bool
            Draw all rows together, so that the number accepted in every cell, at every site and over all is within
            one of its summed chances; sites that the policy does not know count as one. Each row keeps its chance,
            and the same batch with the same ids gets the same decisions, in any order of its rows. But a person's
            decision then depends on who else is in the batch, and rows that share an id need not get the same. A
            capacity met in expectation is met on this batch as nearly as its summed chances do; another batch may
            not meet it.

        Returns
        -------
        array of shape (n,)

        Raises
        ------
        InputError
            If some argument cannot be used, or some rows need coins and there are neither ids nor a random_state.

        Examples
        --------
        Of ten people with a chance of 1/2 five are accepted on average; with exact counts always.

        >>> import logofair
        >>> policy = logofair.fit(
        ...     [0.9, 0.1, 0.5, 0.5], None, sensitive_features=["a", "a", "b", "b"],
        ...     local_tolerance=0, global_tolerance=0, calibration="none",
        ... ).policy
        >>> int(policy.decide([0.5] * 10, sensitive_features=["b"] * 10, ids=range(10), exact_counts=True).sum())
        5
        """
        options = {"deterministic": deterministic, "exact_counts": exact_counts}
        for name, value in options.items():
            if not isinstance(value, bool | np.bool_):
                raise InputError(f"{name}: got {value!r}; pass True or False.")
        if deterministic and exact_counts:
            raise InputError("exact_counts: given together with deterministic=True, which tosses no coins; choose one.")
        tosses = self.tosses(
            scores,
            sensitive_features=sensitive_features,
            sites=sites,
            group_probabilities=group_probabilities,
            ids=ids,
            random_state=random_state,
            on_unknown=on_unknown,
            deterministic=deterministic,
        )
        return tosses.decisions(
            counted(tosses.chance, tosses.cells, tosses.words) if exact_counts else tosses.by_coin()
        )

    def tosses(
        self,
        scores: object,
        *,
        sensitive_features: object = None,
        sites: object = None,
        group_probabilities: object = None,
        ids: object = None,
        random_state: int | None = None,
        on_unknown: str = "raise",
        deterministic: bool = False,
    ) -> Tosses:
        """Decide on rows as far as that goes without chance; arguments as in :meth:`decide`."""
        eta, cells, seen = self._rows(scores, sensitive_features, sites, group_probabilities, on_unknown, ids)
        id_column = None if ids is None else read_ids(ids)
        same_length(eta.size, ids=id_column)
        number = None if random_state is None else random_number(random_state)
        rules = self._rules_by_number(cells)
        if deterministic:
            if not isinstance(rules, Mixtures):
                raise InputError(
                    "deterministic: a policy that may not look at groups has no rule without coins; pass ids=."
                )
            rules = rules.deterministic
        if id_column is None and number is None and (mixed := int(rules.mixed[cells].sum())):
            raise InputError(
                f"ids: missing, but the rules of {mixed:,} of these {eta.size:,} rows toss coins; pass ids= "
                "(the same id always gets the same decision), random_state= (by position) or deterministic=True."
            )
        chance = rules.chances(eta, cells, seen)
        rows = np.flatnonzero((chance > 0.0) & (chance < 1.0))
        # Without ids by the row's position, and the caller's key in place of the policy's.
        words = rows.astype(np.uint64) if id_column is None else id_words(id_column[rows])
        key = self.key if number is None or id_column is not None else number
        random = coin_words(words, self._places[cells[rows]], key)
        return Tosses((chance == 1.0).astype(np.int64), rows, chance[rows], cells[rows], random)

    def probabilities(
        self,
        scores: object,
        *,
        sensitive_features: object = None,
        sites: object = None,
        group_probabilities: object = None,
        on_unknown: str = "raise",
    ) -> Floats:
        """Chance of acceptance of each row before any coin is tossed; arguments as in :meth:`decide`."""
        return self.chances(*self._rows(scores, sensitive_features, sites, group_probabilities, on_unknown))

    def unconstrained(
        self,
        scores: object,
        *,
        sensitive_features: object = None,
        sites: object = None,
        group_probabilities: object = None,
        on_unknown: str = "raise",
    ) -> Floats:
        """1 where the rule accepts that nothing is required of, else 0: what floors and ceilings of "today" speak of.

        It gains most at the policy's costs; arguments as in :meth:`decide`.
        """
        eta, cells, _ = self._rows(scores, sensitive_features, sites, group_probabilities, on_unknown)
        costs = self.info.requirements.costs or ACCURACY
        site = np.where(cells < self.width * len(self.sites), cells // self.width, -1)
        return np.asarray(costs.at(site).gain(eta) >= 0.0, dtype=np.float64)

    def chances(self, calibrated: Floats, cells: Integers, seen: Floats | None = None) -> Floats:
        """Chance of acceptance of rows that were checked and calibrated already, by the numbers of their rules."""
        return self._rules_by_number(cells).chances(calibrated, cells, seen)

    @property
    def rules(self) -> RuleTable:
        """The rules per site and group, for people."""
        return RuleTable(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy as versioned JSON with a checksum; an existing file is replaced at once or not at all.

        The numbers of very many sites are packed beside the JSON, in a ZIP file (:mod:`logofair.files.documents`).
        """
        _FILE.write(path, self._stored())

    @property
    def checksum(self) -> str:
        """SHA-256 of what the policy's file holds, as the file itself states it."""
        return _FILE.checksum(self._stored())

    def _stored(self) -> _Stored:
        for what, names in (("group", self.groups), ("site", self.sites)):
            for name in names:
                _check_label(name, what)
        return _Stored(self.groups, self.sites, self.key, self.mixtures, self.merged, self.calibrator, self.info)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Read a policy written by :meth:`save`; a damaged, foreign or newer file raises ``InputError``."""
        # The checks of the document come first: a file cut short or edited by hand says so instead of deciding wrongly.
        stored = vars(_FILE.read(path))
        return cls(**{"merged_rules" if name == "merged" else name: part for name, part in stored.items()})

    def _rules_by_number(self, cells: Integers) -> Rules:
        """The rules that cells of these numbers need: for known sites and groups the merged ones need not be made."""
        known = cells.max(initial=-1) < len(self.sites) * self.width
        return self.mixtures if known else self._every_rule

    @cached_property
    def _every_rule(self) -> Rules:
        """The rules of all cells, then the base rule, then those of the merged federation, where there are any."""
        merged = () if self.merged is None else (self.merged,)
        every: Rules = self.mixtures.joined_with(self.mixtures.base(len(self.groups)), *merged)
        return every

    @cached_property
    def _places(self) -> Words:
        """The word of each rule's site and group, in the order of the table; the base rule tosses no coin."""

        def written(label: Label) -> str:  # as a file holds it; one that no file can hold as Python writes it
            try:
                _check_label(label, "label")
                return json.dumps(plain(label))
            except (InputError, TypeError):
                return repr(label)

        every: tuple[Label, ...] = ("",) if self.looks_away else self.groups
        sites, groups = ([written(name) for name in names] for names in (self.sites, every))
        return np.insert(place_words(sites, groups), len(sites) * len(groups), np.uint64(0))

    def _rows(
        self,
        scores: object,
        sensitive_features: object,
        sites: object,
        group_probabilities: object,
        on_unknown: str,
        ids: object = None,
    ) -> tuple[Floats, Integers, Floats | None]:
        """Check rows; their calibrated scores, the number of the rule that applies, and what it sees of groups."""
        if not isinstance(on_unknown, str) or on_unknown not in _UNKNOWN:
            raise InputError(f"on_unknown: got {on_unknown!r}; use one of {', '.join(_UNKNOWN)}.")
        columns = {"sensitive_features": sensitive_features, "sites": sites, "group_probabilities": group_probabilities}
        same_order(scores=scores, **columns, ids=ids)
        score, seen = probabilities(scores), None
        if self.looks_away:
            if sensitive_features is not None:
                raise InputError(
                    "sensitive_features: this policy may not look at them; leave them out, and pass "
                    "group_probabilities=."
                )
            _, seen = read_probabilities(group_probabilities, self.groups)
            group: Integers = np.zeros(score.size, dtype=np.int32)
        else:
            if group_probabilities is not None:
                raise InputError("group_probabilities: this policy decides by the groups themselves; leave them out.")
            group = known_groups(sensitive_features, self.groups)
        site = self._site_codes(sites, score.size)
        same_length(score.size, sensitive_features=group, sites=site, group_probabilities=seen)
        known = len(self.sites) * self.width
        cells = cell_numbers(group, site, self.width)
        strange_group, strange_site = group < 0, site < 0
        if not (strange_group.any() or strange_site.any()):
            return self.calibrator(score, group, site), cells, seen
        self._refuse(strange_group, strange_site, sensitive_features, sites, on_unknown)
        cells = np.where(strange_site, known + 1 + group, cells)
        base = strange_group | (strange_site & (on_unknown == "base"))
        cells = np.where(base, known, cells)
        eta = self.calibrator(score, np.maximum(group, 0), site)
        return np.where(base, score, eta), cells, seen

    def _site_codes(self, sites: object, n: int) -> Integers:
        if sites is None:
            if self.has_sites:
                raise InputError(
                    f"sites: missing, but the policy has rules for {len(self.sites)} sites; pass one per row."
                )
            return np.zeros(n, dtype=np.int32)
        if self.site is not None and not isinstance(sites, Codes):
            found = encode(sites, "sites")  # a site's name is text, a file may have it as a number
            own = np.array([0 if str(name) == self.site else -1 for name in found.names], dtype=np.int32)
            return own[found.codes] if own.size else found.codes
        if not self.has_sites and self.site is None:
            raise InputError("sites: the policy was fitted without sites; leave them out.")
        return encode_known(sites, self.sites, "sites")

    def _refuse(
        self,
        strange_group: Booleans,
        strange_site: Booleans,
        sensitive_features: object,
        sites: object,
        on_unknown: str,
    ) -> None:
        """Raise where ``on_unknown`` does not cover what was met."""
        if self.site is not None and on_unknown == "raise" and strange_site.any():
            row = int(np.flatnonzero(strange_site)[0])
            raise InputError(
                f"sites: row {row} is {row_of(sites, row)!r}, but the policy is of site {self.site!r} alone; "
                "take that site's policy, leave such rows out, or use on_unknown='base' for raw score >= 1/2."
            )
        refused_groups, refused_sites = strange_group & (on_unknown != "base"), strange_site & (on_unknown == "raise")
        on_groups = "drop such rows or use on_unknown='base' for raw score >= 1/2"
        on_sites = "use on_unknown='merged' for the merged rule, or 'base'"
        for where, what, strange, values, names, advice in (
            ("sensitive_features", "group", refused_groups, sensitive_features, self.groups, on_groups),
            ("sites", "site", refused_sites, sites, self.sites, on_sites),
        ):
            if strange.any():
                row = int(np.flatnonzero(strange)[0])
                raise InputError(
                    f"{where}: row {row} is {row_of(values, row)!r}, a {what} the policy does not know "
                    f"(it knows {listed_names(names, 6)}); {advice}."
                )
        if strange_site.any() and on_unknown == "merged" and not self.has_merged:
            fitted = "" if self.site is not None else " (see its warnings)"
            raise InputError(
                f"on_unknown: 'merged' needs the merged rule, which this policy lacks{fitted}; use 'base'."
            )


@dataclass(frozen=True, eq=False)
class _Stored:
    """A policy as its file holds it."""

    groups: tuple[Label, ...]
    sites: tuple[Label, ...]
    key: int
    mixtures: Rules
    merged: Rules | None
    calibrator: Calibrator
    info: PolicyInfo

    def __post_init__(self) -> None:
        """Raise where its parts do not fit together: what is read was written by others."""
        groups, sites = len(self.groups), len(self.sites)
        if not groups or not sites or len(set(self.groups)) < groups or len(set(self.sites)) < sites:
            raise ValueError("labels")
        if len({getattr(name, "columns", ()) for name in self.groups}) > 1:
            raise ValueError("columns")
        self.calibrator.check()
        width = 1 if isinstance(self.mixtures, LinearRules) else groups
        if (self.calibrator.n_groups, self.calibrator.n_sites) != (width, sites):
            raise InputError("its calibrator is for other groups or sites; save the policy again.")
        self.mixtures.check(sites, groups)
        if self.merged is not None:
            self.merged.check(1, groups)
            if type(self.merged) is not type(self.mixtures):
                raise ValueError("merged")
        if self.info.site is not None and sites > 1:
            raise ValueError("sites")


_FILE = Document(_Stored, "logofair policy", 6, "policy")


def _check_label(label: Label, what: str) -> None:
    """Raise where a file cannot hold a label: text, a number, a bool, None, or a tuple of these."""
    if isinstance(label, tuple):
        for part in label:
            _check_label(part, what)
    elif label is not None and not isinstance(label, str | bool | int | float | np.generic):
        raise InputError(
            f"save: {what} {label!r} is of type {type(label).__name__}; only text, numbers and tuples can be saved."
        )
