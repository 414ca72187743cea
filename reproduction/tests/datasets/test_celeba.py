"""CelebA: official files in every layout, squares of pixels out, damaged images skipped, wrong files refused."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Iterable
from concurrent.futures.process import BrokenProcessPool
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
        "dropped: image missing": 0,
        "dropped: image damaged": 0,
        "rows kept": ROWS,
        "people shown": len(set(faces.people.tolist())),
    }
    data = load_celeba(into)
    np.testing.assert_array_equal(data.features, faces.squares)
    np.testing.assert_array_equal(data.labels, faces.signs[:, 39] == 1)
    np.testing.assert_array_equal(data.sensitive == "Pale_Skin", faces.signs[:, 38] == 1)
    np.testing.assert_array_equal(data.clients, faces.people)


def test_any_attribute_can_be_the_groups_or_the_label(faces: Faces, into: Path) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH, limit=50)
    for place, name in enumerate(ATTRIBUTES[:-1]):
        data = load_celeba(into, sensitive=name)
        np.testing.assert_array_equal(data.sensitive, np.where(faces.signs[:50, place] == 1, name, f"not {name}"))
        np.testing.assert_array_equal(
            load_celeba(into, target=name, sensitive="Smiling").labels, faces.signs[:50, place] == 1
        )


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


def test_grey_and_palette_images_become_red_green_and_blue() -> None:
    grey = np.full((10, 8), 77, dtype=np.uint8)
    file = io.BytesIO()
    Image.new("P", (8, 10), 0).save(file, "PNG")
    squares = celeba.decode_squares([encoded(grey), encoded(grey, "JPEG"), file.getvalue()], 8)
    assert squares.pixels.shape == (3, 3, 8, 8)
    assert np.all(squares.pixels[:2] == 77)


def test_features_stay_a_read_only_memory_map_until_rows_are_taken(faces: Faces, into: Path) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH)
    assert {path.name for path in into.iterdir()} == {"about.json", "attributes.npy", "identities.npy", "images.npy"}
    data = load_celeba(into, rows=120)
    assert isinstance(data.features, np.memmap)
    assert not data.features.flags.writeable
    assert (data.kind, data.feature_names, data.features.shape) == ("images", (), (120, 3, WIDTH, WIDTH))
    assert repr(data).startswith("Dataset(celeba: 120 rows, 8 x 8 images, ")
    taken = data.take([7, 3])
    assert taken.row_numbers.tolist() == [7, 3]
    assert not isinstance(taken.features, np.memmap)
    np.testing.assert_array_equal(taken.features, faces.squares[[7, 3]])


def test_processes_store_the_same_as_one(faces: Faces, into: Path) -> None:
    counts = prepare_celeba(faces.folder, into, size=16, workers=1)
    alone = np.array(load_celeba(into).features)
    assert prepare_celeba(faces.folder, into, size=16, workers=2) == counts
    np.testing.assert_array_equal(load_celeba(into).features, alone)


def test_processes_that_end_early_are_explained(faces: Faces, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(celeba.ProcessPoolExecutor):
        def submit(self, *_: object, **__: object) -> object:  # type: ignore[override]
            raise BrokenProcessPool("died")

    monkeypatch.setattr(celeba, "ProcessPoolExecutor", Broken)
    with pytest.raises(InputError, match="workers: the processes that decode images ended early; pass workers=1"):
        prepare_celeba(faces.folder, into, size=16, workers=2)
    assert not into.exists()


def damage(faces: Faces, numbers: Iterable[int]) -> None:
    """Spoil images in turn: no image at all, cut short, empty, missing."""
    for turn, number in enumerate(numbers):
        path = faces.image(faces.names[number])
        if turn % 4 == 3:
            path.unlink()
        else:
            whole = encoded(faces.pixels[number].repeat(9, axis=0), "JPEG")
            path.write_bytes([b"no image", whole[: len(whole) // 2], b""][turn % 4])


def test_damaged_and_missing_images_are_skipped_counted_and_named(tmp_path: Path, into: Path) -> None:
    faces = Faces(tmp_path / "official", n=400)
    damage(faces, [5, 63, 64, 399])
    counts = prepare_celeba(faces.folder, into, size=WIDTH)
    assert [counts[f"dropped: image {why}"] for why in ("missing", "damaged")] == [1, 3]
    assert counts["rows kept"] == 396
    kept = np.delete(np.arange(400), [5, 63, 64, 399])
    data = load_celeba(into)
    np.testing.assert_array_equal(data.features, faces.squares[kept])
    np.testing.assert_array_equal(data.labels, faces.signs[kept, 39] == 1)
    np.testing.assert_array_equal(data.clients, faces.people[kept])
    about = json.loads((into / "about.json").read_text(encoding="utf-8"))
    body = next(value for value in about.values() if isinstance(value, dict))
    assert body["skipped"] == ["000006.jpg", "000064.jpg", "000065.jpg", "000400.jpg"]
    assert (body["size"], body["counts"]) == (WIDTH, dict(counts))


def test_no_more_than_a_hundred_names_of_skipped_images_are_listed(
    faces: Faces, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert celeba._NAMES_LISTED == 100
    monkeypatch.setattr(celeba, "_NAMES_LISTED", 2)
    damage(faces, [0, 1, 2])
    prepare_celeba(faces.folder, into, size=WIDTH)
    assert '"skipped": [\n   "000001.jpg",\n   "000002.jpg"\n  ]' in (into / "about.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("gone", [False, True])
def test_more_than_one_per_cent_skipped_is_refused_and_the_older_folder_stays(
    faces: Faces, into: Path, gone: bool
) -> None:
    prepare_celeba(faces.folder, into, size=WIDTH)
    before = sorted((path.name, path.read_bytes()) for path in into.iterdir())
    for number in (9, 20, 200, 299):
        path = faces.image(faces.names[number])
        path.unlink() if gone else path.write_bytes(b"spoilt")
    with pytest.raises(
        InputError,
        match=rf"^{faces.folder}: at least 4 of 300 images are missing or damaged, the first 000010\.jpg, more",
    ):
        prepare_celeba(faces.folder, into, size=WIDTH)
    assert sorted((path.name, path.read_bytes()) for path in into.iterdir()) == before
    assert [path.name for path in into.parent.iterdir()] == ["celeba"]


def test_a_damaged_entry_of_a_zip_is_a_damaged_image(faces: Faces, into: Path) -> None:
    source = moved(faces, "zip")
    content = source.read_bytes()
    pixels = faces.image("000002.jpg").read_bytes()
    source.write_bytes(content.replace(pixels, pixels[:-40] + bytes(40)))
    assert prepare_celeba(source, into, size=WIDTH)["dropped: image damaged"] == 1


def test_a_limit_takes_the_first_images_listed_and_needs_no_others(faces: Faces, into: Path) -> None:
    for name in faces.names[40:]:
        faces.image(name).unlink()
    assert prepare_celeba(faces.folder, into, size=WIDTH, limit=40)["rows kept"] == 40
    np.testing.assert_array_equal(load_celeba(into).features, faces.squares[:40])


def test_without_identities_there_are_no_natural_clients(faces: Faces, into: Path) -> None:
    (faces.folder / "identity_CelebA.txt").unlink()
    assert "people shown" not in prepare_celeba(faces.folder, into, size=WIDTH)
    data = load_celeba(into)
    assert data.clients is None
    (note,) = data.notes
    assert note.startswith("There was no identity_CelebA.txt, ")


LINE = "000001.jpg" + " -1" * 40
WRONG_ATTRIBUTES = {
    "a count too many": (f"2\n{' '.join(ATTRIBUTES)}\n{LINE}\n", "line 1 is '2', but 1 images follow"),
    "no rows": (f"0\n{' '.join(ATTRIBUTES)}\n", "line 1 is '0', but 0 images follow"),
    "no count": (f"image_id,{','.join(ATTRIBUTES)}\n{LINE}\n", "line 2 does not name 40 attributes"),
    "a word for a count": (f"many\n{' '.join(ATTRIBUTES)}\n{LINE}\n", "line 1 is 'many', but 1 images follow"),
    "39 attributes": (f"1\n{' '.join(ATTRIBUTES[1:])}\n{LINE}\n", "line 2 does not name 40 attributes"),
    "an attribute twice": (
        f"1\n{' '.join(ATTRIBUTES[1:])} Male\n{LINE}\n",
        "line 2 does not name 40 attributes",
    ),
    "a zero": (f"1\n{' '.join(ATTRIBUTES)}\n{LINE[:-2]}0\n", "'000001.jpg' lacks 40 times -1 or 1"),
    "a line too short": (f"1\n{' '.join(ATTRIBUTES)}\n{LINE[:-3]}\n", "'000001.jpg' lacks 40 times -1 or 1"),
    "a name twice": (f"2\n{' '.join(ATTRIBUTES)}\n{LINE}\n{LINE}\n", "'000001.jpg' is listed more than once"),
    "an empty file": ("", "line 2 does not name 40 attributes"),
}


@pytest.mark.parametrize("fault", WRONG_ATTRIBUTES)
def test_wrong_tables_of_attributes_are_refused_in_one_sentence(faces: Faces, into: Path, fault: str) -> None:
    text, sentence = WRONG_ATTRIBUTES[fault]
    faces.write("list_attr_celeba.txt", text)
    with pytest.raises(InputError, match=f"^{faces.folder}: list_attr_celeba.txt: {sentence}; .*[.]$"):
        prepare_celeba(faces.folder, into, size=WIDTH)
    assert not into.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("000001.jpg 1\n", r"000002.jpg of list_attr_celeba.txt is not in it"),
        ("000001.jpg 1\n000001.jpg 2\n", "'000001.jpg' is listed more than once"),
        ("000001.jpg someone\n", "'000001.jpg' lacks one person's number"),
        ("000001.jpg\n", "'000001.jpg' lacks one person's number"),
    ],
)
def test_wrong_tables_of_people_are_refused(faces: Faces, into: Path, text: str, sentence: str) -> None:
    faces.write("identity_CelebA.txt", text)
    with pytest.raises(InputError, match=f"^{faces.folder}: identity_CelebA.txt: {sentence}"):
        prepare_celeba(faces.folder, into, size=WIDTH)


def test_sources_that_are_no_celeba_are_refused(faces: Faces, tmp_path: Path, into: Path) -> None:
    def refusal(source: Path) -> str:
        with pytest.raises(InputError) as caught:
            prepare_celeba(source, into, size=WIDTH)
        return str(caught.value)

    assert "nowhere: not there; pass the folder or ZIP" in refusal(tmp_path / "nowhere")
    assert "holds no list_attr_celeba.txt" in refusal(tmp_path)
    assert "is no readable ZIP file" in refusal(faces.folder / "list_attr_celeba.txt")
    cut_short = moved(faces, "zip")
    cut_short.write_bytes(cut_short.read_bytes()[:-500])
    assert "is no readable ZIP file, or cut short; download it again" in refusal(cut_short)
    (faces.folder / "list_attr_celeba.txt").write_bytes(b"\xff\xfe1")
    assert "is no plain text" in refusal(faces.folder)
    shutil.rmtree(faces.folder / "img_align_celeba")
    assert "holds no images; put img_align_celeba.zip or the folder" in refusal(faces.folder)


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"size": 0}, "size: got 0; pass a whole number of at least 8"),
        ({"size": 4000}, "size: got 4000; pass a width of 8 to 1024"),
        ({"limit": 0}, "limit: got 0"),
        ({"workers": 0}, "workers: got 0"),
    ],
)
def test_choices_that_make_no_sense_are_refused(
    faces: Faces, into: Path, choices: dict[str, int], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        prepare_celeba(faces.folder, into, **choices)


def test_a_missing_pillow_is_named_with_the_extra(faces: Faces, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celeba, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs Pillow; install it with: pip install ./reproduction"):
        prepare_celeba(faces.folder, into)


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
        ({"target": "Smilng"}, r"target: got 'Smilng' \(did you mean 'Smiling'\?\)"),
        ({"target": "Male", "sensitive": "Male"}, "target: 'Male' is the sensitive attribute too; choose two"),
        ({"rows": 0}, "rows: got 0"),
        ({"rows": 301}, "rows: got 301, but there are 300 rows"),
    ],
)
def test_attributes_and_rows_that_are_not_there_are_refused(
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


def test_progress_is_shown_for_every_batch(faces: Faces, into: Path) -> None:
    seen: list[tuple[str, int, int]] = []

    def progress(steps: Iterable[int], what: str, total: int) -> Iterable[int]:
        listed = list(steps)
        seen.append((what, total, len(listed)))
        return listed

    prepare_celeba(faces.folder, into, size=WIDTH, progress=progress)  # type: ignore[arg-type]
    assert seen == [("Resizing images", 5, 5)]


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
    assert data.clients is not None
    assert data.clients[:4].tolist() == [2880, 2937, 8692, 5805]
