"""CelebA: official files in every layout, squares of pixels out, damaged images and wrong files refused."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from logofair.errors import InputError
from logofair_reproduction.datasets import celeba
from logofair_reproduction.datasets.celeba import load_celeba, prepare_celeba
from support.data import DATA

Image = pytest.importorskip("PIL.Image")

ATTRIBUTES = [*(f"Attribute_{i}" for i in range(37)), "Male", "Pale_Skin", "Smiling"]
WIDTH, HEIGHT = 8, 11
ROWS = 300


def encoded(pixels: np.ndarray, form: str = "PNG") -> bytes:
    """An image file; PNG by default, which loses nothing, whatever its name says."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form, **({"quality": 95} if form == "JPEG" else {}))
    return file.getvalue()


def names_of(n: int) -> list[str]:
    return [f"{i + 1:06d}.jpg" for i in range(n)]


def attribute_lines(signs: np.ndarray, names: Iterable[str], header: Iterable[str] = ATTRIBUTES) -> str:
    rows = [f"{name} {' '.join(f'{sign:2d}' for sign in row)}" for name, row in zip(names, signs, strict=True)]
    return "\n".join([str(len(signs)), " ".join(header) + " ", *rows]) + "\n"


class Faces:
    """A small CelebA: random pixels, attributes and people, as official files."""

    def __init__(self, folder: Path, n: int = ROWS, shape: tuple[int, int] = (HEIGHT, WIDTH)) -> None:
        rng = np.random.default_rng(n)
        self.folder, self.names = folder, names_of(n)
        self.pixels = rng.integers(0, 256, (n, *shape, 3), dtype=np.uint8)
        self.signs = rng.choice([-1, 1], (n, 40))
        self.people = rng.integers(1, 40, n)
        (folder / "img_align_celeba").mkdir(parents=True)
        for name, pixels in zip(self.names, self.pixels, strict=True):
            self.image(name).write_bytes(encoded(pixels))
        self.write("list_attr_celeba.txt", attribute_lines(self.signs, self.names))
        people = [f"{name} {person}\n" for name, person in zip(self.names, self.people, strict=True)]
        self.write("identity_CelebA.txt", "".join(people))

    def image(self, name: str) -> Path:
        return self.folder / "img_align_celeba" / name

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="ascii")

    @property
    def squares(self) -> np.ndarray:
        """The centre squares, red first: one line goes at the top and two at the bottom."""
        return self.pixels[:, 1:9].transpose(0, 3, 1, 2)


@pytest.fixture
def faces(tmp_path: Path) -> Faces:
    return Faces(tmp_path / "official")


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "celeba"


def zipped(path: Path, folder: Path, prefix: str) -> None:
    """A ZIP of a folder's files, below a prefix."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, prefix + file.relative_to(folder).as_posix())


def moved(faces: Faces, layout: str) -> Path:
    """The same files in another layout."""
    root = faces.folder
    if layout in ("zip", "zip without a folder"):
        zipped(root.with_suffix(".zip"), root, "celeba/" if layout == "zip" else "")
        return root.with_suffix(".zip")
    if layout in ("images zipped", "official drive"):
        zipped(root / "img_align_celeba.zip", root / "img_align_celeba", "img_align_celeba/")
        shutil.rmtree(root / "img_align_celeba")
    if layout == "official drive":
        for name in ("Anno", "Img"):
            (root / name).mkdir()
        for name in ("list_attr_celeba.txt", "identity_CelebA.txt"):
            (root / name).rename(root / "Anno" / name)
        (root / "img_align_celeba.zip").rename(root / "Img" / "img_align_celeba.zip")
    return root.parent if layout == "one deeper" and root.rename(root.with_name("celeba")) else root


@pytest.mark.parametrize(
    "layout", ["folder", "zip", "zip without a folder", "images zipped", "official drive", "one deeper"]
)
def test_every_layout_gives_the_same_pixels_attributes_and_people(faces: Faces, into: Path, layout: str) -> None:
    counts = prepare_celeba(moved(faces, layout), into, size=WIDTH)
    assert counts == {
        "rows read": ROWS,
        "rows kept": ROWS,
        "people shown": len(set(faces.people.tolist())),
    }
    data = load_celeba(into)
    np.testing.assert_array_equal(data.features, faces.squares)
    np.testing.assert_array_equal(data.labels, faces.signs[:, 39] == 1)
    np.testing.assert_array_equal(data.sensitive == "Pale_Skin", faces.signs[:, 38] == 1)
    np.testing.assert_array_equal(data.sites, faces.people)


def test_any_attribute_can_be_the_groups(faces: Faces, into: Path) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH, limit=50)
    for place, name in enumerate(ATTRIBUTES[:-1]):
        data = load_celeba(into, sensitive=name)
        np.testing.assert_array_equal(data.sensitive, np.where(faces.signs[:50, place] == 1, name, f"not {name}"))


def test_the_crop_of_an_official_portrait_leaves_20_lines_off_at_either_end() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (218, 178, 3), dtype=np.uint8)
    cut = np.asarray(celeba.cut_square(Image.fromarray(pixels), 178))
    np.testing.assert_array_equal(cut, pixels[20:198])


def test_the_crop_of_a_wide_image_takes_its_middle() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 9, 3), dtype=np.uint8)
    np.testing.assert_array_equal(np.asarray(celeba.cut_square(Image.fromarray(pixels), 4)), pixels[:, 2:6])


def test_resizing_keeps_an_even_rise_of_brightness_in_place() -> None:
    rise = np.repeat(np.arange(128, dtype=np.uint8)[:, None], 128, axis=1)
    halved = np.asarray(celeba.cut_square(Image.fromarray(rise), 64)).astype(float)
    inside = slice(2, -2)  # at the ends the filter has nothing beyond to weigh
    expected = np.repeat((2.0 * np.arange(64) + 0.5)[:, None], 64, axis=1)
    np.testing.assert_allclose(halved[inside], expected[inside], atol=0.5)


def test_grey_and_palette_images_become_red_green_and_blue(tmp_path: Path, into: Path) -> None:
    faces = Faces(tmp_path / "official", n=3)
    grey, palette = np.full((10, 8), 77, dtype=np.uint8), io.BytesIO()
    Image.new("P", (8, 10), 0).save(palette, "PNG")
    for name, data in zip(faces.names, (encoded(grey), encoded(grey, "JPEG"), palette.getvalue()), strict=True):
        faces.image(name).write_bytes(data)
    prepare_celeba(faces.folder, into, size=8)
    assert np.all(np.asarray(load_celeba(into).features)[:2] == 77)


def test_features_stay_a_read_only_memory_map_until_rows_are_taken(faces: Faces, into: Path) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH)
    assert {path.name for path in into.iterdir()} == {"about.json", "attributes.npy", "identities.npy", "images.npy"}
    data = load_celeba(into)
    assert isinstance(data.features, np.memmap)
    assert not data.features.flags.writeable
    assert (data.feature_names, data.features.shape) == ((), (ROWS, 3, WIDTH, WIDTH))
    assert repr(data).startswith(f"Dataset(celeba: {ROWS} rows, 8 x 8 images, ")
    taken = data.take([7, 3])
    assert taken.row_numbers.tolist() == [7, 3]
    assert not isinstance(taken.features, np.memmap)
    np.testing.assert_array_equal(taken.features, faces.squares[[7, 3]])


@pytest.mark.parametrize("damage", ["no image", "cut short", "empty", "missing"])
def test_a_damaged_or_missing_image_is_named_and_the_older_folder_stays(faces: Faces, into: Path, damage: str) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH)
    before = sorted((path.name, path.read_bytes()) for path in into.iterdir())
    path = faces.image("000010.jpg")
    complete = encoded(faces.pixels[9].repeat(9, axis=0), "JPEG")
    contents = {"no image": b"no image", "cut short": complete[: len(complete) // 2], "empty": b""}
    path.unlink() if damage == "missing" else path.write_bytes(contents[damage])
    with pytest.raises(InputError, match=rf"^{faces.folder}: the image 000010\.jpg is missing or damaged; "):
        prepare_celeba(faces.folder, into, size=WIDTH)
    assert sorted((path.name, path.read_bytes()) for path in into.iterdir()) == before
    assert [path.name for path in into.parent.iterdir()] == ["celeba"]


def test_a_damaged_entry_of_a_zip_is_a_damaged_image(faces: Faces, into: Path) -> None:
    source = moved(faces, "zip")
    pixels = faces.image("000002.jpg").read_bytes()
    source.write_bytes(source.read_bytes().replace(pixels, pixels[:-40] + bytes(40)))
    with pytest.raises(InputError, match=r"the image 000002\.jpg is missing or damaged"):
        prepare_celeba(source, into, size=WIDTH)


def test_a_limit_takes_the_first_images_listed_and_needs_no_others(faces: Faces, into: Path) -> None:
    for name in faces.names[40:]:
        faces.image(name).unlink()
    assert prepare_celeba(faces.folder, into, size=WIDTH, limit=40)["rows kept"] == 40
    np.testing.assert_array_equal(load_celeba(into).features, faces.squares[:40])


def test_without_identities_there_are_no_natural_sites(faces: Faces, into: Path) -> None:
    (faces.folder / "identity_CelebA.txt").unlink()
    assert "people shown" not in prepare_celeba(faces.folder, into, size=WIDTH)
    data = load_celeba(into)
    assert data.sites is None
    (note,) = data.notes
    assert note.startswith("There was no identity_CelebA.txt, ")


LINE = "000001.jpg" + " -1" * 40
HEADER = " ".join(ATTRIBUTES)
WRONG_ATTRIBUTES = {
    "a count too many": f"2\n{HEADER}\n{LINE}\n",
    "no rows": f"0\n{HEADER}\n",
    "no count": f"image_id,{','.join(ATTRIBUTES)}\n{LINE}\n",
    "a word for a count": f"many\n{HEADER}\n{LINE}\n",
    "39 attributes": f"1\n{' '.join(ATTRIBUTES[1:])}\n{LINE}\n",
    "an attribute twice": f"1\n{' '.join(ATTRIBUTES[1:])} Male\n{LINE}\n",
    "a zero": f"1\n{HEADER}\n{LINE[:-2]}0\n",
    "a line too short": f"1\n{HEADER}\n{LINE[:-3]}\n",
    "a name twice": f"2\n{HEADER}\n{LINE}\n{LINE}\n",
    "an empty file": "",
    "no text": "\x80",
}


@pytest.mark.parametrize("fault", WRONG_ATTRIBUTES)
def test_wrong_tables_of_attributes_are_refused_in_one_sentence(faces: Faces, into: Path, fault: str) -> None:
    (faces.folder / "list_attr_celeba.txt").write_text(WRONG_ATTRIBUTES[fault], encoding="latin-1")
    with pytest.raises(InputError, match=f"^{faces.folder}: list_attr_celeba.txt is .*; download it again[.]$"):
        prepare_celeba(faces.folder, into, size=WIDTH)
    assert not into.exists()


@pytest.mark.parametrize("text", ["000001.jpg 1\n", "000001.jpg someone\n", "000001.jpg\n"])
def test_wrong_tables_of_people_are_refused(faces: Faces, into: Path, text: str) -> None:
    faces.write("identity_CelebA.txt", text)
    with pytest.raises(InputError, match=f"^{faces.folder}: identity_CelebA.txt lacks the number of a person"):
        prepare_celeba(faces.folder, into, size=WIDTH)


def test_sources_that_are_no_celeba_are_refused(faces: Faces, tmp_path: Path, into: Path) -> None:
    def refusal(source: Path) -> str:
        with pytest.raises(InputError) as caught:
            prepare_celeba(source, into, size=WIDTH)
        return str(caught.value)

    assert "nowhere: not there; pass the folder or ZIP" in refusal(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "holds no list_attr_celeba.txt" in refusal(tmp_path / "empty")
    assert "holds no list_attr_celeba.txt" in refusal(faces.image("000001.jpg"))
    cut_short = moved(faces, "zip")
    cut_short.write_bytes(cut_short.read_bytes()[:-500])
    assert "is damaged, or packed by a method that cannot be read here; download it again, or unpack it" in refusal(
        cut_short
    )
    shutil.rmtree(faces.folder / "img_align_celeba")
    assert "put img_align_celeba.zip or the folder" in refusal(faces.folder)


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"size": 0}, "size: got 0; pass a whole number of at least 8"),
        ({"size": 4000}, "size: got 4000; pass a width of 8 to 1024"),
        ({"limit": 0}, "limit: got 0"),
    ],
)
def test_choices_that_make_no_sense_are_refused(
    faces: Faces, into: Path, choices: dict[str, int], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        prepare_celeba(faces.folder, into, **choices)


def test_a_disk_too_small_is_found_out_before_it_is_full(
    faces: Faces, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=14_000_000))
    with pytest.raises(InputError, match=r"celeba: 300 images of 128 x 128 need 0\.015 GB, more than is free"):
        prepare_celeba(faces.folder, into, size=128)


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        (
            {"sensitive": "Pale_Skn"},
            r"sensitive: got 'Pale_Skn' \(did you mean 'Pale_Skin'\?\); use one of Attribute_0",
        ),
        ({"sensitive": "Smiling"}, "sensitive: 'Smiling' is the label; choose another attribute"),
    ],
)
def test_attributes_that_are_not_there_are_refused(
    faces: Faces, into: Path, choices: dict[str, object], sentence: str
) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH)
    with pytest.raises(InputError, match=sentence):
        load_celeba(into, **choices)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["images.npy", "attributes.npy", "identities.npy"])
def test_a_prepared_folder_that_was_damaged_says_so(faces: Faces, into: Path, name: str) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH)
    whole = (into / name).read_bytes()
    for content in (None, whole[:-1], whole[:40], b""):
        (into / name).unlink() if content is None else (into / name).write_bytes(content)
        with pytest.raises(
            InputError, match=rf"{name}: is missing or damaged; prepare it again: logofair data prepare"
        ):
            load_celeba(into)


def test_progress_is_shown_for_every_image(faces: Faces, into: Path) -> None:
    seen: list[tuple[str, int, int]] = []

    def progress(steps: Iterable[int], what: str, total: int) -> Iterable[int]:
        listed = list(steps)
        seen.append((what, total, len(listed)))
        return listed

    prepare_celeba(faces.folder, into, size=WIDTH, progress=progress)  # type: ignore[arg-type]
    assert seen == [("Resizing images", ROWS, ROWS)]


def test_terms_and_harms_are_stated(faces: Faces, into: Path) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH)
    data = load_celeba(into)
    assert data.licence.startswith("Non-commercial research only")
    assert "Liu, Z." in data.citation
    for subject in ("celebrities", "consent", "annotators", "Pale_Skin is not race", "Smiling is subjective"):
        assert any(subject in harm for harm in data.known_harms), subject


def test_the_real_sample_is_prepared(into: Path) -> None:
    source = DATA / "celeba" / "celeba_10k.zip"
    if not source.is_file():
        pytest.skip("the CelebA sample is not here; set LOGOFAIR_DATA")
    counts = prepare_celeba(source, into, size=89, limit=200)
    assert (counts["rows read"], counts["rows kept"]) == (200, 200)
    data = load_celeba(into)
    with zipfile.ZipFile(source) as archive:
        table = archive.read("celeba/list_attr_celeba.txt").decode().splitlines()
        first = np.asarray(Image.open(io.BytesIO(archive.read("celeba/img_align_celeba/000001.jpg"))))
    np.testing.assert_array_equal(data.features[0], first[10:99].transpose(2, 0, 1))
    attributes, rows = table[1].split(), [line.split() for line in table[2:202]]
    for name, column in (("Smiling", data.labels == 1), ("Pale_Skin", data.sensitive == "Pale_Skin")):
        np.testing.assert_array_equal(column, [row[1 + attributes.index(name)] == "1" for row in rows])
    assert data.sites is not None
    assert data.sites[:4].tolist() == [2880, 2937, 8692, 5805]
