"""CelebA's official files: the tables of attributes and identities, and the images, in a folder or in a ZIP."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from logofair.datasets.images import Booleans
from logofair.inputs import InputError, shown

__all__ = ["Official", "Pictures", "opened", "read_attributes", "read_identities"]

ATTRIBUTES = "list_attr_celeba.txt"
IDENTITIES = "identity_CelebA.txt"
IMAGES = "img_align_celeba"
N_ATTRIBUTES = 40

# Where the files lie below the folder given: beside each other, as downloaded from the official drive, or one deeper.
_TABLE_FOLDERS = ("", "Anno", "celeba")
_IMAGE_FOLDERS = ("", "Img", "celeba")

_SIGNS = frozenset(("-1", "1"))


@dataclass(frozen=True, eq=False)
class Pictures:
    """The encoded images: ``places`` says by file name where each is, ``read`` gets it from there."""

    places: Mapping[str, str]
    read: Callable[[str], bytes]

    def get(self, name: str) -> bytes | None:
        """The bytes of an image, None where they cannot be read."""
        try:
            return self.read(self.places[name])
        # A damaged ZIP raises errors of zipfile, zlib, struct and the system.
        except Exception:
            return None


@dataclass(frozen=True, eq=False)
class Official:
    """All that the official files say: file names, attributes, people, and the images themselves."""

    names: tuple[str, ...]
    attributes: tuple[str, ...]
    values: Booleans
    identities: npt.NDArray[np.int32] | None
    pictures: Pictures


@contextmanager
def opened(source: Path) -> Iterator[Official]:
    """Read the tables of a folder or ZIP, and hand out the images while it is open."""
    if not source.exists():
        raise InputError(f"{source}: not there; pass the folder or ZIP file that holds CelebA's official files.")
    source = _only_archive(source) or source
    with ExitStack() as stack:
        if source.is_dir():
            tables = {name: path.read_bytes() for name in (ATTRIBUTES, IDENTITIES) if (path := _table(source, name))}
            pictures = _pictures(source, stack)
        else:
            archive = stack.enter_context(_archive(source))
            tables, pictures = _tables_inside(archive, source), _inside(archive)
        if ATTRIBUTES not in tables:
            raise InputError(f"{source}: holds no {ATTRIBUTES}; pass the folder or ZIP file with CelebA's files.")
        if not pictures.places:
            raise InputError(f"{source}: holds no images; put {IMAGES}.zip or the folder {IMAGES} beside {ATTRIBUTES}.")
        with _inside_of(source):
            names, attributes, values = read_attributes(tables[ATTRIBUTES])
            people = read_identities(tables[IDENTITIES], names) if IDENTITIES in tables else None
        yield Official(names, attributes, values, people, pictures)


@contextmanager
def _inside_of(source: Path) -> Iterator[None]:
    """Say of which folder or ZIP file a sentence speaks."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _only_archive(source: Path) -> Path | None:
    """The ZIP of a folder that holds nothing else to read."""
    if not source.is_dir() or _table(source, ATTRIBUTES) is not None:
        return None
    archives = sorted(source.glob("*.zip"))
    return archives[0] if len(archives) == 1 else None


def _table(source: Path, name: str) -> Path | None:
    paths = (source / folder / name for folder in _TABLE_FOLDERS)
    return next((path for path in paths if path.is_file()), None)


def _pictures(source: Path, stack: ExitStack) -> Pictures:
    """The images of a folder, or of the official ZIP in it."""
    for place in (source / folder for folder in _IMAGE_FOLDERS):
        if (place / IMAGES).is_dir():
            with os.scandir(place / IMAGES) as entries:
                return Pictures({entry.name: entry.path for entry in entries}, _read_path)
        if (path := place / f"{IMAGES}.zip").is_file():
            return _inside(stack.enter_context(_archive(path)))
    return Pictures({}, _read_path)


def _read_path(path: str) -> bytes:
    return Path(path).read_bytes()


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, ValueError, zipfile.BadZipFile):
        raise InputError(f"{path}: is no readable ZIP file, or cut short; download it again.") from None


def _tables_inside(archive: zipfile.ZipFile, source: Path) -> dict[str, bytes]:
    """The tables of a ZIP, by name."""
    inside = {path.rsplit("/", 1)[-1]: path for path in archive.namelist()}
    try:
        return {name: archive.read(inside[name]) for name in (ATTRIBUTES, IDENTITIES) if name in inside}
    except Exception:  # as in Pictures.get
        raise InputError(f"{source}: its text files are damaged; download it again.") from None


def _inside(archive: zipfile.ZipFile) -> Pictures:
    """The images of a ZIP."""
    paths = ((path, path.split("/")) for path in archive.namelist())
    return Pictures({parts[-1]: path for path, parts in paths if parts[-2:-1] == [IMAGES]}, archive.read)


def read_attributes(content: bytes) -> tuple[tuple[str, ...], tuple[str, ...], Booleans]:
    r"""File names, attribute names, and whether each image (down) has each attribute (across).

    Examples
    --------
    >>> rows = b"1\n" + b" ".join(b"A%d" % i for i in range(40)) + b"\n000001.jpg" + b" 1 -1" * 20
    >>> names, attributes, values = read_attributes(rows)
    >>> names, attributes[:2], values[0, :2]
    (('000001.jpg',), ('A0', 'A1'), array([ True, False]))
    """
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
    r"""The number of the person on each image named.

    Examples
    --------
    >>> read_identities(b"000001.jpg 2880\n000002.jpg 2937\n", ("000002.jpg", "000001.jpg"))
    array([2937, 2880], dtype=int32)
    """
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
