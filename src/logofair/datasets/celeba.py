"""CelebA (Liu et al. 2015): 202,599 portraits of 10,177 celebrities with 40 attributes; who smiles.

The images are prepared once: cut to squares, resized, stored as one array that is memory-mapped when it is loaded.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.arguments import whole_number
from logofair.datasets.cache import Watch, advice_again, read_about, unwatched, write_about
from logofair.datasets.celeba_files import IDENTITIES, N_ATTRIBUTES, Official, Pictures, opened
from logofair.datasets.folders import new_folder
from logofair.datasets.images import (
    BATCH,
    Booleans,
    Pixels,
    Squares,
    image_size,
    needs_pillow,
    store_squares,
    to_squares,
)
from logofair.datasets.prepared import chosen
from logofair.datasets.table import Dataset
from logofair.documents import of_type, or_damaged
from logofair.inputs import InputError

__all__ = ["CITATION", "KNOWN_HARMS", "LICENCE", "VERSION", "WHERE", "load_celeba", "prepare_celeba"]

LICENCE = (
    "Non-commercial research only; the images are not the property of the data set's authors, and neither they nor "
    "portions of them may be published, copied further or sold"
)
CITATION = (
    "Liu, Z., Luo, P., Wang, X. and Tang, X. (2015). Deep Learning Face Attributes in the Wild. Proceedings of the "
    "IEEE International Conference on Computer Vision (ICCV). https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
)
KNOWN_HARMS = (
    "The images are of celebrities, collected from the web without their consent; other people look, pose and are "
    "lit differently, so nothing found here holds for a population.",
    "The attributes are judgements of annotators about appearance, not what people say about themselves; many, such "
    "as Attractive, Young or Big_Nose, are subjective, unreliable or demeaning.",
    "Pale_Skin is not race or ethnicity: it is a visual impression that depends on light and make-up, given to about "
    "4 % of the images.",
    "Male records gender as seen by annotators, in two values only.",
    "Smiling is subjective, and says nothing about what people feel.",
    "Light skin, youth and make-up are far more frequent than among people at large, and attributes occur together "
    "in ways that models learn as stereotypes.",
    "The numbers of identities tell which images show the same person: models trained on them can serve to recognise "
    "people, which this data set must not be used for.",
)
WHERE = (
    "Open https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html and read the agreement.",
    "From its drive download img_align_celeba.zip (1.4 GB, folder Img), list_attr_celeba.txt and identity_CelebA.txt "
    "(folder Anno).",
    "Put the three into one folder; the ZIP need not be unpacked.",
    "Run: logofair data prepare celeba --from FOLDER",
)

VERSION = 2

_NAME = "celeba"
_IMAGES, _VALUES, _PEOPLE = "images.npy", "attributes.npy", "identities.npy"
_KEPT, _SHOWN = "rows kept", "people shown"
_MOST_SKIPPED = 0.01
_NAMES_LISTED = 100


def prepare_celeba(
    source: Path,
    into: Path,
    *,
    watch: Watch = unwatched,
    size: int = 128,
    limit: int | None = None,
    workers: int = 1,
) -> Mapping[str, int]:
    """Check CelebA's official files, resize the images, and store all in a folder.

    Of each image the centre square as wide as the image is kept: of 178 x 218 pixels lines 20 to 197 of 0 to 217, of
    89 x 109 lines 10 to 98. It is resized (bilinear, antialiased) to ``size`` x ``size`` pixels of red, green and
    blue. Images that are missing or damaged are skipped and counted; more than 1 % of them are an error.

    Parameters
    ----------
    source : Path
        A folder with list_attr_celeba.txt, identity_CelebA.txt (optional: without it there are no natural clients) and
        the images, as img_align_celeba.zip or as the folder img_align_celeba; or one ZIP file of all this.
    into : Path
        The folder to write, whole or not at all; an older one is replaced.
    watch : Watch
        Shows progress.
    size : int
        Width and height of the stored images, 8 to 1024; the paper uses 128. All images take 10 GB at 128, 2.5 GB at
        64.
    limit : int, optional
        Only the first so many images listed; the paper uses 100,000.
    workers : int
        Processes that decode images. A script that asks for more than one must do so below
        ``if __name__ == "__main__":``.

    Returns
    -------
    mapping of str to int
        Rows read, dropped because the image is missing or damaged, and kept, and the people shown on those kept.

    Examples
    --------
    >>> prepare_celeba(Path("nowhere"), Path("cache"))
    Traceback (most recent call last):
    logofair.inputs.InputError: nowhere: not there; pass the folder or ZIP file that holds CelebA's official files.
    """
    needs_pillow("prepare_celeba")
    size = image_size(size)
    workers = whole_number(workers, "workers")
    limit = None if limit is None else whole_number(limit, "limit")
    with opened(Path(source)) as official, new_folder(Path(into)) as folder:
        names = official.names[:limit]
        present = np.array([name in official.pictures.places for name in names])
        _check_skipped(source, names, present)
        _check_space(into, folder, names, size)
        squares = to_squares(_batches(official.pictures, names, watch), size, workers=workers)
        try:
            kept = store_squares(folder / _IMAGES, _not_too_many_skipped(source, squares, names), size)
        except OSError as error:
            raise InputError(f"{into}: cannot be written ({error.strerror or error}); make room.") from None
        return _write_tables(folder, official, present, kept, size)


def _batches(pictures: Pictures, names: Sequence[str], watch: Watch) -> Iterator[list[bytes | None]]:
    """The encoded images, some at a time."""
    starts = range(0, len(names), BATCH)
    for start in watch(starts, "Resizing images", total=len(starts)):
        yield [pictures.get(name) for name in names[start : start + BATCH]]


def _not_too_many_skipped(source: Path, squares: Iterator[Squares], names: Sequence[str]) -> Iterator[Squares]:
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


def _write_tables(folder: Path, official: Official, present: Booleans, kept: Booleans, size: int) -> dict[str, int]:
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
    write_about(folder, _NAME, VERSION, body | {"attributes": list(official.attributes)})
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

    Examples
    --------
    >>> load_celeba(Path("nowhere"))
    Traceback (most recent call last):
    logofair.inputs.InputError: celeba: nothing prepared in nowhere; run: logofair data prepare celeba --from PATH.
    """
    folder = Path(folder)
    about = read_about(folder, _NAME, VERSION)
    names, images, values, people = or_damaged(
        lambda: _stored(folder, about), folder, what="prepared images", remedy=advice_again(_NAME, folder)
    )
    if sensitive == target:
        raise InputError(f"target: {target!r} is the sensitive attribute too; choose two attributes.")
    has = values[:, names.index(chosen(sensitive, names, "sensitive"))]
    label = values[:, names.index(chosen(target, names, "target"))]
    first = slice(_at_most(rows, len(images)))
    return Dataset(
        name=_NAME,
        features=images[first],
        feature_names=(),
        labels=label[first].astype(np.int64),
        sensitive=np.where(has[first], sensitive, f"not {sensitive}"),
        clients=None if people is None else people[first],
        licence=LICENCE,
        citation=CITATION,
        known_harms=KNOWN_HARMS,
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


def _at_most(rows: int | None, available: int) -> int:
    """How many of the rows to load."""
    wanted = available if rows is None else whole_number(rows, "rows")
    if wanted > available:
        raise InputError(f"rows: got {wanted:,}, but there are {available:,} rows; ask for at most as many.")
    return wanted
