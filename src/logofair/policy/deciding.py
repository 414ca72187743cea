"""Decisions on the rows of files, batch by batch: labels to the policy's numbers, coins by id or by the row's place."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Integers, Label, shown
from logofair.columns.labels import Codes, plain
from logofair.columns.segments import Booleans
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, site_name
from logofair.files.tables import Table, estimated_rows, is_text, open_table
from logofair.files.values import (
    as_chances,
    as_numbers,
    check_scores,
    group_expression,
    is_number,
    label_text,
    listed_names,
    plain_values,
)
from logofair.files.writing import replacing, written_in_parts
from logofair.policy.coins import Tosses, Words, exact_counts
from logofair.policy.policy import Policy

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

# Which rows are accepted of those on which chance decides.
_Toss: TypeAlias = Callable[[Tosses], Booleans]

_INTEGER_KINDS = "^(0|-?[1-9][0-9]{0,17})$"  # how an integer of 64 bits is written, and one with any 18 digits fits


@dataclass
class DecisionCounts:
    """How many rows were decided and accepted, by group; grows batch by batch.

    ``unknown`` rows are of groups or sites that the policy does not know, ``dropped`` ones were left out; ``ids`` are
    the ids met, as numbers of 64 bits. ``excess`` is how many more rows were accepted than their chances sum to, where
    counts are exact: less than one either way.
    """

    groups: tuple[Label, ...]
    counted: npt.NDArray[np.int64] = field(init=False)
    unknown: int = 0
    dropped: int = 0
    ids: array[int] = field(default_factory=lambda: array("Q"))  # grows in place: there may be 100 million
    excess: float | None = None

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
    def summed_chances(self) -> float | None:
        """How many rows were expected to be accepted, where counts are exact."""
        return None if self.excess is None else self.accepted - self.excess

    @property
    def repeated(self) -> int:
        """Rows whose id was met before."""
        met = np.frombuffer(self.ids, dtype=np.uint64)
        met.sort()
        return int((met[1:] == met[:-1]).sum())

    def add(self, rows: polars.DataFrame, decided: npt.NDArray[np.int64], group: Integers, unknown: int) -> None:
        """Count a batch, and remember its ids, which are of one kind in all files; a group of -1 is not known."""
        place = np.where(group < 0, len(self.groups), group)
        self.counted += np.bincount(2 * place + decided, minlength=self.counted.size).reshape(self.counted.shape)
        self.unknown += unknown
        if "id" in rows.columns:
            ids = rows["id"] if rows["id"].dtype.is_integer() else rows["id"].cast(polars_module().String)
            self.ids.frombytes(ids.hash().to_numpy().tobytes())

    def by_group(self) -> Iterator[tuple[Label, int, int]]:
        """The groups that have rows, in the policy's order: name, rows, accepted."""
        for name, (rejected, accepted) in zip((*self.groups, "no known group"), self.counted.tolist(), strict=True):
            if rejected + accepted:
                yield name, rejected + accepted, accepted

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        groups = [
            {"group": plain(name), "rows": rows, "accepted": accepted} for name, rows, accepted in self.by_group()
        ]
        return {
            "rows": self.rows,
            "accepted": self.accepted,
            "exact_counts": self.excess is not None,
            "summed_chances": self.summed_chances,
            "unknown_rows": self.unknown,
            "rows_left_out": self.dropped,
            "repeated_ids": self.repeated,
            "groups": groups,
        }


class _Batch(NamedTuple):
    """Rows of a file in the form that decides, with their numbers in it; ``position``: how many came before."""

    rows: polars.DataFrame
    table: Table
    position: int

    def first(self, flags: polars.Series) -> dict[str, Any]:
        """The first row that is flagged, by column; "row" is its number in the file."""
        return self.rows.row(int(flags.arg_max() or 0), named=True)


@dataclass(frozen=True, eq=False)
class Decider:
    """A policy with the columns it reads and how it decides.

    Without ids its coins are keyed by ``key``, and tossed for the rows' places in all files.
    """

    policy: Policy
    columns: ColumnNames
    id_column: str | None = None
    keep: tuple[str, ...] = ()
    on_unknown: str = "raise"
    key: int | None = None
    deterministic: bool = False
    exact_counts: bool = False
    policy_file: Path | None = None  # where the policy lies, maybe beside those of other sites

    def __post_init__(self) -> None:
        if self.exact_counts and self.deterministic:
            raise InputError("--exact-counts: given together with --deterministic, which draws nothing; choose one.")
        if self.on_unknown == "merged" and not self.policy.has_merged:
            raise InputError("--on-unknown: the policy lacks the rule of all sites together; use base or raise.")
        if self.by_position and self.key is None:
            raise InputError(
                "--id: missing, but the policy tosses coins; name the column of ids, so that the same person always "
                "gets the same decision, or pass --seed (coins by the row's place) or --deterministic."
            )

    @cached_property
    def keyed(self) -> Policy:
        """The policy with the key of its coins."""
        return self.policy if self.key is None or self.id_column is not None else replace(self.policy, key=self.key)

    @property
    def by_position(self) -> bool:
        """Whether coins hang on the rows' places."""
        used = (self.policy.mixtures, self.policy.merged if self.on_unknown == "merged" else None)
        coins = any(rules is not None and rules.mixed.any() for rules in used)
        return coins and self.id_column is None and not self.deterministic

    def prepared(self, table: Table) -> polars.LazyFrame:
        """The columns of a file in the form that decides: numbers, codes (null: unknown), ids, and columns to keep."""
        pl, schema = polars_module(), table.rows.collect_schema()
        for role in table.names:
            if not role.startswith("keep "):
                expected = "numbers" if is_number(role) else "text or numbers"
                plain_values(pl.Series([], dtype=schema[role]), table.where(role), expected)
        score = as_numbers(pl.col("score"), schema["score"], self.columns.scale)
        unread = (pl.col("score").is_not_null() & score.is_null()).alias("unread")
        found = [pl.col("row"), score.fill_nan(None), unread]
        seen = [role for role in table.names if role.startswith("probability ")]
        found += [as_numbers(pl.col(role), schema[role], "chance").fill_nan(None).alias(role) for role in seen]
        if not self.policy.looks_away:
            groups = [_text(role, schema[role]) for role in table.names if role.startswith("group ")]
            found.append(group_expression(groups).alias("group"))
        found += [_text("site", schema["site"]).alias("site")] if "site" in table.names else []
        found += [pl.col(role) for role in table.names if role == "id" or role.startswith("keep ")]
        codes = []  # the places of labels among those of the policy; null where one is not
        for role, names in (("group", self.policy.groups), ("site", self.policy.sites)):
            if role in table.names or (role == "group" and not self.policy.looks_away):
                texts = [label_text(name) for name in names]
                if len(set(texts)) < len(texts):
                    raise InputError(f"the policy: two {role}s are written alike in a file; rename one and fit again.")
                codes.append(pl.col(role).cast(pl.Enum(texts), strict=False).to_physical().alias(f"{role} code"))
        return table.numbered.select(found).with_columns(codes)

    def decide(self, batch: _Batch, toss: _Toss) -> tuple[npt.NDArray[np.int64], Integers, int]:
        """Decide on a batch, ``toss`` where chance does; also their groups, and how many the policy does not know."""
        column, scale = batch.rows["score"], self.columns.scale
        if batch.rows["unread"].any():
            batch.table.check_numbers("score", scale)  # which raises
        if column.null_count():
            raise self._missing_error(batch, "score")
        check_scores(float(column.min()), float(column.max()), scale, batch.table.where("score"))  # type: ignore[arg-type]
        scores = np.asarray(as_chances(column, scale).to_numpy(), dtype=np.float64)
        group = np.zeros(len(scores), dtype=np.int32) if self.policy.looks_away else self._codes(batch, "group")
        site, seen = self._site(batch), self._probabilities(batch)
        strange = (group < 0) if site is None else (group < 0) | (site < 0)
        decided = np.empty(batch.rows.height, dtype=np.int64)
        for rows, ids in self._ids(batch):
            tosses = self.keyed.tosses(
                scores[rows],
                sensitive_features=None if self.policy.looks_away else Codes(self.policy.groups, group[rows]),
                group_probabilities={name: each[rows] for name, each in seen.items()} or None,
                sites=None if site is None else Codes(self.policy.sites, site[rows]),
                ids=ids,
                on_unknown=self.on_unknown,
                deterministic=self.deterministic,
            )
            decided[rows] = tosses.decisions(toss(tosses))
        return decided, group, int(strange.sum())

    @property
    def counted(self) -> tuple[Label, ...]:
        """The groups by which decisions are counted."""
        return ("everybody",) if self.policy.looks_away else self.policy.groups

    def _probabilities(self, batch: _Batch) -> dict[str, Floats]:
        """The probability of each group, where the policy goes by them."""
        found = {}
        for name, _ in self.columns.group_probability:
            if batch.rows[role := f"probability {name}"].null_count():
                batch.table.check_numbers(role)  # which raises where there is something else
                raise self._missing_error(batch, role)
            found[name] = np.asarray(batch.rows[role].to_numpy(), dtype=np.float64)
        return found

    def _codes(self, batch: _Batch, role: str) -> npt.NDArray[np.int32]:
        """Numbers of groups or sites, -1 where unknown; raise where a value is missing or may not be unknown."""
        labels, codes = batch.rows[role], batch.rows[f"{role} code"]
        allowed = ("merged", "base") if role == "site" else ("base",)
        if labels.null_count():
            raise self._missing_error(batch, role)
        if self.on_unknown not in allowed and codes.null_count():
            row = batch.first(codes.is_null())
            found = f"{self._where(batch.table, role)}: row {row['row']} is {shown(row[role])}"
            if role == "site" and self.policy.site is not None:
                raise self._other_site_error(found)
            use = "--on-unknown base" if role == "group" else "--on-unknown merged, or base"
            known = listed_names(self.policy.groups if role == "group" else self.policy.sites, 6)
            raise InputError(f"{found}, a {role} the policy does not know (it knows {known}); use {use}.")
        return np.asarray(codes.fill_null(-1).cast(polars_module().Int32).to_numpy())

    def _where(self, table: Table, role: str) -> str:
        """How sentences name the column, or the columns of groups."""
        if role == "group":
            return table.where("group 0") if len(self.columns.group) == 1 else f"{table.file}: groups"
        return table.where(role)

    def _missing_error(self, batch: _Batch, role: str) -> InputError:
        table, row = batch.table, batch.first(batch.rows[role].is_null())["row"]
        columns = [each for each in table.names if each == role or each.startswith(f"{role} ")]
        hint = next(filter(None, map(table.marker_hint, columns)), "")
        where = self._where(table, role)
        return InputError(f"{where}: row {row} has no value{hint}; fill it, or add --drop-missing.")

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

    def _site(self, batch: _Batch) -> npt.NDArray[np.int32] | None:
        """Numbers of sites, -1 where unknown; None where the policy needs none."""
        if "site" in batch.table.names:
            return self._codes(batch, "site")
        path = batch.table.file.path
        site, names = site_name(path), [label_text(name) for name in self.policy.sites]
        if self.policy.site is not None:  # the rows are the site's own, except in a file named after another
            if site == self.policy.site or not self._is_other_site(site):
                return None
            if self.on_unknown == "raise":
                raise self._other_site_error(f"{path}: is named after site {site!r}")
            return np.full(batch.rows.height, -1, dtype=np.int32)
        if not self.policy.has_sites:
            return None
        if site not in names and self.on_unknown == "raise":
            raise InputError(
                f"{path}: without --site the file's name is the site, and the policy does not know {site!r} "
                f"(it knows {listed_names(names, 6)}); name the column of sites or use --on-unknown merged."
            )
        code = names.index(site) if site in names else -1
        return np.full(batch.rows.height, code, dtype=np.int32)

    def _ids(self, batch: _Batch) -> Iterator[tuple[npt.NDArray[np.intp], Any]]:
        """Rows and their ids, or their places where there are no ids.

        A CSV cell that is how an integer is written is an integer, whatever stands in other rows: else a person's coin
        would hang on who else is in the file.
        """
        pl, rows = polars_module(), np.arange(batch.rows.height)
        if self.id_column is None:
            yield rows, (batch.position + rows).astype(np.uint64)
            return
        ids, where = batch.rows["id"], batch.table.where("id")
        if ids.null_count():
            raise self._missing_error(batch, "id")
        if ids.dtype.is_integer():
            yield rows, ids.to_numpy()
        elif not is_text(ids.dtype):
            raise InputError(f"{where}: holds {ids.dtype}; ids are integers or text.")
        elif batch.table.file.kind != "CSV":
            yield rows, ids.cast(pl.String).to_list()
        else:
            complete = ids.str.contains(_INTEGER_KINDS)
            for chosen, kind in ((complete, pl.Int64), (~complete, pl.String)):
                if chosen.any():
                    part = ids.filter(chosen).cast(kind)
                    yield rows[chosen.to_numpy()], part.to_numpy() if kind == pl.Int64 else part.to_list()


def _text(role: str, kind: Any) -> Any:
    """A column of labels as text; whole floats as integers."""
    pl, column = polars_module(), polars_module().col(role)
    if kind not in (pl.Float32, pl.Float64):
        return column.cast(pl.String)
    complete = column == column.floor()
    return pl.when(complete).then(column.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(column.cast(pl.String))


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

        unused = DecisionCounts(decider.counted)
        with closing(_batches(decider, files, unused, batch, accept_nobody_yet)) as steps:
            deque(progress(steps, "Summing chances", expected), maxlen=0)
        totals.excess = 0.0
        if met:
            chance, cells, words = map(np.concatenate, zip(*met, strict=True))
            accepted, given = exact_counts(chance, cells, words), 0
            totals.excess = float(accepted.sum() - chance.sum())

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
    """The output, batch by batch."""
    pl, schema = polars_module(), None
    kept = {f"keep {place}": name for place, name in enumerate(decider.keep)}
    named = decider.columns.by_role() | ({} if decider.id_column is None else {"id": decider.id_column}) | kept
    for path in files.paths:
        with open_table(path, named, missing=decider.columns.na, verbatim=list(kept)) as table:
            for every in table.batches(batch, decider.prepared(table)):
                rows = every
                if decider.columns.drop_missing:  # but what cannot be read is not missing
                    seen = [role for role in every.columns if role.startswith("probability ")]
                    needed = [role for role in (*seen, "score", "id", "group", "site") if role in every.columns]
                    complete = pl.all_horizontal([pl.col(role).is_not_null() for role in needed])
                    rows = every.filter(complete | pl.col("unread"))
                totals.dropped += every.height - rows.height
                if not rows.height:
                    continue
                decided, group, unknown = decider.decide(_Batch(rows, table, totals.rows), toss)
                totals.add(rows, decided, group, unknown)
                # Id or row number, decision, and the columns to keep; of several files also the file's name.
                several = len(files.paths) > 1
                columns = {"file": pl.Series([path.name]).new_from_index(0, rows.height)} if several else {}
                if decider.id_column is None:
                    columns["row"] = rows["row"].cast(pl.Int64)
                else:
                    columns[decider.id_column] = rows["id"]
                columns["decision"] = pl.Series(decided, dtype=pl.Int8)
                for role, name in kept.items():
                    if name in columns and name != decider.id_column:
                        raise InputError(f"--keep: {name!r} is a column of the output already; rename it in the data.")
                    columns.setdefault(name, rows[role])
                output = pl.DataFrame(columns)
                schema = schema or output.schema
                if output.schema != schema:
                    raise InputError(
                        f"{path}: its columns hold other kinds than those of {files.paths[0]}; convert them."
                    )
                yield output
