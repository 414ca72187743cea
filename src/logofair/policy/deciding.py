"""Decisions on the rows of files, batch by batch: labels to the policy's numbers, coins by id or by the row's place."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Integers, Label, listed_names, shown
from logofair.columns.labels import Codes
from logofair.columns.segments import Booleans
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, find_files, site_name
from logofair.files.rows import complete_rows
from logofair.files.tables import Table, column_names, estimated_rows, open_table
from logofair.files.values import join_groups, label_text, places_by_text
from logofair.files.writing import replacing, written_in_parts
from logofair.policy.coins import Tosses, Words, exact_counts
from logofair.policy.info import ColumnsInfo
from logofair.policy.policy import Policy
from logofair.records import Result

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

# Which rows are accepted of those on which chance decides.
_Toss: TypeAlias = Callable[[Tosses], Booleans]

_INTEGER_KINDS = "^(0|-?[1-9][0-9]{0,17})$"  # how an integer of 64 bits is written, and one with any 18 digits fits


@dataclass
class DecisionCounts(Result):
    """How many rows were decided and accepted, by group; grows batch by batch.

    ``unknown`` rows are of groups or sites that the policy does not know, ``dropped`` ones were left out; ``ids`` are
    the ids met, as numbers of 64 bits. ``summed_chances`` is how many rows were expected to be accepted, where counts
    are exact: less than one more or fewer are.
    """

    groups: tuple[Label, ...]
    counted: npt.NDArray[np.int64] = field(init=False)
    unknown: int = 0
    dropped: int = 0
    ids: array[int] = field(default_factory=lambda: array("Q"))  # grows in place: there may be 100 million
    summed_chances: float | None = None

    def __post_init__(self) -> None:
        self.counted = np.zeros((len(self.groups) + 1, 2), dtype=np.int64)  # the last line: no known group

    @property
    def rows(self) -> int:
        """Rows decided."""
        return int(self.counted.sum())

    @property
    def accepted(self) -> int:
        """Rows accepted."""
        return int(self.counted[:, 1].sum())

    @property
    def repeated(self) -> int:
        """Rows whose id was met before."""
        met = np.frombuffer(self.ids, dtype=np.uint64)
        met.sort()
        return int((met[1:] == met[:-1]).sum())

    def add(
        self, decided: npt.NDArray[np.int64], group: Integers, unknown: int, ids: polars.Series | None = None
    ) -> None:
        """Count a batch, and remember its ids, which are of one kind in all files; a group of -1 is not known."""
        place = np.where(group < 0, len(self.groups), group)
        self.counted += np.bincount(2 * place + decided, minlength=self.counted.size).reshape(self.counted.shape)
        self.unknown += unknown
        if ids is not None:
            ids = ids if ids.dtype.is_integer() else ids.cast(polars_module().String)
            self.ids.frombytes(ids.hash().to_numpy().tobytes())

    def by_group(self) -> Iterator[tuple[Label, int, int]]:
        """The groups that have rows, in the policy's order: name, rows, accepted."""
        for name, (rejected, accepted) in zip((*self.groups, "no known group"), self.counted.tolist(), strict=True):
            if rejected + accepted:
                yield name, rejected + accepted, accepted

    def in_json(self) -> dict[str, Any]:
        """Return the numbers, of each group too."""
        groups = [{"group": name, "rows": rows, "accepted": accepted} for name, rows, accepted in self.by_group()]
        return {
            "rows": self.rows,
            "accepted": self.accepted,
            "exact_counts": self.summed_chances is not None,
            "summed_chances": self.summed_chances,
            "unknown_rows": self.unknown,
            "rows_left_out": self.dropped,
            "repeated_ids": self.repeated,
            "groups": groups,
        }


def columns_of_fit(
    policy: Policy, data: Sequence[str], columns: ColumnNames, scale: str | None, na: tuple[str, ...] | None
) -> tuple[DataFiles, ColumnNames]:
    """The files of a policy's rows, and their columns: those named, and for the others the columns of the fit.

    ``scale`` and ``na`` are None where not named. Where the fit's column of sites is not there, the file's name is the
    site, or all rows are of the policy's own.
    """
    fitted = policy.info.columns or ColumnsInfo()
    named = replace(
        columns,
        score=columns.score or fitted.score,
        group=columns.group or fitted.group,
        site=columns.site or fitted.site,
        group_probability=columns.group_probability or fitted.group_probability,
        scale=scale or fitted.scale,
        na=fitted.na if na is None else na,
    )
    if columns.site is None and named.site is not None:
        there = column_names(find_files(data, site="any").paths[0])
        named = replace(named, site=named.site if named.site in there else None)
    return find_files(data, site=named.site), named


@dataclass(frozen=True, eq=False)
class Decider:
    """A policy with the columns it reads and how it decides.

    Without ids its coins are keyed by ``key``, and tossed for the rows' places in all files.
    """

    policy: Policy
    columns: ColumnNames
    keep: tuple[str, ...] = ()
    on_unknown: str = "raise"
    key: int | None = None
    deterministic: bool = False
    exact_counts: bool = False
    policy_file: Path | None = None  # where the policy lies, maybe beside those of other sites

    def __post_init__(self) -> None:
        if self.exact_counts and self.deterministic:
            raise InputError("--exact-counts: given together with --deterministic, which tosses no coins; choose one.")
        if self.on_unknown == "merged" and not self.policy.has_merged:
            raise InputError(
                "--on-unknown: 'merged' needs the merged rule, which this policy lacks; use base or raise."
            )
        if self.by_position and self.key is None:
            raise InputError(
                "--id: missing, but the policy tosses coins; name the column of ids, so that the same person always "
                "gets the same decision, or pass --seed (coins by the row's place) or --deterministic."
            )

    @cached_property
    def _keyed(self) -> Policy:
        """The policy with the key of its coins."""
        return self.policy if self.key is None or self.columns.id is not None else replace(self.policy, key=self.key)

    @property
    def by_position(self) -> bool:
        """Whether coins hang on the rows' places."""
        used = (self.policy.mixtures, self.policy.merged if self.on_unknown == "merged" else None)
        coins = any(rules is not None and rules.mixed.any() for rules in used)
        return coins and self.columns.id is None and not self.deterministic

    @property
    def counted(self) -> tuple[Label, ...]:
        """The groups by which decisions are counted."""
        return ("everybody",) if self.policy.looks_away else self.policy.groups

    def decide(
        self, table: Table, rows: polars.DataFrame, position: int, toss: _Toss
    ) -> tuple[npt.NDArray[np.int64], Integers, int]:
        """Decide on checked rows, ``toss`` where chance does; also their groups, and how many the policy does not know.

        ``position`` is how many rows came before, in all files.
        """
        policy, site = self._keyed, self._site(table, rows)
        score = np.asarray(rows["score"].to_numpy(), dtype=np.float64)
        group: Integers = np.zeros(score.size, dtype=np.int32)
        if not policy.looks_away:
            names = [role for role in table.names if role.startswith("group ")]
            where = table.where(names[0]) if len(names) == 1 else f"{table.file}: groups"
            group = self._codes(rows["row"], join_groups([rows[name] for name in names]), "group", where)
        seen = {name: rows[f"probability {name}"].to_numpy() for name, _ in self.columns.group_probability}
        decided = np.empty(score.size, dtype=np.int64)
        for some, ids in self._ids(table, rows, position):
            tosses = policy.tosses(
                score[some],
                sensitive_features=None if policy.looks_away else Codes(policy.groups, group[some]),
                group_probabilities={name: each[some] for name, each in seen.items()} or None,
                sites=None if site is None else Codes(policy.sites, site[some]),
                ids=ids,
                on_unknown=self.on_unknown,
                deterministic=self.deterministic,
            )
            decided[some] = tosses.decisions(toss(tosses))
        strange = (group < 0) if site is None else (group < 0) | (site < 0)
        return decided, group, int(strange.sum())

    def _codes(self, numbers: polars.Series, labels: polars.Series, role: str, where: str) -> Integers:
        """Numbers of groups or sites, -1 where unknown; raise where they may not be. ``numbers`` are the rows'."""
        names = self.policy.groups if role == "group" else self.policy.sites
        codes = places_by_text(labels, names)
        if (codes < 0).any() and self.on_unknown not in (("base",) if role == "group" else ("merged", "base")):
            row = int(np.argmax(codes < 0))
            found = f"{where}: row {numbers[row]} is {shown(labels[row])}"
            if role == "site" and self.policy.site is not None:
                raise self._other_site_error(found)
            use = "--on-unknown base" if role == "group" else "--on-unknown merged, or base"
            known = listed_names(names, 6)
            raise InputError(f"{found}, a {role} the policy does not know (it knows {known}); use {use}.")
        return codes

    def _site(self, table: Table, rows: polars.DataFrame) -> Integers | None:
        """Numbers of sites, -1 where unknown; None where the policy needs none."""
        if "site" in table.names:
            return self._codes(rows["row"], rows["site"], "site", table.where("site"))
        path = table.file.path
        site, names = site_name(path), [label_text(name) for name in self.policy.sites]
        if self.policy.site is not None:  # the rows are the site's own, except in a file named after another
            if site == self.policy.site or not self._is_other_site(site):
                return None
            if self.on_unknown == "raise":
                raise self._other_site_error(f"{path}: is named after site {site!r}")
            return np.full(rows.height, -1, dtype=np.int32)
        if not self.policy.has_sites:
            return None
        if site not in names and self.on_unknown == "raise":
            raise InputError(
                f"{path}: without --site the file's name is the site, and the policy does not know {site!r} "
                f"(it knows {listed_names(names, 6)}); name the column of sites or use --on-unknown merged."
            )
        code = names.index(site) if site in names else -1
        return np.full(rows.height, code, dtype=np.int32)

    def _other_site_error(self, found: str) -> InputError:
        advice = "take that site's policy, leave such rows out, or use --on-unknown base (score from 1/2 on)"
        return InputError(f"{found}, but the policy is of site {self.policy.site!r} alone; {advice}.")

    def _is_other_site(self, name: str) -> bool:
        """Whether a name is that of a site of the run, or of a policy of the run beside this one.

        Only with secure sums does a policy know the names of the other sites.
        """
        run = self.policy.info.federation
        if run is None or self.policy_file is None or name in run.names:
            return run is not None and name in run.names
        beside = self.policy_file.with_name(f"{name}{self.policy_file.suffix}")
        try:
            other = Policy.load(beside).info.federation if beside.is_file() else None
        except InputError:  # it is something else
            return False
        return other is not None and other.run == run.run

    def _ids(self, table: Table, rows: polars.DataFrame, position: int) -> Iterator[tuple[npt.NDArray[np.intp], Any]]:
        """Rows and their ids, or their places where there are no ids.

        A CSV cell that is how an integer is written is an integer, whatever stands in other rows: else a person's coin
        would hang on who else is in the file.
        """
        pl, every = polars_module(), np.arange(rows.height)
        if self.columns.id is None:
            yield every, (position + every).astype(np.uint64)
            return
        ids = rows["id"]
        if ids.dtype.is_integer():
            yield every, ids.to_numpy()
        elif ids.dtype != pl.String:
            raise InputError(f"{table.where('id')}: holds {ids.dtype}; ids are integers or text.")
        elif table.file.kind != "CSV":
            yield every, ids.to_list()
        else:
            complete = ids.str.contains(_INTEGER_KINDS)
            for chosen, kind in ((complete, pl.Int64), (~complete, pl.String)):
                if chosen.any():
                    part = ids.filter(chosen).cast(kind)
                    yield every[chosen.to_numpy()], part.to_numpy() if kind == pl.Int64 else part.to_list()


_BATCH = 250_000


def decide_files(
    decider: Decider, files: DataFiles, out: Path, progress: Progress, *, batch: int = _BATCH
) -> DecisionCounts:
    """Decide on all rows of the files and write the decisions; the file is there whole or not at all.

    Where counts are exact the files are read twice: a decision then depends on all rows.
    """
    totals = DecisionCounts(decider.counted)
    expected = max(1, sum(map(estimated_rows, files.paths)) // batch)
    toss: _Toss = Tosses.by_coin
    if decider.exact_counts:
        met: list[tuple[Floats, Integers, Words]] = []  # of all rows on which chance decides

        def accept_nobody_yet(tosses: Tosses) -> Booleans:
            met.append((tosses.chance, tosses.cells, tosses.words))
            return np.zeros(tosses.rows.size, dtype=np.bool_)

        sure = DecisionCounts(decider.counted)
        with closing(_batches(decider, files, sure, batch, accept_nobody_yet)) as steps:
            deque(progress(steps, "Summing chances", expected), maxlen=0)
        totals.summed_chances = float(sure.accepted)
        if met:
            chance, cells, words = map(np.concatenate, zip(*met, strict=True))
            accepted, given = exact_counts(chance, cells, words), 0
            totals.summed_chances += float(chance.sum())

            def tell(tosses: Tosses) -> Booleans:
                nonlocal given
                part = slice(given, given + tosses.rows.size)
                if not np.array_equal(words[part], tosses.words):
                    raise InputError(f"{files.name}: was changed while it was read; decide again.")
                given = part.stop
                return np.asarray(accepted[part])

            toss = tell
    steps = _batches(decider, files, totals, batch, toss)
    with replacing(out) as neighbour, closing(steps), written_in_parts(neighbour) as write:
        for table in progress(steps, "Deciding", expected):
            write(table)
        if not totals.rows:
            lacks = "every row lacks a value in some column named; nothing is left to decide on"
            fault = lacks if totals.dropped else "has columns but no rows; pass a file with at least one"
            raise InputError(f"{files.name}: {fault}.")
    return totals


def _batches(
    decider: Decider, files: DataFiles, totals: DecisionCounts, batch: int, toss: _Toss
) -> Generator[polars.DataFrame]:
    """The output, batch by batch: id or row number, decision, and the columns to keep; of several files their names."""
    pl, columns, schema = polars_module(), decider.columns, None
    kept = {f"keep {place}": name for place, name in enumerate(decider.keep)}
    roles = columns.by_role()
    stored = {} if columns.id is None else {"keep id": columns.id}  # as the file has them
    for path in files.paths:
        with open_table(
            path, roles | stored | kept, missing=columns.na, scale=columns.scale, verbatim=[*stored, *kept]
        ) as table:
            for every in table.batches(batch, table.numbered):
                rows = complete_rows(table, every, roles, drop_missing=columns.drop_missing)
                totals.dropped += every.height - rows.height
                if not rows.height:
                    continue
                ids = rows["keep id"] if stored else None
                decided, group, unknown = decider.decide(table, rows, totals.rows, toss)
                totals.add(decided, group, unknown, ids)
                several = len(files.paths) > 1
                found = {"file": pl.Series([path.name]).new_from_index(0, rows.height)} if several else {}
                found[columns.id or "row"] = rows["row"].cast(pl.Int64) if ids is None else ids
                found["decision"] = pl.Series(decided, dtype=pl.Int8)
                for role, name in kept.items():
                    if name in found and name != columns.id:
                        raise InputError(f"--keep: {name!r} is a column of the output already; rename it in the data.")
                    found.setdefault(name, rows[role])
                output = pl.DataFrame(found)
                schema = schema or output.schema
                if output.schema != schema:
                    raise InputError(
                        f"{path}: its columns have other types than those of {files.paths[0]}; convert them."
                    )
                yield output
