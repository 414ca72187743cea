"""CelebA (Liu et al. 2015): 202,599 portraits of 10,177 celebrities with 40 attributes; who smiles.

The images are prepared once: cut to squares, resized, stored as one array that is memory-mapped when it is loaded.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import PIL.Image

from logofair.columns.checks import whole_number
from logofair.datasets.table import Dataset, chosen
from logofair.errors import InputError
from logofair.progress import Progress, no_progress
from logofair_reproduction.datasets.preparing import check_about, new_folder, open_zip, terms_of, write_about

Readers: TypeAlias = Mapping[str, Callable[[], bytes]]

ATTRIBUTES = "list_attr_celeba.txt"
IDENTITIES = "identity_CelebA.txt"
IMAGES = "img_align_celeba"
N_ATTRIBUTES = 40
_LABEL = "Smiling"
_IMAGES, _VALUES, _PEOPLE = "images.npy", "attributes.npy", "identities.npy"
_NOBODY = f"There was no {IDENTITIES}, so that nobody knows who is shown and there are no natural sites."


def prepare_celeba(
    source: Path, into: Path, *, progress: Progress = no_progress, size: int = 128, limit: int | None = None
) -> Mapping[str, int]:
    """Check CelebA's official files, resize the images, and store all in a folder.

    Of each image the centre square as wide as the image is kept: of 178 x 218 pixels lines 20 to 197 of 0 to 217, of
    89 x 109 lines 10 to 98. It is resized (bilinear, antialiased) to ``size`` x ``size`` pixels of red, green and blue.

    ``source`` is a folder with list_attr_celeba.txt, identity_CelebA.txt (optional: without it there are no natural
    sites) and the images, as img_align_celeba.zip or as the folder img_align_celeba; or one ZIP file of all this. The
    rest as of `logofair_reproduction.datasets.catalogue.DatasetInfo`.

    ``size``: width and height of the stored images, 8 to 1024; the paper uses 128. All images take 10 GB at 128, 2.5 GB
    at 64. ``limit``: only the first so many images listed; the paper uses 100,000.
    """
    size = whole_number(size, "size", least=8)
    if size > 1024:
        raise InputError(f"size: got {size}; pass a width of 8 to 1024 pixels.")
    limit = None if limit is None else whole_number(limit, "limit")
    with ExitStack() as stack, new_folder(Path(into)) as folder:
        contents = _contents(Path(source), stack)
        names, attributes, values = _read_attributes(contents, source)
        names, values = names[:limit], values[:limit]
        needed = 3 * size * size * len(names)
        if needed > shutil.disk_usage(folder).free:
            fault = f"{len(names):,} images of {size} x {size} need {needed / 1e9:.2g} GB, more than is free"
            raise InputError(f"{into}: {fault}; choose a smaller size or limit, or another folder.")
        counts = {"rows read": len(names), "rows kept": len(names)}
        people = _read_identities(contents, source, names)
        if people is not None:
            np.save(folder / _PEOPLE, people)
            counts["people shown"] = np.unique(people).size
        np.save(folder / _VALUES, np.packbits(values, axis=1))
        squares = np.lib.format.open_memmap(
            folder / _IMAGES, mode="w+", dtype=np.uint8, shape=(len(names), 3, size, size)
        )
        for place, name in enumerate(progress(names, "Resizing images", len(names))):
            squares[place] = _square(contents, name, size, source)
        squares.flush()
        notes = [] if people is not None else [_NOBODY]
        write_about(folder, "celeba", {"size": size, "counts": counts, "notes": notes, "attributes": list(attributes)})
    return counts


def _contents(source: Path, stack: ExitStack) -> Readers:
    """How to read the text files and the images of a folder or ZIP file, by their own names."""
    if not source.exists():
        raise InputError(f"{source}: not there; pass the folder or ZIP file that holds CelebA's official files.")
    found: dict[str, Callable[[], bytes]] = {}
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        readers: list[tuple[str, str, Callable[[], bytes]]] = [(path.parent.name, path.name, path.read_bytes)]
        if path.suffix.lower() == ".zip":
            archive = stack.enter_context(open_zip(path))
            members = ((Path(name), name) for name in archive.namelist())
            readers = [(member.parent.name, member.name, partial(archive.read, name)) for member, name in members]
        # Images of other folders, such as those that are not aligned, have the same names.
        found |= {name: read for parent, name, read in readers if parent == IMAGES or name in (ATTRIBUTES, IDENTITIES)}
    if ATTRIBUTES not in found:
        raise InputError(f"{source}: holds no {ATTRIBUTES}; pass the folder or ZIP file with CelebA's files.")
    return found


def _read_attributes(contents: Readers, source: Path) -> tuple[list[str], list[str], npt.NDArray[np.bool_]]:
    """File names, attribute names, and whether each image (down) has each attribute (across)."""
    count, *words = _words(contents, ATTRIBUTES, source)
    attributes, cells = words[:N_ATTRIBUTES], np.array(words[N_ATTRIBUTES:])
    complete = count.isdecimal() and cells.size == int(count) * (N_ATTRIBUTES + 1) > 0
    table = cells.reshape(-1, N_ATTRIBUTES + 1) if complete else np.empty((0, 1), dtype=str)
    names, signs = table[:, 0].tolist(), table[:, 1:]
    sound = names and np.isin(signs, ("-1", "1")).all() and len(set(names)) == len(names)
    if not sound or len(set(attributes)) != N_ATTRIBUTES:
        raise InputError(
            f"{source}: {ATTRIBUTES} is not the number of images, {N_ATTRIBUTES} attributes, and for every image its "
            "name and as many times -1 or 1; download it again."
        )
    return names, attributes, signs == "1"


def _read_identities(contents: Readers, source: Path, names: list[str]) -> npt.NDArray[np.int32] | None:
    """The number of the person on each image named, if the files tell."""
    if IDENTITIES not in contents:
        return None
    words = _words(contents, IDENTITIES, source)
    person_of = dict(zip(words[::2], words[1::2], strict=False))
    people = [person_of.get(name, "") for name in names]
    if len(words) % 2 or not all(person.isdecimal() and len(person) <= 9 for person in people):
        raise InputError(f"{source}: {IDENTITIES} lacks the number of a person for some image; download it again.")
    return np.array(people, dtype=np.int32)


def _words(contents: Readers, name: str, source: Path) -> list[str]:
    try:
        return contents[name]().decode("ascii").split() or [""]
    except Exception:  # a damaged ZIP raises errors of zipfile, zlib, struct and the system
        raise InputError(f"{source}: {name} is damaged or no plain text; download it again.") from None


def _square(contents: Readers, name: str, size: int, source: Path) -> npt.NDArray[np.uint8]:
    """One image as (3, size, size)."""
    try:
        with PIL.Image.open(io.BytesIO(contents[name]())) as image:
            return np.asarray(cut_square(image.convert("RGB"), size)).transpose(2, 0, 1)
    except Exception:  # Pillow raises a type of its own for each way in which a file can be damaged
        raise InputError(
            f"{source}: the image {name} is missing or damaged; put {IMAGES}.zip or the folder {IMAGES} beside "
            f"{ATTRIBUTES}, or pass a limit if you have only the first images."
        ) from None


def cut_square(image: PIL.Image.Image, size: int) -> PIL.Image.Image:
    """Cut the centre square as wide as the shorter side, and resize it to ``size`` pixels (bilinear, antialiased).

    Where an odd number of lines is to go, the line more goes at the bottom (or right).
    """
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return image.crop((left, top, left + side, top + side)).resize((size, size), PIL.Image.Resampling.BILINEAR)


def load_celeba(folder: Path, *, sensitive: str = "Pale_Skin") -> Dataset:
    """Load CelebA from the folder that `prepare_celeba` wrote; the images stay on disk until they are used.

    ``sensitive`` is the attribute that the groups are: those who have it, named as it is, and those "not" to have it;
    label 1 is who smiles. The natural sites are the people shown.
    """
    folder = Path(folder)
    about = check_about(folder, "celeba")
    names, images = about["attributes"], np.load(folder / _IMAGES, mmap_mode="r")
    values = np.unpackbits(np.load(folder / _VALUES), axis=1, count=N_ATTRIBUTES).astype(bool)
    people = np.load(folder / _PEOPLE) if "people shown" in about["counts"] else None
    if sensitive == _LABEL:
        raise InputError(f"sensitive: {_LABEL!r} is the label; choose another attribute.")
    has = values[:, names.index(chosen(sensitive, names, "sensitive"))]
    label = values[:, names.index(_LABEL)]
    return Dataset(
        **terms_of("celeba"),
        features=images,
        feature_names=(),
        labels=label.astype(np.int64),
        sensitive=np.where(has, sensitive, f"not {sensitive}"),
        sites=None if people is None else people,
        notes=tuple(about["notes"]),
    )
