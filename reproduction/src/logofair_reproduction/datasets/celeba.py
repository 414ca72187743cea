"""CelebA (Liu et al. 2015): 202,599 portraits of 10,177 celebrities with 40 attributes; who smiles.

The images are prepared once: cut to squares, resized, stored as one array that is memory-mapped when it is loaded.
Decoding holds Python's lock, so threads win nothing: many images are decoded by processes of their own.
"""

from __future__ import annotations

import io
import shutil
import warnings
import zipfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import shown, whole_number
from logofair.datasets.table import Dataset, chosen
from logofair.errors import InputError
from logofair.progress import Progress, no_progress
from logofair_reproduction.datasets.archives import check_limits
from logofair_reproduction.datasets.facts import terms_of
from logofair_reproduction.datasets.preparing import check_about, new_folder, rows_wanted, write_about

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["load_celeba", "prepare_celeba"]

Pixels: TypeAlias = npt.NDArray[np.uint8]
Booleans: TypeAlias = npt.NDArray[np.bool_]
Readers: TypeAlias = Mapping[str, Callable[[], bytes]]

ATTRIBUTES = "list_attr_celeba.txt"
IDENTITIES = "identity_CelebA.txt"
IMAGES = "img_align_celeba"
N_ATTRIBUTES = 40

# Where the files lie below the folder given: beside each other, as downloaded from the official drive, or one deeper.
_FOLDERS = ("", "Anno", "Img", "celeba")

_SIGNS = frozenset(("-1", "1"))


@dataclass(frozen=True, eq=False)
class _OfficialFiles:
    """All that the official files say: file names, attributes, people, and how to read each image."""

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    values: Booleans
    identities: npt.NDArray[np.int32] | None
    images: Readers

    def image(self, name: str) -> bytes | None:
        """The bytes of an image, None where they cannot be read."""
        try:
            return self.images[name]()
        # A damaged ZIP raises errors of zipfile, zlib, struct and the system.
        except Exception:
            return None


@contextmanager
def _opened(source: Path) -> Iterator[_OfficialFiles]:
    """Read the tables of a folder or ZIP, and hand out the images while it is open."""
    if not source.exists():
        raise InputError(f"{source}: not there; pass the folder or ZIP file that holds CelebA's official files.")
    with ExitStack() as stack:
        tables, images = (_in_folder if source.is_dir() else _in_archive)(source, stack)
        if ATTRIBUTES not in tables:
            raise InputError(f"{source}: holds no {ATTRIBUTES}; pass the folder or ZIP file with CelebA's files.")
        if not images:
            raise InputError(f"{source}: holds no images; put {IMAGES}.zip or the folder {IMAGES} beside {ATTRIBUTES}.")
        try:
            contents = {name: read() for name, read in tables.items()}
        except Exception:  # as in _OfficialFiles.image
            raise InputError(f"{source}: its text files are damaged; download it again.") from None
        try:
            names, attributes, values = _read_attributes(contents[ATTRIBUTES])
            people = _read_identities(contents[IDENTITIES], names) if IDENTITIES in contents else None
        except InputError as error:
            raise InputError(f"{source}: {error}") from None
        yield _OfficialFiles(names, attributes, values, people, images)


def _in_folder(source: Path, stack: ExitStack) -> tuple[Readers, Readers]:
    """How to read the text files and the images of a folder; the images, or all, may be in a ZIP of their own."""
    tables: dict[str, Callable[[], bytes]] = {}
    images: dict[str, Callable[[], bytes]] = {}
    for place in (source / folder for folder in _FOLDERS):
        tables |= {name: (place / name).read_bytes for name in (ATTRIBUTES, IDENTITIES) if (place / name).is_file()}
        if (place / IMAGES).is_dir():
            images |= {path.name: path.read_bytes for path in (place / IMAGES).iterdir()}
        elif (place / f"{IMAGES}.zip").is_file():
            images |= _in_archive(place / f"{IMAGES}.zip", stack)[1]
    archives = sorted(source.glob("*.zip"))
    return _in_archive(archives[0], stack) if ATTRIBUTES not in tables and len(archives) == 1 else (tables, images)


def _in_archive(path: Path, stack: ExitStack) -> tuple[Readers, Readers]:
    """How to read the text files and the images of a ZIP file."""
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
    except (OSError, ValueError, zipfile.BadZipFile):
        raise InputError(f"{path}: is no readable ZIP file, or cut short; download it again.") from None
    check_limits(archive, path)
    members = [(name.split("/"), partial(archive.read, name)) for name in archive.namelist()]
    tables = {parts[-1]: read for parts, read in members if parts[-1] in (ATTRIBUTES, IDENTITIES)}
    return tables, {parts[-1]: read for parts, read in members if parts[-2:-1] == [IMAGES]}


def _read_attributes(content: bytes) -> tuple[tuple[str, ...], tuple[str, ...], Booleans]:
    """File names, attribute names, and whether each image (down) has each attribute (across)."""
    lines = _lines(content, ATTRIBUTES)
    count, attributes, rest = "".join(lines[:1]), tuple("".join(lines[1:2]).split()), lines[2:]
    if len(set(attributes)) != N_ATTRIBUTES or len(attributes) != N_ATTRIBUTES:
        raise InputError(f"{ATTRIBUTES}: line 2 does not name {N_ATTRIBUTES} attributes; download it again.")
    if count != str(len(rest)) or not rest:
        raise InputError(f"{ATTRIBUTES}: line 1 is {shown(count)}, but {len(rest):,} images follow; download it again.")
    values = np.empty((len(rest), N_ATTRIBUTES), dtype=bool)
    names = []
    for place, line in enumerate(rest):
        name, *signs = line.split()
        if len(signs) != N_ATTRIBUTES or not _SIGNS.issuperset(signs):
            raise InputError(f"{ATTRIBUTES}: {shown(name)} lacks {N_ATTRIBUTES} times -1 or 1; download it again.")
        names.append(name)
        values[place] = [sign == "1" for sign in signs]
    return _distinct(names, ATTRIBUTES), attributes, values


def _read_identities(content: bytes, names: tuple[str, ...]) -> npt.NDArray[np.int32]:
    """The number of the person on each image named."""
    rows = [line.split() for line in _lines(content, IDENTITIES)]
    for name, *people in rows:
        if len(people) != 1 or not (people[0].isdecimal() and len(people[0]) <= 9):
            raise InputError(f"{IDENTITIES}: {shown(name)} lacks one person's number; download it again.")
    _distinct([name for name, _ in rows], IDENTITIES)
    person_of = {name: int(person) for name, person in rows}
    missing = next((name for name in names if name not in person_of), None)
    if missing is not None:
        raise InputError(f"{IDENTITIES}: {missing} of {ATTRIBUTES} is not in it; download both again.")
    return np.fromiter((person_of[name] for name in names), dtype=np.int32, count=len(names))


def _lines(content: bytes, where: str) -> list[str]:
    """The lines that are not blank."""
    try:
        lines = content.decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{where}: is no plain text; download it again.") from None
    return [stripped for line in lines if (stripped := line.strip())]


def _distinct(names: list[str], where: str) -> tuple[str, ...]:
    """File names, each of which may be there once."""
    if len(set(names)) != len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise InputError(f"{where}: {shown(twice)} is listed more than once; download it again.")
    return tuple(names)


# Images decoded at a time; at 128 x 128 pixels a batch takes 3 MB.
BATCH = 64
_MOST_PROCESSES = 16


@dataclass(frozen=True, eq=False)
class DecodedImages:
    """The images of a batch that could be decoded, (kept, 3, size, size), and which of the batch they are."""

    pixels: Pixels
    kept: Booleans


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
    return _in_processes(batches, size, min(workers, _MOST_PROCESSES))


def _in_processes(batches: Iterable[list[bytes | None]], size: int, workers: int) -> Iterator[DecodedImages]:
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


def _store_squares(
    path: Path, squares: Iterable[DecodedImages], size: int, source: Path, names: Sequence[str]
) -> Booleans:
    """Write squares to a ``.npy`` file as they come; return which of the images named are in it."""
    kept, done = np.ones(len(names), dtype=bool), 0
    with path.open("wb") as file:
        _write_header(file, 0, size)
        for batch in squares:
            file.write(batch.pixels.tobytes())
            kept[done : done + batch.kept.size] = batch.kept
            done += batch.kept.size
            _check_skipped(source, names, kept)
        file.seek(0)
        _write_header(file, int(kept.sum()), size)  # as long as the first: numpy leaves room for more rows
    return kept


def _check_skipped(source: Path, names: Sequence[str], usable: Booleans) -> None:
    """Raise where more than 1 % of the images cannot be used."""
    skipped = np.flatnonzero(~usable)
    if skipped.size > _MOST_SKIPPED * len(names):
        raise InputError(
            f"{source}: at least {skipped.size:,} of {len(names):,} images are missing or damaged, the first "
            f"{names[skipped[0]]}, more than 1 %; download the images again, or pass a limit if you have only some."
        )


def _write_header(file: BinaryIO, rows: int, size: int) -> None:
    shape = (rows, 3, size, size)
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})


_NAME = "celeba"
_IMAGES, _VALUES, _PEOPLE = "images.npy", "attributes.npy", "identities.npy"
_MOST_SKIPPED = 0.01
_NAMES_LISTED = 100


def prepare_celeba(
    source: Path,
    into: Path,
    *,
    progress: Progress = no_progress,
    size: int = 128,
    limit: int | None = None,
    workers: int = 1,
) -> Mapping[str, int]:
    """Check CelebA's official files, resize the images, and store all in a folder.

    Of each image the centre square as wide as the image is kept: of 178 x 218 pixels lines 20 to 197 of 0 to 217, of
    89 x 109 lines 10 to 98. It is resized (bilinear, antialiased) to ``size`` x ``size`` pixels of red, green and
    blue. Images that are missing or damaged are skipped and counted; more than 1 % of them are an error.

    ``source`` is a folder with list_attr_celeba.txt, identity_CelebA.txt (optional: without it there are no natural
    clients) and the images, as img_align_celeba.zip or as the folder img_align_celeba; or one ZIP file of all this. The
    rest as of `logofair_reproduction.datasets.catalogue.DatasetInfo`.

    ``size``: width and height of the stored images, 8 to 1024; the paper uses 128. All images take 10 GB at 128, 2.5 GB
    at 64. ``limit``: only the first so many images listed; the paper uses 100,000. ``workers``: processes that decode
    images; a script that asks for more than one must do so below ``if __name__ == "__main__":``.
    """
    if find_spec("PIL") is None:
        raise InputError("prepare_celeba: needs Pillow; install it with: pip install ./reproduction.")
    size = whole_number(size, "size", least=8)
    if size > 1024:
        raise InputError(f"size: got {size}; pass a width of 8 to 1024 pixels.")
    workers = whole_number(workers, "workers")
    limit = None if limit is None else whole_number(limit, "limit")
    with _opened(Path(source)) as official, new_folder(Path(into)) as folder:
        names = official.names[:limit]
        needed = 3 * size * size * len(names)
        if needed > shutil.disk_usage(folder).free:
            fault = f"{len(names):,} images of {size} x {size} need {needed / 1e9:.2g} GB, more than is free"
            raise InputError(f"{into}: {fault}; choose a smaller size or limit, or another folder.")
        squares = to_squares(_batches(official, names, progress), size, workers=workers)
        kept = _store_squares(folder / _IMAGES, squares, size, source, names)
        return _write_tables(folder, official, kept, size)


def _batches(official: _OfficialFiles, names: Sequence[str], progress: Progress) -> Iterator[list[bytes | None]]:
    """The encoded images, some at a time."""
    starts = range(0, len(names), BATCH)
    for start in progress(starts, "Resizing images", total=len(starts)):
        yield [official.image(name) for name in names[start : start + BATCH]]


def _write_tables(folder: Path, official: _OfficialFiles, kept: Booleans, size: int) -> dict[str, int]:
    """Write attributes, identities and what the folder holds; return the counts."""
    names = official.names[: kept.size]
    present = np.array([name in official.images for name in names])
    np.save(folder / _VALUES, np.packbits(official.values[: kept.size][kept], axis=1))
    counts = {
        "rows read": len(names),
        "dropped: image missing": int((~present).sum()),
        "dropped: image damaged": int((present & ~kept).sum()),
        "rows kept": int(kept.sum()),
    }
    notes = [f"There was no {IDENTITIES}, so that nobody knows who is shown and there are no natural clients."]
    if official.identities is not None:
        of_kept = official.identities[: kept.size][kept]
        np.save(folder / _PEOPLE, of_kept)
        counts["people shown"], notes = np.unique(of_kept).size, []
    skipped = [names[row] for row in np.flatnonzero(~kept)[:_NAMES_LISTED]]
    body = {"size": size, "counts": counts, "skipped": skipped, "notes": notes}
    write_about(folder, _NAME, body | {"attributes": list(official.attributes)})
    return counts


def load_celeba(
    folder: Path, *, sensitive: str = "Pale_Skin", target: str = "Smiling", rows: int | None = None
) -> Dataset:
    """Load CelebA from the folder that `prepare_celeba` wrote; the images stay on disk until they are used.

    ``sensitive`` is the attribute that the groups are: those who have it, named as it is, and those "not" to have it;
    ``target`` the attribute that is label 1. ``rows``: only the first so many images, which remain on disk, as rows
    drawn at random could not. The natural clients are the people shown.
    """
    folder = Path(folder)
    about = check_about(folder, _NAME)
    names, images = about["attributes"], np.load(folder / _IMAGES, mmap_mode="r")
    values = np.unpackbits(np.load(folder / _VALUES), axis=1, count=N_ATTRIBUTES).astype(bool)
    people = np.load(folder / _PEOPLE) if "people shown" in about["counts"] else None
    if sensitive == target:
        raise InputError(f"target: {target!r} is the sensitive attribute too; choose two attributes.")
    has = values[:, names.index(chosen(sensitive, names, "sensitive"))]
    label = values[:, names.index(chosen(target, names, "target"))]
    first = slice(rows_wanted(rows, len(images)))
    return Dataset(
        **terms_of(_NAME),
        features=images[first],
        feature_names=(),
        labels=label[first].astype(np.int64),
        sensitive=np.where(has[first], sensitive, f"not {sensitive}"),
        clients=None if people is None else people[first],
        notes=tuple(about["notes"]),
    )
