"""Values as bytes and back: a JSON head that names types and fields, then the raw numbers of its arrays.

The same bytes travel through every engine, and lie in checkpoints. Only the types of :data:`WIRE_TYPES` can be written
or read, so that what can travel is what is declared there; nothing is ever executed. Floats keep every bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.errors import InputError

# What a peer may make us hold in memory: far above any message of the protocol.
LARGEST = 1 << 26
_LARGEST_HEAD = 1 << 24  # of its text, of which a byte can take a hundred when read
_DTYPES = {"f": np.dtype("<f8"), "i": np.dtype("<i8"), "u": np.dtype("<u8"), "b": np.dtype("|b1")}

SPOKEN = 32  # hexadecimal digits of a digest that people compare

# Types that may travel, by name; filled by :func:`wire_type`.
WIRE_TYPES: dict[str, type] = {}


def wire_type(kind: type) -> type:
    """Declare a dataclass as one that may travel."""
    WIRE_TYPES[kind.__name__] = kind
    return kind


def encode(value: object) -> bytes:
    """Return a value of a declared type as bytes."""
    blobs: list[bytes] = []
    head = json.dumps(_tree(value, blobs), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([len(head).to_bytes(4, "big"), head, *blobs])


def decode(data: bytes) -> Any:
    """Rebuild what :func:`encode` wrote, or raise ``InputError`` where the bytes are anything else."""
    if not isinstance(data, bytes) or not 4 <= len(data) <= LARGEST:
        raise InputError("message: not bytes of a sensible length; it was damaged or is no message of logofair.")
    end = 4 + int.from_bytes(data[:4], "big")
    if end > min(len(data), _LARGEST_HEAD):
        raise InputError("message: says that it is longer than it is, or than any; it was damaged.")
    try:
        tree = json.loads(data[4:end].decode(), parse_constant=_finite, parse_float=_finite)
        blobs = BytesIO(data[end:])
        value = _value(tree, blobs)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        raise InputError("message: its contents are damaged or of another version of logofair.") from None
    if blobs.read(1):
        raise InputError("message: has bytes left over; it was damaged.")
    return value


def spoken_digest(digest: bytes) -> str:
    """A digest as people read it to each other: its first 128 bits, so that nobody makes two of one, in groups of four.

    Examples
    --------
    >>> spoken_digest(bytes(range(32)))
    '0001-0203-0405-0607-0809-0a0b-0c0d-0e0f'
    """
    return digest[: SPOKEN // 2].hex("-", 2)


def _finite(text: str) -> float:
    """A number of the head; JSON as Python reads it also knows NaN and infinity, which :func:`encode` never writes."""
    if not math.isfinite(number := float(text)):
        raise ValueError("number")
    return number


def _taken(blobs: BytesIO, size: int) -> bytes:
    """The next piece of the raw part of a message."""
    if len(piece := blobs.read(size)) != size:
        raise ValueError("size")
    return piece


def _tree(value: object, blobs: list[bytes]) -> Any:
    """A JSON value; arrays and bytes go to ``blobs`` in the order met."""
    if isinstance(value, np.ndarray):
        code = value.dtype.kind
        blobs.append(np.ascontiguousarray(value, dtype=_DTYPES[code]).tobytes())
        return {"#": code, "shape": list(value.shape)}
    if isinstance(value, bytes):
        blobs.append(value)
        return {"#": "bytes", "shape": [len(value)]}
    if is_dataclass(value) and WIRE_TYPES.get(type(value).__name__) is type(value):
        return {"@": type(value).__name__, **{f.name: _tree(getattr(value, f.name), blobs) for f in fields(value)}}
    if isinstance(value, list | tuple):
        return [_tree(part, blobs) for part in value]
    if isinstance(value, Mapping):
        return {"{": [[str(key), _tree(part, blobs)] for key, part in value.items()]}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"a {type(value).__name__} cannot travel")


def _value(tree: Any, blobs: BytesIO) -> Any:
    if isinstance(tree, list):
        return tuple(_value(part, blobs) for part in tree)
    if isinstance(tree, str):
        tree.encode()  # half a surrogate pair can be read from JSON but never written again
    if not isinstance(tree, dict):
        return tree
    if "#" in tree:
        return _raw(tree["#"], tree["shape"], blobs)
    if "{" in tree:
        return {str(_value(key, blobs)): _value(part, blobs) for key, part in tree["{"]}
    kind = WIRE_TYPES[tree.pop("@")]
    names = [f.name for f in fields(kind)]
    if list(tree) != names:
        raise ValueError("fields")
    return kind(**{name: _value(tree[name], blobs) for name in names})


def _raw(code: str, shape: list[int], blobs: BytesIO) -> bytes | npt.NDArray[Any]:
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError("shape")
    if code == "bytes":
        return _taken(blobs, shape[0])
    dtype = _DTYPES[code]
    # In Python's integers: a hostile shape must not overflow into a small one.
    return np.frombuffer(_taken(blobs, math.prod(shape) * dtype.itemsize), dtype=dtype).reshape(shape)
