"""CelebA (Liu et al. 2015): 202,599 portraits of 10,177 celebrities with 40 attributes; who smiles.

The images are prepared once: cut to squares, resized, stored as one array that is memory-mapped when it is loaded.
"""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import shown, whole_number
from logofair.datasets.cache import advice_again, check_about, new_folder, write_about
from logofair.datasets.images import (
    BATCH,
    Booleans,
    DecodedImages,
    Pixels,
    image_size,
    needs_pillow,
    store_squares,
    to_squares,
)
from logofair.datasets.prepared import chosen, rows_wanted
from logofair.datasets.table import Dataset
from logofair.datasets.terms import terms_of
from logofair.errors import InputError
from logofair.files.documents import of_type, or_damaged
from logofair.progress import Progress, no_progress

__all__ = ["load_celeba", "prepare_celeba"]


ATTRIBUTES = "list_attr_celeba.txt"
IDENTITIES = "identity_CelebA.txt"
IMAGES = "img_align_celeba"
N_ATTRIBUTES = 40

# Where the files lie below the folder given: beside each other, as downloaded from the official drive, or one deeper.
_FOLDERS = ("", "Anno", "Img", "celeba")

_SIGNS = frozenset(("-1", "1"))
Readers: TypeAlias = Mapping[str, Callable[[], bytes]]


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
            names, attributes, values = read_attributes(contents[ATTRIBUTES])
            people = read_identities(contents[IDENTITIES], names) if IDENTITIES in contents else None
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
    members = [(name.split("/"), partial(archive.read, name)) for name in archive.namelist()]
    tables = {parts[-1]: read for parts, read in members if parts[-1] in (ATTRIBUTES, IDENTITIES)}
    return tables, {parts[-1]: read for parts, read in members if parts[-2:-1] == [IMAGES]}


def read_attributes(content: bytes) -> tuple[tuple[str, ...], tuple[str, ...], Booleans]:
    """File names, attribute names, and whether each image (down) has each attribute (across)."""
    lines = _lines(content, ATTRIBUTES)
    if len(lines) < 2:
        raise InputError(f"{ATTRIBUTES}: has no line of attribute names; download it again.")
    (_, count), (_, header), *rest = lines
    attributes = tuple(header.split())
    _check_header(count, attributes, len(rest))
    values = np.empty((len(rest), N_ATTRIBUTES), dtype=bool)
    names = []
    for place, (number, line) in enumerate(rest):
        name, *signs = _fields(line, number, ATTRIBUTES, 1 + N_ATTRIBUTES)
        names.append(name)
        values[place] = [sign == "1" for sign in signs]
        if not _SIGNS.issuperset(signs):
            attribute, wrong = next((a, sign) for a, sign in zip(attributes, signs, strict=True) if sign not in _SIGNS)
            raise InputError(
                f"{ATTRIBUTES}: line {number} has {shown(wrong)} for {attribute}, not -1 or 1; download it again."
            )
    return _distinct(names, ATTRIBUTES), attributes, values


def _check_header(count: str, attributes: tuple[str, ...], rows: int) -> None:
    """Raise unless the first line says how many rows follow, and the second names all attributes."""
    if not count.isdecimal():
        raise InputError(
            f"{ATTRIBUTES}: line 1 is {shown(count)}, not the number of images; pass the official text file."
        )
    if len(attributes) != N_ATTRIBUTES or len(set(attributes)) != N_ATTRIBUTES:
        n_names = len(set(attributes))
        raise InputError(f"{ATTRIBUTES}: names {n_names} attributes, not {N_ATTRIBUTES}; download it again.")
    if int(count) != rows or not rows:
        raise InputError(f"{ATTRIBUTES}: line 1 says {int(count):,} images, but {rows:,} follow; download it again.")


def read_identities(content: bytes, names: tuple[str, ...]) -> npt.NDArray[np.int32]:
    """The number of the person on each image named."""
    rows = [_fields(line, number, IDENTITIES, 2) for number, line in _lines(content, IDENTITIES)]
    _distinct([row[0] for row in rows], IDENTITIES)
    for name, person in rows:
        if not (person.isdecimal() and len(person) <= 9):
            raise InputError(f"{IDENTITIES}: {name} has the person {shown(person)}; people are numbers.")
    person_of = {name: int(person) for name, person in rows}
    missing = next((name for name in names if name not in person_of), None)
    if missing is not None:
        raise InputError(f"{IDENTITIES}: {missing} of {ATTRIBUTES} is not in it; download both again.")
    return np.fromiter((person_of[name] for name in names), dtype=np.int32, count=len(names))


def _lines(content: bytes, where: str) -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    try:
        lines = enumerate(content.decode("ascii").splitlines(), start=1)
    except UnicodeDecodeError:
        raise InputError(f"{where}: is no plain text; download it again.") from None
    return [(number, stripped) for number, line in lines if (stripped := line.strip())]


def _fields(line: str, number: int, where: str, expected: int) -> list[str]:
    fields = line.split()
    if len(fields) != expected:
        raise InputError(f"{where}: line {number} has {len(fields)} fields, not {expected}; download it again.")
    return fields


def _distinct(names: list[str], where: str) -> tuple[str, ...]:
    """File names, each of which may be there once."""
    if len(set(names)) != len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise InputError(f"{where}: {shown(twice)} is listed more than once; download it again.")
    return tuple(names)


_NAME = "celeba"
_IMAGES, _VALUES, _PEOPLE = "images.npy", "attributes.npy", "identities.npy"
_KEPT, _SHOWN = "rows kept", "people shown"
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
    rest as of `logofair.datasets.catalogue.DatasetInfo`.

    Parameters
    ----------
    size : int
        Width and height of the stored images, 8 to 1024; the paper uses 128. All images take 10 GB at 128, 2.5 GB at
        64.
    limit : int, optional
        Only the first so many images listed; the paper uses 100,000.
    workers : int
        Processes that decode images. A script that asks for more than one must do so below
        ``if __name__ == "__main__":``.
    """
    needs_pillow("prepare_celeba")
    size = image_size(size)
    workers = whole_number(workers, "workers")
    limit = None if limit is None else whole_number(limit, "limit")
    with _opened(Path(source)) as official, new_folder(Path(into)) as folder:
        names = official.names[:limit]
        present = np.array([name in official.images for name in names])
        _check_skipped(source, names, present)
        _check_space(into, folder, names, size)
        squares = to_squares(_batches(official, names, progress), size, workers=workers)
        try:
            kept = store_squares(folder / _IMAGES, _not_too_many_skipped(source, squares, names), size)
        except OSError as error:
            raise InputError(f"{into}: cannot be written ({error.strerror or error}); make room.") from None
        return _write_tables(folder, official, present, kept, size)


def _batches(official: _OfficialFiles, names: Sequence[str], progress: Progress) -> Iterator[list[bytes | None]]:
    """The encoded images, some at a time."""
    starts = range(0, len(names), BATCH)
    for start in progress(starts, "Resizing images", total=len(starts)):
        yield [official.image(name) for name in names[start : start + BATCH]]


def _not_too_many_skipped(
    source: Path, squares: Iterator[DecodedImages], names: Sequence[str]
) -> Iterator[DecodedImages]:
    """Hand squares on, until it is clear that too many images are missing or damaged."""
    kept = np.ones(len(names), dtype=bool)
    done = 0
    for batch in squares:
        kept[done : done + batch.kept.size] = batch.kept
        done += batch.kept.size
        _check_skipped(source, names, kept)
        yield batch


def _check_skipped(source: Path, names: Sequence[str], usable: Booleans) -> None:
    """Raise where more than 1 % of the images cannot be used."""
    skipped = np.flatnonzero(~usable)
    if skipped.size > _MOST_SKIPPED * len(names):
        raise InputError(
            f"{source}: at least {skipped.size:,} of {len(names):,} images are missing or damaged, the first "
            f"{names[skipped[0]]}, more than 1 %; download the images again, or pass a limit if you have only some."
        )


def _check_space(into: Path, folder: Path, names: Sequence[str], size: int) -> None:
    """Raise where the disk is too small, before it is full."""
    needed, free = 3 * size * size * len(names), shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"{into}: {len(names):,} images of {size} x {size} need {_room(needed)}, but only {_room(free)} are free; "
            "choose a smaller size or limit, or another folder."
        )


def _room(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _write_tables(
    folder: Path, official: _OfficialFiles, present: Booleans, kept: Booleans, size: int
) -> dict[str, int]:
    """Write attributes, identities and what the folder holds; return the counts."""
    names = official.names[: kept.size]
    np.save(folder / _VALUES, np.packbits(official.values[: kept.size][kept], axis=1))
    counts = {
        "rows read": len(names),
        "dropped: image missing": int((~present).sum()),
        "dropped: image damaged": int((present & ~kept).sum()),
        _KEPT: int(kept.sum()),
    }
    notes = [f"There was no {IDENTITIES}, so that nobody knows who is shown and there are no natural clients."]
    if official.identities is not None:
        of_kept = official.identities[: kept.size][kept]
        np.save(folder / _PEOPLE, of_kept)
        counts[_SHOWN], notes = np.unique(of_kept).size, []
    skipped = [names[row] for row in np.flatnonzero(~kept)[:_NAMES_LISTED]]
    body = {"size": size, "counts": counts, "skipped": skipped, "notes": notes}
    write_about(folder, _NAME, body | {"attributes": list(official.attributes)})
    return counts


def load_celeba(
    folder: Path, *, sensitive: str = "Pale_Skin", target: str = "Smiling", rows: int | None = None
) -> Dataset:
    """Load CelebA from the folder that `prepare_celeba` wrote; the images stay on disk until they are used.

    Parameters
    ----------
    folder : Path
        The prepared folder.
    sensitive : str
        The attribute that the groups are: those who have it, named as it is, and those "not" to have it.
    target : str
        The attribute that is label 1.
    rows : int, optional
        Only the first so many images: they remain on disk, as rows drawn at random could not.

    Returns
    -------
    Dataset
        Its natural clients are the people shown.
    """
    folder = Path(folder)
    about = check_about(folder, _NAME)
    names, images, values, people = or_damaged(
        lambda: _stored(folder, about), folder, what="prepared images", remedy=advice_again(_NAME, folder)
    )
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


def _stored(folder: Path, about: dict[str, Any]) -> tuple[list[str], Pixels, Booleans, npt.NDArray[np.int32] | None]:
    """Attribute names, images, attributes and identities as they were written; raise on anything else."""
    names, size = of_type(about["attributes"], list), of_type(about["size"], int)
    n_rows = of_type(about["counts"][_KEPT], int)
    try:
        images = np.load(folder / _IMAGES, mmap_mode="r")
        packed = np.load(folder / _VALUES)
        people = np.load(folder / _PEOPLE) if _SHOWN in about["counts"] else None
    except (OSError, EOFError):
        raise ValueError("a file is missing or cut short") from None
    values = np.unpackbits(packed, axis=1, count=N_ATTRIBUTES).astype(bool)
    shapes = (images.shape, values.shape, n_rows if people is None else people.size)
    if shapes != ((n_rows, 3, size, size), (n_rows, len(names)), n_rows):
        raise ValueError("files of differing length")
    return names, images, values, people
