"""Encoded images in, squares of pixels out, stored row after row in one file that can be memory-mapped.

Decoding holds Python's lock, so threads win nothing: many images are decoded by processes of their own.
"""

from __future__ import annotations

import io
import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import whole_number
from logofair.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["DecodedImages", "cut_square", "decode_squares", "store_squares", "to_squares"]

Pixels: TypeAlias = npt.NDArray[np.uint8]
Booleans: TypeAlias = npt.NDArray[np.bool_]

# Images decoded at a time; at 128 x 128 pixels a batch takes 3 MB.
BATCH = 64
_MOST_PROCESSES = 16


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """The images of a batch that could be decoded, (kept, 3, size, size), and which of the batch they are."""

    pixels: Pixels
    kept: Booleans


def needs_pillow(who: str) -> None:
    """Raise where Pillow is missing."""
    if find_spec("PIL") is None:
        raise InputError(f"{who}: needs Pillow; install it with: pip install 'logofair[images]'.")


def cut_square(image: Image, size: int) -> Image:
    """Cut the centre square as wide as the shorter side, and resize it to ``size`` pixels (bilinear, antialiased).

    Where an odd number of lines is to go, the line more goes at the bottom (or right).
    """
    from PIL.Image import Resampling

    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return image.crop((left, top, left + side, top + side)).resize((size, size), Resampling.BILINEAR)


def decode_squares(encoded: list[bytes | None], size: int) -> DecodedImages:
    """Decode a batch of images (None: could not be read); those that are damaged are left out."""
    decoded = [None if data is None else _decoded(data, size) for data in encoded]
    complete = [pixels for pixels in decoded if pixels is not None]
    stack = np.stack(complete) if complete else np.empty((0, 3, size, size), dtype=np.uint8)
    return DecodedImages(stack, np.array([pixels is not None for pixels in decoded], dtype=bool))


def _decoded(data: bytes, size: int) -> Pixels | None:
    """One image as (3, size, size), or None where it is damaged."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)  # a picture so large is no portrait
            with Image.open(io.BytesIO(data)) as image:
                return np.asarray(cut_square(image.convert("RGB"), size)).transpose(2, 0, 1)
    # Pillow raises a type of its own for each way in which a file can be damaged.
    except Exception:
        return None


def to_squares(batches: Iterable[list[bytes | None]], size: int, *, workers: int) -> Iterator[DecodedImages]:
    """Decode batch after batch, in order, by some processes (1: this one alone); few batches are in memory at once."""
    if workers == 1:
        return (decode_squares(batch, size) for batch in batches)
    return _averaged(batches, size, min(workers, _MOST_PROCESSES))


def _averaged(batches: Iterable[list[bytes | None]], size: int, workers: int) -> Iterator[DecodedImages]:
    """Decode batches in fresh processes, two batches for each under way."""
    under_way: deque[Future[DecodedImages]] = deque()
    # Not forked: a process that has threads, such as those of progress bars, may hang in its forks.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            for batch in batches:
                under_way.append(pool.submit(decode_squares, batch, size))
                if len(under_way) >= 2 * workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except BrokenProcessPool:
            raise InputError(
                "workers: the processes that decode images ended early; pass workers=1, or call it below "
                "if __name__ == '__main__': in your script."
            ) from None


def store_squares(path: Path, squares: Iterable[DecodedImages], size: int) -> Booleans:
    """Write squares to a ``.npy`` file as they come; return which of all images are in it."""
    kept = [np.zeros(0, dtype=bool)]
    with path.open("wb") as file:
        _write_header(file, 0, size)
        for batch in squares:
            file.write(batch.pixels.tobytes())
            kept.append(batch.kept)
        file.seek(0)
        every = np.concatenate(kept)
        _write_header(file, int(every.sum()), size)  # as long as the first: numpy leaves room for more rows
        file.flush()
        os.fsync(file.fileno())
    return every


def _write_header(file: BinaryIO, rows: int, size: int) -> None:
    shape = (rows, 3, size, size)
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})


def image_size(size: object) -> int:
    """Return a width in pixels that makes sense."""
    number = whole_number(size, "size", least=8)
    if number > 1024:
        raise InputError(f"size: got {number}; pass a width of 8 to 1024 pixels.")
    return number
