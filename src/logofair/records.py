"""The one codec: records as plain values, as JSON and as bytes, and back.

A record is a frozen dataclass; its type hints say all that may stand in it, and nothing else is read or written:
text, numbers, bytes, None, labels (``Hashable``), numpy arrays (``Floats`` and the like), tuples, mappings by text, and
other records. Records that share a field descend from a :class:`Family`, and are stored with the name of their class.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Interval:
    ...     low: float
    ...     high: float | None = None
    >>> plain(Interval(0.5)), read({"low": 0.5, "high": 1}, Interval)
    ({'low': 0.5, 'high': None}, Interval(low=0.5, high=1.0))

What is read was written by others: msgspec holds every value to its hint, fields that are not declared are refused as
names that stand twice are, and no number is larger than a float can be. Ranges and shapes are for the record's own
``__post_init__``, or for who reads it. Floats come back to the last bit.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from io import BytesIO
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, TypeVar, get_args, get_origin

import msgspec
import numpy as np
import numpy.typing as npt

from logofair.errors import InputError

_Kind = TypeVar("_Kind")

# What a peer may make us hold in memory: far above any message of the protocol.
_LARGEST = 1 << 26
_LARGEST_HEAD = 1 << 24  # of its text, of which a byte can take a hundred when read
_DTYPES = {"f": np.dtype("<f8"), "i": np.dtype("<i8"), "u": np.dtype("<u8"), "b": np.dtype("|b1")}
_CLASS = "is"  # under which a record of a family says which it is; no field can be called so
_NAMED = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}  # of arrays; JSON has no numbers for these
# What reading may raise, of whatever was written.
FAULTS = (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, msgspec.MsgspecError)


class Family:
    """Records of which a field may hold any: a hint that names the family stands for all of its classes.

    The family itself is no dataclass; those that descend from it are.
    """

    classes: ClassVar[dict[str, type]]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if Family in cls.__bases__:
            cls.classes = {}
        cls.classes[cls.__qualname__] = cls


class Condensed:
    """A record that stands in others as something shorter than its fields, such as a sentence.

    A field that holds one is hinted ``InBrief[Requirement]``, since of a dataclass msgspec would read the fields.
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    def condensed(self) -> Any:
        """Return what stands for it."""
        raise NotImplementedError

    @classmethod
    def expanded(cls, value: Any) -> Any:
        """Return the record that :meth:`condensed` wrote; on anything else another, or raise one of :data:`FAULTS`."""
        raise NotImplementedError


if TYPE_CHECKING:
    InBrief: TypeAlias = Annotated[_Kind, "condensed"]
else:
    InBrief = Condensed


class Intersection(tuple[Hashable, ...]):
    """The label of people who share a value in each of several columns; it knows the columns.

    Examples
    --------
    >>> group = Intersection(("women", "Black"), ("sex", "race"))
    >>> print(group, group.columns, group == ("women", "Black"))
    women and Black ('sex', 'race') True
    """

    columns: tuple[str, ...]

    def __new__(cls, values: Iterable[Hashable], columns: Iterable[str]) -> Intersection:
        """One value for each column."""
        self = super().__new__(cls, values)
        self.columns = tuple(columns)
        return self

    def __str__(self) -> str:
        return " and ".join(map(str, self))

    def __repr__(self) -> str:
        return repr(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Intersection, (tuple(self), self.columns)


# ---------------------------------------------------------------- plain values


def plain(value: object, put: Callable[[npt.NDArray[Any] | bytes], Any] | None = None) -> Any:
    """Return a record, or a tuple or mapping of some, as what JSON knows; ``put`` says how arrays and bytes stand.

    Without it arrays are nested lists, whose infinite numbers are written by name, and bytes are base64 text.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray | bytes):
        return (put or listed)(value)
    if isinstance(value, Condensed):
        return plain(value.condensed(), put)
    if is_dataclass(value):
        found = {field.name: plain(getattr(value, field.name), put) for field in fields(value)}
        return {_CLASS: type(value).__qualname__, **found} if isinstance(value, Family) else found
    if isinstance(value, Intersection):
        return dict(zip(value.columns, plain(tuple(value), put), strict=True))
    if isinstance(value, list | tuple):
        return [plain(part, put) for part in value]
    if isinstance(value, Mapping):
        if not all(isinstance(name, str | int) for name in value):
            raise TypeError("a name that is neither text nor a whole number")
        return {str(name): plain(part, put) for name, part in value.items()}
    raise TypeError(f"a {type(value).__name__} is no part of a record")


class Result:
    """Something that was found, which programs read as plain values: all of its fields, or what :meth:`in_json` says.

    Unlike a record it is never read back, so that it may hold anything.
    """

    def as_dict(self) -> Any:
        """Return plain values, ready for JSON; what is undefined is None."""
        return for_json(self)

    def in_json(self) -> Any:
        """Return what stands for it in JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def for_json(value: object) -> Any:
    """Return results, records, and mappings and lists of some, as JSON has them: what it lacks as text, NaN as None.

    Examples
    --------
    >>> for_json({1: (0.5, math.nan, 1 + 2j), "rows": np.arange(2)})
    {'1': [0.5, None, '(1+2j)'], 'rows': [0, 1]}
    """
    if isinstance(value, Result):
        return for_json(value.in_json())
    if isinstance(value, np.ndarray | np.generic):
        return for_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Condensed):
        return for_json(value.condensed())
    if isinstance(value, Intersection):
        return str(value)
    if is_dataclass(value):
        return {field.name: for_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): for_json(part) for name, part in value.items()}
    return [for_json(part) for part in value] if isinstance(value, list | tuple) else str(value)


def read(tree: Any, kind: type[_Kind]) -> _Kind:
    """Return what :func:`plain` wrote as a record of this kind; raise one of :data:`FAULTS` on anything else.

    Where the record itself refuses its values, with an `InputError`, that is what is raised.
    """
    try:
        found = msgspec.convert(tree, kind, dec_hook=_special)
    except msgspec.ValidationError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, InputError):
                raise cause from None
            cause = cause.__cause__
        raise
    _declared_alone(found, tree)
    return found


def listed(value: npt.NDArray[Any] | bytes) -> Any:
    """Return an array as nested lists, or bytes as base64 text; of an empty array the shape."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if not value.size:
        return {"shape": list(value.shape)}
    listed = value.tolist()
    if value.dtype.kind != "f" or np.isfinite(value).all():
        return listed
    names = {-math.inf: "-Infinity", math.inf: "Infinity"}
    return _each(listed, lambda number: number if math.isfinite(number) else names.get(number, "NaN"))


def _each(values: Any, change: Callable[[Any], Any]) -> Any:
    return [_each(part, change) for part in values] if isinstance(values, list) else change(values)


def _special(kind: Any, value: Any) -> Any:
    """A value of a kind that msgspec does not know."""
    if (get_origin(kind) or kind) is np.ndarray:
        return _array(value, get_args(get_args(kind)[1])[0])
    if get_origin(kind) is InBrief:
        found = get_args(kind)[0].expanded(value)
        if plain(found) != value:
            raise ValueError("written otherwise")
        return found
    if kind is Hashable:
        return _label(value)
    if isinstance(kind, type) and issubclass(kind, Family):
        own = kind.classes[value[_CLASS]]
        if not issubclass(own, kind) or not is_dataclass(own):
            raise TypeError(own.__name__)
        return msgspec.convert(value, own, dec_hook=_special)
    raise TypeError(f"{kind} is no part of a record")


def _array(value: Any, number: Any) -> npt.NDArray[Any]:
    """Numbers of this type: an array that has it, or the nested lists of one."""
    if isinstance(value, np.ndarray):
        if not np.issubdtype(value.dtype, number):
            raise TypeError("array")
        return value
    if isinstance(value, dict):
        (shape,) = value.values()
        if 0 not in shape:
            raise ValueError("shape")
        return np.zeros(shape, dtype=number)
    if not isinstance(value, list):
        raise TypeError("list")
    array = np.asarray(value)
    if array.dtype.kind in "UO":  # some are named, or are no numbers
        array = np.asarray(_each(value, lambda part: _NAMED[part] if isinstance(part, str) else part))
    kinds = {"f": "fi", "i": "i", "u": "iu", "b": "b"}[np.dtype(number).kind]
    if array.size and array.dtype.kind not in kinds:
        raise TypeError("numbers")
    return array.astype(number)


def _label(value: Any) -> Hashable:
    """A label: text, a number, a bool, None, or a tuple of these, which stands as a list, by column as an object."""
    if isinstance(value, list) and not any(isinstance(part, dict) for part in value):
        return tuple(map(_label, value))
    if isinstance(value, dict) and len(value) > 1 and not any(isinstance(part, list | dict) for part in value.values()):
        return Intersection(map(_label, value.values()), value)
    if value is not None and not isinstance(value, str | bool | int | float):
        raise TypeError("label")
    return value


def _declared_alone(found: Any, tree: Any) -> None:
    """Raise where a tree has fields that the record does not, or none at all: of dataclasses msgspec lets that pass."""
    if isinstance(found, Condensed):  # which looks after itself
        return
    if is_dataclass(found):
        if not isinstance(tree, dict) or tree.keys() - {field.name for field in fields(found)} - {_CLASS}:
            raise TypeError("fields")
        if tree.get(_CLASS) != (type(found).__qualname__ if isinstance(found, Family) else None):
            raise TypeError("class")
        for name in tree.keys() - {_CLASS}:
            _declared_alone(getattr(found, name), tree[name])
    elif isinstance(found, tuple) and isinstance(tree, list):
        for part, own in zip(found, tree, strict=False):
            _declared_alone(part, own)
    elif isinstance(found, Mapping) and isinstance(tree, dict):
        for name in found.keys() & tree.keys():
            _declared_alone(found[name], tree[name])


def checked(
    array: npt.NDArray[Any], shape: tuple[int | None, ...], low: float = -math.inf, high: float = math.inf
) -> None:
    """Raise `ValueError` unless an array has this shape (None: any length) and finite numbers from low to high."""
    fits = array.ndim == len(shape) and all(n in (None, length) for n, length in zip(shape, array.shape, strict=True))
    if not fits or not np.all(np.isfinite(array) & (array >= low) & (array <= high)):
        raise ValueError("shape or numbers")


# ---------------------------------------------------------------- JSON


def parsed(text: str, objects: Callable[[dict[str, Any]], Any] = lambda found: found) -> Any:
    """Read JSON as it is written here: no name twice in an object, no number that is none or infinite.

    ``objects`` takes every object, the innermost and first ones first.
    """

    def unique(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        if len(found) != len(pairs):  # of two values under one name readers take either
            raise ValueError("duplicate")
        return objects(found)

    return json.loads(text, object_pairs_hook=unique, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError("number")
    return number


# ---------------------------------------------------------------- bytes


def encode(value: object) -> bytes:
    """Return a record, or a tuple or mapping of some, as bytes: JSON, then the raw numbers of its arrays."""
    blobs: list[bytes] = []

    def put(part: npt.NDArray[Any] | bytes) -> dict[str, Any]:
        if isinstance(part, bytes):
            blobs.append(part)
            return {"#": "bytes", "shape": [len(part)]}
        code = part.dtype.kind
        blobs.append(np.ascontiguousarray(part, dtype=_DTYPES[code]).tobytes())
        return {"#": code, "shape": list(part.shape)}

    head = json.dumps(plain(value, put), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([len(head).to_bytes(4, "big"), head, *blobs])


def decode(data: bytes, kind: type[_Kind]) -> _Kind:
    """Rebuild what :func:`encode` wrote of this kind, or raise ``InputError`` where the bytes are anything else."""
    if not isinstance(data, bytes) or not 4 <= len(data) <= _LARGEST:
        raise InputError("message: not bytes of a sensible length; it was damaged or is no message of logofair.")
    end = 4 + int.from_bytes(data[:4], "big")
    if end > min(len(data), _LARGEST_HEAD):
        raise InputError("message: says that it is longer than it is, or than any; it was damaged.")
    blobs = BytesIO(data[end:])
    try:
        text = data[4:end].decode()
        msgspec.json.decode(text)  # which refuses halves of surrogate pairs
        found = read(parsed(text, partial(_filled, blobs)), kind)
    except FAULTS:
        raise InputError("message: its contents are damaged or of another version of logofair.") from None
    if blobs.read(1):
        raise InputError("message: has bytes left over; it was damaged.")
    return found


def _filled(blobs: BytesIO, found: dict[str, Any]) -> Any:
    """An object of a message's text: where it stands for an array or bytes, these."""
    if "#" not in found:
        return found
    code, shape = found["#"], found["shape"]
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError("shape")
    if code == "bytes":
        (size,) = shape
        return _taken(blobs, size)
    # In Python's integers: a hostile shape must not overflow into a small one.
    piece = _taken(blobs, math.prod(shape) * _DTYPES[code].itemsize)
    return np.frombuffer(piece, dtype=_DTYPES[code]).reshape(shape)


def _taken(blobs: BytesIO, size: int) -> bytes:
    """The next piece of the raw part of a message."""
    if len(piece := blobs.read(size)) != size:
        raise ValueError("size")
    return piece


# ---------------------------------------------------------------- fingerprints

SPOKEN = 32  # hexadecimal digits of a digest that people compare


def spoken_digest(digest: bytes) -> str:
    """A digest as people read it to each other: its first 128 bits, so that nobody makes two of one, in groups of four.

    Examples
    --------
    >>> spoken_digest(bytes(range(32)))
    '0001-0203-0405-0607-0809-0a0b-0c0d-0e0f'
    """
    return digest[: SPOKEN // 2].hex("-", 2)
