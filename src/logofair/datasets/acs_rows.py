"""Rows of the American Community Survey: who is kept for the income task, and how the answers are coded.

Two kinds of tables are read: person records as the Census Bureau publishes them (psam_pXX.csv), and tables of the
income task as folktables makes it, with a state column, where PINCP already is the label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logofair.datasets.prepared import kept_rows, number
from logofair.datasets.streams import Table
from logofair.inputs import InputError
from logofair.tables import polars_module

if TYPE_CHECKING:
    import polars

__all__ = ["OCCUPATIONS", "RACES", "REGIONS", "RELATIONS", "STATES", "Layout", "coded_rows", "layout_of"]

RACES = {1: "White", 2: "Black", 3: "Asian", 4: "Native", 5: "Other"}
# RAC1P as published to the five above: 3 to 5 are American Indians and Alaska Natives, 7 to 9 Pacific Islanders,
# some other race, and several races.
_RACE_OF = {1: 1, 2: 2, 3: 4, 4: 4, 5: 4, 6: 3, 7: 5, 8: 5, 9: 5}
RELATIONS = {"RELP": range(18), "RELSHIPP": range(20, 39)}
# Occupation codes by the census' major groups: where each begins; the same in the code lists of 2010, 2012 and 2018.
OCCUPATIONS = {
    **{10: "management", 500: "business", 800: "finance", 1000: "computing", 1300: "engineering", 1600: "science"},
    **{2000: "social service", 2100: "law", 2200: "education", 2600: "arts", 3000: "medicine", 3600: "health support"},
    **{3700: "protection", 4000: "food", 4200: "cleaning", 4300: "personal care", 4700: "sales", 5000: "office"},
    **{6000: "farming", 6200: "construction", 6800: "extraction", 7000: "repair", 7700: "production"},
    **{9000: "transport", 9800: "military", 9900: "no work"},
}
# Places of birth by region: where each begins.
REGIONS = {
    **{1: "United States", 60: "US territories", 100: "Europe", 200: "Asia", 300: "Northern America"},
    **{303: "Mexico and Central America", 320: "Caribbean", 360: "South America", 400: "Africa", 500: "Oceania"},
}
STATES = {
    **{1: "AL", 2: "AK", 4: "AZ", 5: "AR", 6: "CA", 8: "CO", 9: "CT", 10: "DE", 11: "DC", 12: "FL", 13: "GA"},
    **{15: "HI", 16: "ID", 17: "IL", 18: "IN", 19: "IA", 20: "KS", 21: "KY", 22: "LA", 23: "ME", 24: "MD", 25: "MA"},
    **{26: "MI", 27: "MN", 28: "MS", 29: "MO", 30: "MT", 31: "NE", 32: "NV", 33: "NH", 34: "NJ", 35: "NM", 36: "NY"},
    **{37: "NC", 38: "ND", 39: "OH", 40: "OK", 41: "OR", 42: "PA", 44: "RI", 45: "SC", 46: "SD", 47: "TN", 48: "TX"},
    **{49: "UT", 50: "VT", 51: "VA", 53: "WA", 54: "WV", 55: "WI", 56: "WY", 72: "PR"},
}

_NEEDED = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "WKHP", "SEX", "RAC1P", "PINCP")
_LIMITS = {"COW": (1, 9), "SCHL": (1, 24), "MAR": (1, 5), "SEX": (1, 2), "WKHP": (1, 99), "AGEP": (0, 120)}
_INCOME = 50_000


@dataclass(frozen=True)
class Layout:
    """What differs between tables.

    ``relation`` and ``state`` name columns. ``labelled``: PINCP is 0 or 1, and the rows are already those of the task.
    ``merged``: RAC1P is already one of five codes and MAR 1 (married) or 2 (not), as FeDa4Fair writes them.

    Examples
    --------
    >>> Layout("RELP", "ST", labelled=False, merged=False).columns[-3:]
    ('RELP', 'ST', 'PWGTP')
    """

    relation: str
    state: str
    labelled: bool
    merged: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns to read."""
        return (*_NEEDED, self.relation, self.state, *(() if self.labelled else ("PWGTP",)))


def layout_of(table: Table) -> Layout:
    """Find out what kind of table it is; raise one sentence where needed columns are missing."""
    header = set(table.header)
    relations = [name for name in RELATIONS if name in header]
    states = [name for name in ("ST", "STATE") if name in header]
    missing = [name for name in _NEEDED if name not in header]
    missing += [] if relations else ["RELP (or RELSHIPP)"]
    missing += [] if states else ["ST (or STATE)"]
    labelled, merged = _kind(table)
    missing += [] if labelled or "PWGTP" in header else ["PWGTP"]
    if missing:
        raise InputError(
            f"{table.where}: lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; pass person records of "
            "the ACS (psam_pXX.csv), or the income task of folktables with a state column."
        )
    return Layout(relations[0], states[0], labelled, merged)


def _kind(table: Table) -> tuple[bool, bool]:
    """Whether PINCP is a label, and whether race and marriage are merged: told by the largest codes of all rows."""
    largest = {name: 0.0 for name in ("PINCP", "RAC1P", "MAR") if name in table.header}
    for piece in table.pieces(list(largest)):
        for name in largest:
            largest[name] = max(largest[name], piece.select(number(name).max()).item() or 0.0)
        if largest["PINCP"] > 1:
            return False, False
    return True, largest.get("RAC1P", 0.0) <= 5 and largest.get("MAR", 0.0) <= 2


def coded_rows(piece: polars.DataFrame, layout: Layout, counts: Counter[str]) -> polars.DataFrame:
    """Keep who counts, code the answers as small integers, and add to ``counts`` how many were dropped and why."""
    return kept_rows(piece, {} if layout.labelled else _filters(), _codes(layout), counts)


def _filters() -> dict[str, polars.Expr]:
    """Whom to keep, by the reason why the others are dropped: the adult filter of folktables."""
    return {
        "aged 16 or younger": number("AGEP") > 16,
        "income of 100 USD or less": number("PINCP") > 100,
        "no hours of work": number("WKHP") > 0,
        "survey weight below 1": number("PWGTP") >= 1,
    }


def _codes(layout: Layout) -> dict[str, polars.Expr]:
    """The columns to store; null where a value is missing or not one of those known."""
    pl = polars_module()
    races = {code: code for code in RACES} if layout.merged else _RACE_OF
    relations = RELATIONS[layout.relation]
    within = {name: _within(name, *limits) for name, limits in _LIMITS.items()}
    return {name: code.cast(pl.UInt8) for name, code in within.items()} | {
        "RAC1P": number("RAC1P").replace_strict(races, default=None, return_dtype=pl.UInt8),
        layout.relation: _within(layout.relation, relations[0], relations[-1]).cast(pl.UInt8),
        "OCCP": _grouped("OCCP", OCCUPATIONS, 9999),
        "POBP": _grouped("POBP", REGIONS, 599),
        "ST": _state(layout.state),
        "PINCP": (number("PINCP") > (0 if layout.labelled else _INCOME)).cast(pl.UInt8),
    }


def _within(name: str, low: int, high: int) -> polars.Expr:
    found: polars.Expr = polars_module().when(number(name).is_between(low, high)).then(number(name))
    return found


def _grouped(name: str, starts: Mapping[int, str], most: int) -> polars.Expr:
    """The first code of the group that a code falls in."""
    pl = polars_module()
    found: polars.Expr = pl.lit(None)
    for start in sorted(starts):
        found = pl.when(number(name) >= start).then(start).otherwise(found)
    within: polars.Expr = pl.when(number(name) <= most).then(found).cast(pl.UInt16)
    return within


def _state(name: str) -> polars.Expr:
    """The code of a state, from the code or from its two letters."""
    pl = polars_module()
    codes = {name: code for code, name in STATES.items()} | {str(code): code for code in STATES}
    # "06" and 6 and "6.0" are one code.
    text = pl.col(name).cast(pl.String).str.to_uppercase().str.strip_chars_start("0").str.strip_suffix(".0")
    state: polars.Expr = text.replace_strict(codes, default=None, return_dtype=pl.UInt8)
    return state
