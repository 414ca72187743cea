"""Columns of labels (groups, sites) as integers, without missing values: any hashable labels, any number of them.

A column that holds codes already (a categorical of pandas or polars, a dictionary of Arrow) is numbered by these.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Integers, Label, column, nearest_name, shown
from logofair.columns.segments import PIECE, Indices
from logofair.errors import InputError

# Integer labels spanning at most this many values per row are looked up in a table instead of sorted.
_TABLE_SPAN = 4

# Up to so many groups may have a row or two each, and all of so few rows one: beyond, the column is one of ids.
_MANY_GROUPS, _FEW_ROWS = 20, 5

# The numpy kinds that hold a list of one plain type without changing any value (2**63 beside -1 becomes a float).
_EXACT_KINDS = {bool: "b", int: "iu", float: "f"}


# A column's own codes, -1 where a label is missing, and what gives the labels of some codes.
_NativeCodes: TypeAlias = tuple[npt.NDArray[Any], Callable[[npt.NDArray[np.intp]], Any]]


@dataclass(frozen=True)
class Codes:
    """A column of labels as integers: ``names[codes[i]]`` is row i's label; ``column`` is its name, if it has one."""

    names: tuple[Label, ...]
    codes: Integers
    column: str | None = None

    def __len__(self) -> int:
        return self.codes.size

    def by_name(self) -> list[tuple[Label, npt.NDArray[np.intp]]]:
        """Each label with the rows it stands in, in their order."""
        order = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.names)))[:-1]
        return list(zip(self.names, np.split(order, ends), strict=True))

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The column itself, as objects."""
        table = np.empty(len(self.names), dtype=object)
        for i, name in enumerate(self.names):  # one by one: numpy would unpack tuples
            table[i] = name
        return table[self.codes]


def check_sites(named: Iterable[Label], sites: Codes, where: str) -> None:
    """Raise where one of the sites that are named has no rows."""
    known = set(sites.names)
    for name in named:
        if name not in known:
            raise InputError(
                f"{where}: names site {name!r}, which has no rows{nearest_name(name, known)}; "
                f"there are {len(known)} sites, the first is {sites.names[0]!r}."
            )


def check_groups(names: Sequence[Label], rows: int, where: str = "sensitive_features") -> None:
    """Raise where a column of groups names people rather than groups, or writes one group in two ways."""
    if len(names) == rows > _FEW_ROWS or len(names) > max(rows / 2, _MANY_GROUPS):
        raise InputError(
            f"{where}: {len(names):,} groups among {rows:,} rows; name a column of groups to compare, such as sex, not "
            "one of ids or numbers."
        )
    check_spelling(names, where)


def check_spelling(names: Sequence[Label], where: str) -> None:
    """Raise where two labels are written alike, or differ by capitals, by blanks, or by what nobody sees alone."""
    written: dict[str, Label] = {}
    seen: dict[str, Label] = {}
    for name in names:
        if (other := written.setdefault(str(name), name)) is not name:
            raise InputError(f"{where}: {other!r} and {name!r} are both written {name}; rename one of them.")
        if not isinstance(name, str):
            continue
        read = name
        if not name.isascii():  # marks of no width, and accents that are written in two ways
            read = "".join(sign for sign in unicodedata.normalize("NFC", name) if unicodedata.category(sign) != "Cf")
        if (other := seen.setdefault(" ".join(read.split()).casefold(), name)) != name:
            same = unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", str(other))
            one, two = map(ascii if same else shown, (other, name))  # accents that are written in two ways
            raise InputError(
                f"{where}: {one} and {two} differ by capitals or blanks alone, or look the same; write them alike, or "
                "rename one of them."
            )


def one_site(rows: int) -> Codes:
    """The sites of rows that have none: one site, named None, which no row of a user's can be."""
    return Codes((None,), np.zeros(rows, dtype=np.int32))


def encode(values: object, where: str) -> Codes:
    """Number the labels of a column in sorted order (order of text where they do not compare), if they are not yet."""
    if isinstance(values, Codes):
        return values
    native = _native_codes(values)
    return _encode_array(_labels(values, where), where) if native is None else _encode_native(*native, where)


def encode_known(values: object, names: Sequence[Label], where: str) -> Integers:
    """Number the labels of a column by their place in ``names``; -1 where a label is not among them.

    A column that was numbered by these names already (`Codes`, -1 where a label is not among them) stays as it is.
    """
    if isinstance(values, Codes) and values.names == tuple(names):
        return values.codes
    if (native := _native_codes(values)) is not None:
        found = _encode_native(*native, where)
    else:
        array = _labels(values, where)
        if (places := _integer_places(array, names)) is not None:
            return places
        found = _encode_array(array, where)
    place = {name: i for i, name in enumerate(names)}
    lookup = np.array([place.get(name, -1) for name in found.names], dtype=np.int32)
    return lookup[found.codes] if lookup.size else found.codes


def _integer_places(array: npt.NDArray[Any] | list[Any], names: Sequence[Label]) -> Integers | None:
    """The same by a table, where labels and names are integers that lie close together; else None."""
    if isinstance(array, list) or array.dtype.kind not in "ui" or array.dtype == np.uint64:
        return None
    if not names or not all(type(n) is int for n in names):
        return None
    low, high = min(cast("Sequence[int]", names)), max(cast("Sequence[int]", names))
    if high - low >= max(1024, _TABLE_SPAN * len(names)) or low <= -(2**63) or high >= 2**63 - 1:
        return None
    table = np.full(high - low + 3, -1, dtype=np.int32)
    table[np.asarray(names) - (low - 1)] = np.arange(len(names), dtype=np.int32)
    # Clip in 64 bits before subtracting: narrow types wrap round, and far values would too.
    return table[np.clip(array.astype(np.int64), low - 1, high + 1) - (low - 1)]


def _native_codes(values: Any) -> _NativeCodes | None:
    """The codes of a categorical or text column of a library (-1: missing), and the labels of codes; else None."""
    library = type(values).__module__.partition(".")[0]
    if library == "pandas":
        values = getattr(values, "array", values) if getattr(values, "nlevels", 1) == 1 else None
        if hasattr(values, "categories") and hasattr(values, "codes"):
            return values.codes, values.categories.take
        if getattr(getattr(values, "dtype", None), "storage", "") == "pyarrow":
            values, library = values.__arrow_array__(), "pyarrow"
    if library == "pyarrow" and str(getattr(values, "type", "")).startswith(("dictionary", "string", "large_string")):
        values = values.dictionary_encode()
        if hasattr(values, "combine_chunks"):
            values = values.unify_dictionaries().combine_chunks()
        if values.dictionary.null_count:  # then a label is missing where its index is not
            values = values.dictionary_decode().dictionary_encode()
        indices = values.indices.fill_null(-1) if values.null_count else values.indices
        return np.asarray(indices), values.dictionary.take
    if library == "polars" and str(getattr(values, "dtype", "")).startswith(("Categorical", "Enum", "String")):
        polars = sys.modules["polars"]  # loaded, since it made the column
        texts = values.cast(polars.Categorical) if str(values.dtype) == "String" else values
        codes = texts.to_physical()

        def labels(some: npt.NDArray[np.intp]) -> Any:
            return polars.Series(some, dtype=codes.dtype).cat.to(texts.dtype).to_list()

        return (codes.cast(polars.Int64).fill_null(-1) if codes.null_count() else codes).to_numpy(), labels
    return None


def _encode_native(codes: npt.NDArray[Any], labels_of: Callable[[npt.NDArray[np.intp]], Any], where: str) -> Codes:
    """Number labels by the codes that stand for them, of which not all need occur."""
    if codes.min(initial=0) < 0:
        raise _missing(int(np.argmax(codes < 0)), where)
    present = np.flatnonzero(np.bincount(codes))
    known = _encode_array(_labels(labels_of(present), where), where)
    table = np.zeros(present.max(initial=-1) + 1, dtype=np.int32)
    table[present] = known.codes
    return Codes(known.names, np.take(table, codes))


def _labels(values: object, where: str) -> npt.NDArray[Any] | list[Any]:
    """Return a column of labels as an array of their own kind, or of objects; a list of text as it is."""
    if isinstance(values, list) and values and isinstance(values[0], str):
        return values
    array = _listed(values) if isinstance(values, list | tuple) else column(values, where)
    return array if array.dtype.kind in "buifcmMOU" else np.fromiter(array.tolist(), dtype=object, count=array.size)


def _encode_array(array: npt.NDArray[Any] | list[Any], where: str) -> Codes:
    """Number the labels of an array, or of a list of text."""
    if isinstance(array, list) or array.dtype.kind in "OU":
        return _encode_objects(array, where)
    if array.dtype.kind in "bui" and array.size:
        return _encode_integers(array)
    empty = np.isnat(array) if array.dtype.kind in "mM" else np.isnan(array)
    if empty.any():
        raise _missing(int(np.argmax(empty)), where)
    names, codes = np.unique(array, return_inverse=True)
    return Codes(tuple(names.tolist()), codes.astype(np.int32))


def _missing(row: int, where: str) -> InputError:
    return InputError(
        f"{where}: row {row} is missing; drop such rows, or give them a label of their own such as 'unknown'."
    )


def labels_or_none(values: object, where: str) -> list[Label | None]:
    """Return a column of labels, None where one is missing."""
    array = _listed(values) if isinstance(values, list | tuple) else column(values, where)
    return [None if _is_nan(label) else label for label in array.tolist()]


def _listed(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return a list as an array of the same values; numpy makes 1 into "1" beside text, and a matrix of tuples."""
    types = set(map(type, values))
    kinds = _EXACT_KINDS.get(types.pop(), "") if len(types) == 1 else ""
    if kinds:
        array = np.asarray(values)
        if array.dtype.kind in kinds:
            return array
    return np.fromiter(values, dtype=object, count=len(values))


def _is_nan(value: object) -> bool:
    """Whether a label is None, NaN, NaT or pandas.NA: all but None differ from themselves."""
    if isinstance(value, tuple):  # a NaN inside would make every row a group of its own
        return any(part is not None and _is_nan(part) for part in value)
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError, ArithmeticError):  # pandas.NA and arrays refuse to be a bool; a signalling NaN fails
        return type(value).__name__ == "NAType"


def _encode_integers(array: npt.NDArray[Any]) -> Codes:
    low, high = int(array.min()), int(array.max())
    if high - low < max(1024, _TABLE_SPAN * array.size):
        # From the lowest one on; the array's own type might wrap round.
        above, least = (array - array.dtype.type(low), 0) if array.dtype.kind == "u" else (array, low)
        offset = above.astype(np.intp, copy=False)
        offset = offset - least if least else offset
        present = np.flatnonzero(np.bincount(offset, minlength=high - low + 1))
        names = tuple(low + step for step in present.tolist())  # in Python: low may be beyond int64
        if array.dtype.kind == "b":
            names = tuple(bool(name) for name in names)
        if len(names) == high - low + 1:
            return Codes(names, offset.astype(np.int32))
        table = np.zeros(high - low + 1, dtype=np.int32)
        table[present] = np.arange(present.size, dtype=np.int32)
        return Codes(names, table[offset])
    names_array, codes = np.unique(array, return_inverse=True)
    return Codes(tuple(names_array.tolist()), codes.astype(np.int32))


def _encode_objects(rows: npt.NDArray[Any] | list[Any], where: str) -> Codes:
    """Number text and objects: equal rows first, since they are many, then their labels."""
    distinct = _distinct(rows, where)
    codes, some = (None, rows) if distinct is None else distinct
    try:
        place: defaultdict[Any, int] = defaultdict(count().__next__)  # numbers in order of appearance
        values = some if isinstance(some, list) else some.tolist()
        numbers, labels = np.fromiter(map(place.__getitem__, values), dtype=np.int32, count=len(values)), list(place)
    except TypeError:
        for row, value in enumerate(rows):
            if _is_nan(value):
                raise _missing(row, where) from None
        for value in rows:
            try:
                hash(value)
            except TypeError:
                raise InputError(
                    f"{where}: labels must be hashable (text, numbers, tuples), got {shown(value)}."
                ) from None
        raise
    codes = numbers if codes is None else numbers[codes]
    empty = np.fromiter(map(_is_nan, labels), dtype=bool, count=len(labels))
    if empty.any():
        raise _missing(int(np.argmax(empty[codes])), where)
    # Comparing with a numpy scalar may overflow in the cast.
    labels = [name.item() if isinstance(name, np.generic) else name for name in labels]
    names = sorted_labels(labels)
    sorted_place = {name: i for i, name in enumerate(names)}
    rank = np.fromiter(map(sorted_place.__getitem__, labels), dtype=np.int32, count=len(labels))
    return Codes(tuple(names), rank[codes] if rank.size else codes)


def sorted_labels(labels: Iterable[Label]) -> list[Any]:
    """Labels in order; of mixed types any fixed order will do."""
    given: list[Any] = list(labels)
    try:
        return sorted(given)
    except TypeError:
        return sorted(given, key=lambda label: (type(label).__name__, str(label)))


def _distinct(rows: npt.NDArray[Any] | list[Any], where: str) -> tuple[Integers, npt.NDArray[Any]] | None:
    """The number of each row's text or object, and these in order; None where a dictionary is faster."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "U":
        found = distinct_rows(text_words(rows))
    elif mostly_distinct(rows):
        return _distinct_by_pandas(rows, where) if isinstance(rows, np.ndarray) else None
    else:
        rows = np.fromiter(rows, dtype=object, count=len(rows)) if isinstance(rows, list) else rows
        identities = np.frombuffer(np.ascontiguousarray(rows), dtype=np.uintp).reshape(-1, 1)
        found = distinct_rows(identities)
    return None if found is None else (found[0], rows[found[1]])


def _distinct_by_pandas(rows: npt.NDArray[Any], where: str) -> tuple[Integers, npt.NDArray[Any]] | None:
    """The same for text by pandas' hash table, where pandas is loaded: it is faster than a dictionary."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(rows[0]) is not str:
        return None
    try:
        codes, texts = pandas.factorize(rows)
    except TypeError:  # a row that cannot be hashed
        return None
    if set(map(type, texts)) != {str}:
        return None
    if codes.min() < 0:
        raise _missing(int(np.argmax(codes < 0)), where)
    return codes, texts


def plain(label: Label | None) -> Any:
    """Return a label as JSON has it; one of a type that JSON lacks as text."""
    label = label.item() if isinstance(label, np.generic) else label
    fits = label is None or isinstance(label, str | int) or (isinstance(label, float) and math.isfinite(label))
    return label if fits else str(label)


_Words = npt.NDArray[Any]  # unsigned integers, (rows, words)

_FIRST_BITS, _MOST_BITS = 16, 22  # of a table's size: the first round's stays in the cache and mostly suffices
_MOST_ROUNDS = 32  # only rows made to collide need more
_RUNS, _RUN = 64, 64  # objects looked at beforehand
_GOLDEN = 0x9E3779B97F4A7C15


def text_words(texts: npt.NDArray[np.str_]) -> _Words:
    """The characters of each text as words: equal exactly where the texts are."""
    width = texts.dtype.itemsize // 4
    characters = np.zeros((texts.size, width), dtype=np.uint32)
    if characters.size:
        characters = np.ascontiguousarray(texts).view(np.uint32).reshape(texts.size, width)
    # Numpy keeps four bytes for each character, of which most texts need one: fewer words are hashed and compared.
    kind = np.min_scalar_type(int(characters.max(initial=0)))
    words = -(-max(width, 1) * kind.itemsize // 8)
    packed = np.zeros((texts.size, words * 8 // kind.itemsize), dtype=kind)
    for first in range(0, texts.size, PIECE):
        packed[first : first + PIECE, :width] = characters[first : first + PIECE]
    return packed.view(np.uint64)


def distinct_rows(words: _Words) -> tuple[Integers, Indices] | None:
    """Number the distinct rows: each row's number, and the first row of each number, rising.

    A row's words are hashed to a slot of a table, which keeps the first row that it gets; other rows are compared with
    that one, word by word. The few that differ from it go to the next round, with another hash. So the answer is exact
    whatever the hash does, and a million rows cost a few passes.
    None where rows collide on purpose, so that a dictionary is faster.
    """
    numbers = np.empty(words.shape[0], dtype=np.int32)
    left: Indices | None = None  # None: all rows
    found: list[Indices] = []
    for turn in range(_MOST_ROUNDS):
        rows = words if left is None else words[left]
        rest = rows.shape[0]
        bits = _FIRST_BITS if turn == 0 else min(max(rest.bit_length() + 1, 8), _MOST_BITS)
        firsts, place, equal = _one_round(rows, turn, bits)
        place += sum(each.size for each in found)
        here = np.arange(rest) if left is None else left
        found.append(here[firsts])
        if left is None:
            numbers = place
        else:
            numbers[left[equal]] = place[equal]
        left = here[~equal]
        if left.size == 0:
            firsts = np.concatenate(found)
            order = np.argsort(firsts)
            rank = np.empty(order.size, dtype=np.int32)
            rank[order] = np.arange(order.size, dtype=np.int32)
            return rank[numbers], firsts[order]
    return None


def mostly_distinct(objects: Sequence[Any] | npt.NDArray[np.object_]) -> bool:
    """Whether of many rows, in runs sampled evenly, hardly two are the same object."""
    if len(objects) < 16 * _RUNS * _RUN:
        return False
    first = np.linspace(0, len(objects) - _RUN, _RUNS).astype(np.int64)
    some = {id(objects[row]) for row in (first[:, None] + np.arange(_RUN)).ravel().tolist()}
    return len(some) >= 0.999 * _RUNS * _RUN


def _one_round(rows: _Words, turn: int, bits: int) -> tuple[Indices, Integers, npt.NDArray[np.bool_]]:
    """Each slot's first row, every row's slot in the order of these, and whether the row equals that first one."""
    slots = np.empty(rows.shape[0], dtype=np.int32)
    for first in range(0, slots.size, PIECE):
        slots[first : first + PIECE] = _slots(rows[first : first + PIECE], turn, bits)
    table = np.full(1 << bits, -1, dtype=np.int32)
    table[slots[::-1]] = np.arange(slots.size - 1, -1, -1, dtype=np.int32)  # of equal slots the last one written stays
    used = np.flatnonzero(table >= 0)
    firsts = table[used].astype(np.int64)
    table[used] = np.arange(used.size, dtype=np.int32)
    place, equal, known = table[slots], np.empty(slots.size, dtype=bool), rows[firsts]
    for first in range(0, slots.size, PIECE):
        piece = slice(first, first + PIECE)
        equal[piece] = True
        for word in range(rows.shape[1]):
            equal[piece] &= rows[piece, word] == known[place[piece], word]
    return firsts, place, equal


def _slots(rows: _Words, turn: int, bits: int) -> npt.NDArray[np.uint64]:
    """A sum of the words, each times an odd number of its own, of which the upper bits depend on all."""
    factors = [np.uint64((_GOLDEN * (2 * (turn * rows.shape[1] + word) + 1)) % 2**64) for word in range(rows.shape[1])]
    hashed = rows[:, 0] * factors[0]
    for word in range(1, rows.shape[1]):
        hashed += rows[:, word] * factors[word]
    hashed ^= hashed >> np.uint64(32)  # a second word of text counts in the upper half alone
    hashed *= factors[0]
    return hashed >> np.uint64(64 - bits)
