"""Decisions on a batch of rows: labels to the policy's numbers, coins by id or by the row's place, totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.cli.audit_figures import plain
from logofair.cli.data import Columns
from logofair.cli.data_scan import Scan
from logofair.cli.data_values import as_chances, check_scores, joined_groups
from logofair.inputs import InputError, Label, shown
from logofair.policy import Policy
from logofair.tables import plain_values, polars_module

if TYPE_CHECKING:
    import polars

__all__ = ["Decider", "Totals", "spelling"]

_WHOLE = "^(0|-?[1-9][0-9]{0,17})$"  # how an integer of 64 bits is written, and one with any 18 digits fits


def spelling(label: Label) -> str:
    """A label of a policy as a file spells it.

    Examples
    --------
    >>> spelling("Female"), spelling(2.0), spelling(True), spelling(("Female", "Black"))
    ('Female', '2', 'true', 'Female, Black')
    """
    if isinstance(label, tuple):
        parts = (spelling(part) for part in label)
        return ", ".join('"' + p.replace('"', '""') + '"' if ", " in p or p.startswith('"') else p for p in parts)
    if isinstance(label, bool):
        return str(label).lower()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


@dataclass
class Totals:
    """How many rows were decided and accepted, by group; grows batch by batch."""

    groups: tuple[Label, ...]
    counted: npt.NDArray[np.int64] = field(init=False)
    unknown: int = 0

    def __post_init__(self) -> None:
        self.counted = np.zeros((len(self.groups) + 1, 2), dtype=np.int64)  # the last line: unknown groups

    @property
    def rows(self) -> int:
        """Rows decided."""
        return int(self.counted.sum())

    @property
    def accepted(self) -> int:
        """Rows accepted."""
        return int(self.counted[:, 1].sum())

    @staticmethod
    def share(part: int, rows: int) -> str:
        """A share for people."""
        return f"{part / rows:.1%}" if rows else "none"

    def add(self, groups: npt.NDArray[np.int32], decided: npt.NDArray[np.int64], unknown: int) -> None:
        """Count a batch."""
        place = np.where(groups < 0, len(self.groups), groups)
        self.counted += np.bincount(2 * place + decided, minlength=self.counted.size).reshape(self.counted.shape)
        self.unknown += unknown

    def largest(self, most: int) -> Iterator[tuple[Label, int, int]]:
        """The groups with the most rows: name, rows, accepted."""
        sizes = self.counted.sum(1)
        for place in np.argsort(-sizes, kind="stable")[:most].tolist():
            if sizes[place]:
                name = self.groups[place] if place < len(self.groups) else "unknown groups"
                yield name, int(sizes[place]), int(self.counted[place, 1])

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        groups = [
            {"group": plain(name), "rows": rows, "accepted": accepted}
            for name, rows, accepted in self.largest(len(self.counted))
        ]
        return {"rows": self.rows, "accepted": self.accepted, "unknown_rows": self.unknown, "groups": groups}


@dataclass(frozen=True, eq=False)
class Decider:
    """A policy whose labels are numbered, with the columns it reads and how it decides."""

    policy: Policy
    numbered: Policy
    columns: Columns
    record: str | None
    keep: tuple[str, ...]
    on_unknown: str
    deterministic: bool

    @classmethod
    def of(
        cls,
        policy: Policy,
        columns: Columns,
        record: str | None,
        keep: Sequence[str],
        on_unknown: str,
        *,
        seed: int,
        deterministic: bool,
    ) -> Decider:
        """Number the policy's labels; without ids its coins are keyed by the seed and tossed for the rows' places."""
        if on_unknown == "pooled" and policy.pooled is None:
            raise InputError("--on-unknown: the policy lacks the rule of all clients together; use base or raise.")
        numbered = replace(
            policy,
            groups=tuple(range(len(policy.groups))),
            clients=tuple(range(len(policy.clients))) if policy.has_clients else policy.clients,
            key=policy.key if record is not None else seed,
        )
        return cls(policy, numbered, columns, record, tuple(dict.fromkeys(keep)), on_unknown, deterministic)

    @property
    def by_position(self) -> bool:
        """Whether coins hang on the rows' places."""
        return self.record is None and not self.deterministic

    def wanted(self) -> dict[str, str]:
        """The columns to read, by role."""
        kept = {f"keep {place}": name for place, name in enumerate(self.keep)}
        return self.columns.by_role() | ({} if self.record is None else {"id": self.record}) | kept

    def prepared(self, scan: Scan) -> polars.LazyFrame:
        """The columns of a file in the form that decides: numbers, codes (null: unknown), ids, and columns to keep."""
        pl, schema = polars_module(), scan.table.collect_schema()
        for role in scan.names:
            if not role.startswith("keep "):
                expected = "numbers" if role == "score" else "text or numbers"
                plain_values(pl.Series([], dtype=schema[role]), scan.where(role), expected)
        groups = joined_groups([_text(role, schema[role]) for role in scan.names if role.startswith("group ")])
        found = [pl.col("score").cast(pl.Float64, strict=False), groups.alias("group")]
        found += [pl.col("score").alias("raw score")] if schema["score"] == pl.String else []
        found += [_text("client", schema["client"]).alias("client")] if "client" in scan.names else []
        found += [pl.col(role) for role in scan.names if role == "id" or role.startswith("keep ")]
        codes = [_code("group", self.policy.groups)]
        codes += [_code("client", self.policy.clients)] if "client" in scan.names else []
        return scan.table.select(found).with_columns(codes)

    def decide(
        self, batch: polars.DataFrame, scan: Scan, first: int, position: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], int]:
        """Decisions and groups of a batch, and how many rows are of unknown clients or groups.

        ``first`` is the batch's first row in its file, ``position`` that in all files.
        """
        scores = self._scores(batch, scan, first)
        group = self._codes(batch, "group", scan, first)
        client = self._client(batch, scan, first) if self.policy.has_clients else None
        strange = (group < 0) if client is None else (group < 0) | (client < 0)
        decided = np.empty(batch.height, dtype=np.int64)
        for rows, ids in self._ids(batch, scan, first, position):
            decided[rows] = self.numbered.decide(
                scores[rows],
                groups=group[rows],
                clients=None if client is None else client[rows],
                ids=ids,
                on_unknown=self.on_unknown,
                deterministic=self.deterministic,
            )
        return decided, group, int(strange.sum())

    def _scores(self, batch: polars.DataFrame, scan: Scan, first: int) -> npt.NDArray[np.float64]:
        pl, column = polars_module(), batch["score"].fill_nan(None)
        if column.null_count():
            row = int(column.is_null().arg_max() or 0)
            raw = batch["raw score"][row] if "raw score" in batch.columns else None
            got = "has no value" if raw is None else f"is {shown(raw)}"
            raise InputError(f"{scan.where('score')}: row {first + row} {got}, expected a number; repair such rows.")
        low, high = batch.select(pl.col("score").min(), pl.col("score").max().alias("high")).row(0)
        check_scores(low, high, self.columns.scale, scan.where("score"))
        return np.asarray(as_chances(column, self.columns.scale).to_numpy(), dtype=np.float64)

    def _codes(self, batch: polars.DataFrame, role: str, scan: Scan, first: int) -> npt.NDArray[np.int32]:
        """Numbers of groups or clients, -1 where unknown; raise where a value is missing or may not be unknown."""
        codes = batch[f"{role} code"]
        known, allowed = self.policy.groups if role == "group" else self.policy.clients, ("pooled", "base")
        if codes.null_count() and self.on_unknown not in (allowed if role == "client" else ("base",)):
            self._refuse(batch, codes, role, scan, first, known)
        if batch[role].null_count():
            self._refuse(batch, batch[role], role, scan, first, known)
        return np.asarray(codes.fill_null(-1).cast(polars_module().Int32).to_numpy())

    def _refuse(
        self,
        batch: polars.DataFrame,
        column: polars.Series,
        role: str,
        scan: Scan,
        first: int,
        known: tuple[Label, ...],
    ) -> None:
        row = int(column.is_null().arg_max() or 0)
        named = "group 0" if role == "group" else role
        where = scan.where(named) if len(self.columns.group) == 1 or role == "client" else f"{scan.source}: groups"
        if batch[role][row] is None:
            raise InputError(f"{where}: row {first + row} has no value; fill it or drop such rows.")
        listed = ", ".join(map(shown, known[:6])) + (f" and {len(known) - 6} more" if len(known) > 6 else "")
        use = "--on-unknown base" if role == "group" else "--on-unknown pooled, or base"
        value = shown(batch[role][row])
        raise InputError(
            f"{where}: row {first + row} is {value}, a {role} the policy does not know (it knows {listed}); use {use}."
        )

    def _client(self, batch: polars.DataFrame, scan: Scan, first: int) -> npt.NDArray[np.int32]:
        if "client" in scan.names:
            return self._codes(batch, "client", scan, first)
        names = [spelling(name) for name in self.policy.clients]
        if scan.source.stem in names:
            return np.full(batch.height, names.index(scan.source.stem), dtype=np.int32)
        if self.on_unknown == "raise":
            listed = ", ".join(map(shown, names[:6])) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
            raise InputError(
                f"{scan.source}: without --client the file's name is the client, and the policy does not know "
                f"{scan.source.stem!r} (it knows {listed}); name the column of clients or use --on-unknown pooled."
            )
        return np.full(batch.height, -1, dtype=np.int32)

    def _ids(
        self, batch: polars.DataFrame, scan: Scan, first: int, position: int
    ) -> Iterator[tuple[npt.NDArray[np.intp] | slice, Any]]:
        """Rows and their ids, or their places where there are no ids.

        A CSV cell that is how an integer is written is an integer, whatever stands in other rows: else a person's coin
        would hang on who else is in the file.
        """
        pl = polars_module()
        if self.record is None:
            yield slice(None), np.arange(position, position + batch.height, dtype=np.uint64)
            return
        ids = batch["id"]
        if ids.null_count():
            row = first + int(ids.is_null().arg_max() or 0)
            raise InputError(f"{scan.where('id')}: row {row} has no value; ids must not be missing.")
        if ids.dtype.is_integer():
            yield slice(None), ids.to_numpy()
        elif ids.dtype not in (pl.String, pl.Categorical, pl.Enum):
            raise InputError(f"{scan.where('id')}: holds {ids.dtype}; ids are integers or text.")
        elif scan.kind != "CSV":
            yield slice(None), ids.cast(pl.String).to_list()
        else:
            whole = ids.str.contains(_WHOLE)
            for chosen, kind in ((whole, pl.Int64), (~whole, pl.String)):
                if chosen.any():
                    part = ids.filter(chosen).cast(kind)
                    yield np.flatnonzero(chosen.to_numpy()), part.to_numpy() if kind == pl.Int64 else part.to_list()


def _text(role: str, kind: Any) -> Any:
    """A column of labels as text; whole floats as integers."""
    pl, column = polars_module(), polars_module().col(role)
    if kind not in (pl.Float32, pl.Float64):
        return column.cast(pl.String)
    whole = column == column.floor()
    return pl.when(whole).then(column.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(column.cast(pl.String))


def _code(role: str, names: Sequence[Label]) -> Any:
    """The place of a label among those of the policy; null where it is not."""
    pl, spelled = polars_module(), [spelling(name) for name in names]
    if len(set(spelled)) < len(spelled):
        raise InputError(f"the policy: two {role}s are spelled alike in a file; rename one and fit again.")
    return pl.col(role).cast(pl.Enum(spelled), strict=False).to_physical().alias(f"{role} code")
