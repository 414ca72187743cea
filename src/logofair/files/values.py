"""What the values of a table's columns mean: labels as 0 and 1, scores as chances, columns joined to groups.

Text stays text, unless every cell of a CSV column is how an integer is written (not "007"); two texts become 0 and 1
only where it is said which is 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from logofair.columns.checks import Integers, Label, listed_names, nearest_name, shown
from logofair.columns.labels import encode
from logofair.errors import InputError
from logofair.files import polars_module

if TYPE_CHECKING:
    import polars

_LARGEST_LOGIT = 50.0  # beyond it a chance is 0 or 1 to the last bit or so: such numbers are no logits
_BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


def check_scores(low: float, high: float, scale: str, where: str) -> None:
    """Raise unless the scores, whose smallest and largest value are given, are on the scale said; name the fix."""
    range_text = f"{where}: runs from {low:g} to {high:g}"
    if not math.isfinite(low) or not math.isfinite(high):
        raise InputError(f"{range_text}; every score must be a finite number: repair or drop such rows.")
    if scale == "logit":
        if low >= 0 and high <= 1:
            raise InputError(f"{range_text}, which are chances already and no logits; leave --scale out.")
        return
    limit = 100.0 if scale == "percent" else 1.0
    if low >= 0 and high <= limit:
        return
    if scale == "percent":
        raise InputError(f"{range_text}, but percentages lie between 0 and 100; correct --scale.")
    if low >= 0 and high <= 100:
        raise InputError(f"{range_text}, which looks like percentages; add --scale percent.")
    if low < 0 and max(-low, high) <= _LARGEST_LOGIT:
        raise InputError(f"{range_text}, which looks like logits; add --scale logit.")
    raise InputError(f"{range_text}, but scores are chances of the positive label; bring them to 0 to 1 first.")


def is_number(role: str) -> bool:
    """Whether a column of this role holds numbers."""
    return role in ("score", "weight") or role.startswith("probability ")


def check_sites(sites: int, rows: int, column: str | None) -> None:
    """Raise if every row is a site of its own."""
    if sites == rows > 1:
        named = "the files hold one row each" if column is None else f"column {column!r} has another value in each row"
        raise InputError(f"--site: every site has one row ({named}); name a column of sites, not of ids.")


def has_value(column: str, kind: Any, value: str, where: str) -> Any:
    """Whether a cell holds a value as it is typed, as an expression; ``kind`` is the column's own."""
    pl = polars_module()
    plain_values(pl.Series([], dtype=kind), where, "text or numbers")
    if kind == pl.Boolean:
        value = value.lower()
    if not kind.is_float():
        return pl.col(column).cast(pl.String) == value
    try:
        return pl.col(column) == float(value)
    except ValueError:
        return pl.lit(False)


def as_chances(scores: Any, scale: str) -> Any:
    """A polars column or expression of scores as chances."""
    if scale == "percent":
        return scores / 100.0
    return 1.0 / (1.0 + (-scores).exp()) if scale == "logit" else scores


def as_numbers(cells: Any, kind: Any, scale: str = "chance") -> Any:
    """A polars column or expression as numbers, null where a cell holds something else; ``kind`` is its own.

    On the scale of percentages a cell of text may end in a percent sign.
    """
    pl = polars_module()
    if scale == "percent" and kind == pl.String:
        cells = cells.str.strip_suffix("%").str.strip_chars_end()
    return cells.cast(pl.Float64, strict=False)


def combine_columns(parts: Sequence[polars.Series], names: Sequence[str], csv: Sequence[bool]) -> polars.Series:
    """One column of what several files hold: text, or numbers where every file holds numbers.

    The cells of a CSV file are text that may mean numbers; other files say what they hold, and must agree.
    """
    pl = polars_module()
    threes = list(zip(parts, names, csv, strict=True))
    plain = [part if text else plain_values(part, name, "text or numbers") for part, name, text in threes]
    holds, stored = {pl.String: "text", pl.Boolean: "yes and no"}, dict[str, str]()
    for part, name, text in zip(plain, names, csv, strict=True):
        if not text and part.null_count() < part.len():
            stored.setdefault(holds.get(part.dtype, "numbers"), name)
    if len(stored) > 1:
        (one, first), (other, second) = list(stored.items())[:2]
        raise InputError(f"{second}: holds {other}, but {first} holds {one}; store the column alike in all files.")
    if not any(csv):
        kinds = {part.dtype for part in plain}
        common = plain[0].dtype if len(kinds) == 1 else pl.Float64 if stored.keys() == {"numbers"} else pl.String
        combined: polars.Series = pl.concat([part.cast(common) for part in plain])
        return combined
    texts: polars.Series = pl.concat([part.cast(pl.String) for part in plain])
    if not stored.keys() <= {"numbers"}:
        return texts
    texts = texts.str.strip_chars().replace("", None)
    integers = texts.cast(pl.Int64, strict=False)
    fits = integers.null_count() == texts.null_count() < texts.len()
    return integers if fits and texts.str.contains("^(0|-?[1-9][0-9]*)$").all() else texts


def join_groups(columns: Sequence[polars.Series]) -> polars.Series:
    """One column of groups; several columns form intersections, such as 'Female, Black'.

    A part that itself holds ", " stands in quotes, so that no two intersections have the same name.
    """
    if len(columns) == 1:
        return columns[0]
    joined: polars.Series = polars_module().select(group_expression(columns)).to_series()
    return joined


def group_expression(columns: Sequence[Any]) -> Any:
    """The same as an expression on expressions; null where a part is."""
    pl = polars_module()
    parts = [column.cast(pl.String) for column in columns]
    if len(parts) == 1:
        return parts[0]
    awkward = [part.str.contains(", ", literal=True) | part.str.starts_with('"') for part in parts]
    quoted = [pl.lit('"') + part.str.replace_all('"', '""', literal=True) + pl.lit('"') for part in parts]
    safe = [pl.when(odd).then(long).otherwise(part) for odd, long, part in zip(awkward, quoted, parts, strict=True)]
    return pl.concat_str(safe, separator=", ")


def label_text(label: Label) -> str:
    """A label as a file holds it, intersections of groups too."""
    if isinstance(label, tuple):
        parts = (label_text(part) for part in label)
        return ", ".join('"' + p.replace('"', '""') + '"' if ", " in p or p.startswith('"') else p for p in parts)
    if isinstance(label, bool):
        return str(label).lower()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def places_by_text(labels: object, names: Sequence[Label]) -> Integers:
    """The place of every label among names, compared as files spell them; -1 where it is not there."""
    places = {label_text(name): place for place, name in enumerate(names)}
    if len(places) < len(names):
        raise InputError("the policy: two groups or sites are written alike in a file; rename one and fit again.")
    found = encode(labels, "labels")
    return np.array([places.get(label_text(name), -1) for name in found.names], dtype=np.int32)[found.codes]


def binary_labels(column: polars.Series, where: str, positive: str | None, option: str) -> polars.Series:
    """A column of labels or decisions as 0 and 1; raise where that would be a guess."""
    pl, values = polars_module(), plain_values(column, where, "text or numbers")
    values = values.fill_nan(None) if values.dtype.is_float() else values
    found = values.drop_nulls().unique(maintain_order=True).head(100).to_list()
    if positive is None and all(str(value).lower() in _BINARY for value in found):
        codes = {value: _BINARY[str(value).lower()] for value in found}
        return (
            values.replace_strict(codes, return_dtype=pl.Int64) if values.dtype == pl.String else values.cast(pl.Int64)
        )
    listed = " and ".join(map(shown, found[:2]))
    if len(found) > 2:
        raise InputError(f"{where}: holds more than two values (such as {listed}); a label has two: merge some first.")
    if positive is None:
        raise InputError(f"{where}: holds {listed}, expected 0 and 1; say with {option} which one counts as 1.")
    one = _typed(positive)
    if [_typed(value) for value in found].count(one) != 1:
        raise InputError(f"{where}: holds {listed or 'nothing'}, not {shown(positive)}; correct {option}.")
    return values.replace_strict({value: int(_typed(value) == one) for value in found}, return_dtype=pl.Int64)


def _typed(value: object) -> str:
    """A value of a label column as people type it: 2.0 as 2, True as true."""
    return str(value).strip().lower().removesuffix(".0")


def plain_values(values: polars.Series, where: str, expected: str) -> polars.Series:
    """A column as text, bool, int64 (uint64 where too large for that) or float64; raise on any other kind."""
    pl, kind = polars_module(), values.dtype
    if kind in (pl.String, pl.Boolean):
        return values
    if kind in (pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String)
    if not kind.is_numeric():
        raise InputError(f"{where}: holds {kind}, expected {expected}; convert the column first.")
    for target in (pl.Int64, pl.UInt64) if kind.is_integer() else (pl.Float64,):
        same = values.cast(target, strict=False)
        if same.null_count() == values.null_count():
            return same
    raise InputError(f"{where}: holds integers of more than 64 bits; store them as text.")


def known_label(name: str, known: Mapping[str, Any], where: str) -> Any:
    """Find a label by how it is typed, or say which are there."""
    if name in known:
        return known[name]
    alike = [each for each in known if each.casefold() == name.casefold()] or known
    raise InputError(f"{where}: no {name!r}{nearest_name(name, alike)}; there are {listed_names(known, 6)}.")


CostsText: TypeAlias = tuple[float, float] | dict[str, tuple[float, float]]  # one pair, or by site, "" for others


def costs_by_site(costs: CostsText | None, sites: Sequence[Any] | None) -> Any:
    """Return costs as the library takes them: a pair, or a mapping of every site to its own."""
    if not isinstance(costs, dict):
        return costs
    if sites is None:
        raise InputError("--costs: names a site, but the data have none; add --site, or give one pair for all.")
    known: dict[str, Any] = {}
    for site in sites:
        if str(site) in known:
            raise InputError(f"--site: two labels are both written {shown(str(site))}; rename one of them.")
        known[str(site)] = site
    own = {known_label(name, known, "--costs"): pair for name, pair in costs.items() if name}
    return (dict.fromkeys(sites, costs[""]) if "" in costs else {}) | own
