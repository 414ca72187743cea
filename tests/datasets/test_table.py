"""The type of every data set, where its features are images: kept without a copy, taken by rows, refused if odd."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logofair.datasets import Dataset
from logofair.errors import InputError


def faces(images: np.ndarray, **changes: object) -> Dataset:
    n = len(images)
    fields: dict[str, object] = {
        "name": "faces",
        "features": images,
        "feature_names": (),
        "labels": np.arange(n) % 2,
        "sensitive": np.where(np.arange(n) % 3, "a", "b"),
        "sites": np.arange(n) // 2,
        "licence": "ours",
    }
    return Dataset(**(fields | changes))  # type: ignore[arg-type]


def pixels(n: int = 6, height: int = 64, width: int = 64) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 3, height, width), dtype=np.uint8)


def test_images_are_kept_as_they_are_and_not_copied() -> None:
    array = pixels()
    data = faces(array)
    assert data.features is array
    assert (len(data), data.feature_names) == (6, ())


def test_a_read_only_memory_map_stays_one(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", pixels())
    stored = np.load(tmp_path / "images.npy", mmap_mode="r")
    data = faces(stored)
    assert data.features is stored
    taken = data.take([4, 1])
    assert not isinstance(taken.features, np.memmap)
    assert taken.features.flags.writeable
    np.testing.assert_array_equal(taken.features, pixels()[[4, 1]])


def test_taking_rows_of_images_copies_them_with_everything_else() -> None:
    array = pixels()
    taken = faces(array).take(np.array([True, False, False, True, False, False]))
    assert not np.shares_memory(taken.features, array)
    np.testing.assert_array_equal(taken.features, array[[0, 3]])
    np.testing.assert_array_equal(taken.labels, [0, 1])
    np.testing.assert_array_equal(taken.sites, [0, 1])
    assert taken.licence == "ours"


def test_rows_taken_keep_their_numbers_in_the_whole() -> None:
    data = faces(pixels())
    assert data.row_numbers.tolist() == [0, 1, 2, 3, 4, 5]
    assert data.take([5, 2, 3]).take([2, 0]).row_numbers.tolist() == [3, 5]
    assert data.take([False, True, False, False, True, False]).row_numbers.tolist() == [1, 4]
    assert faces(pixels(), numbers=[9, 8, 7, 6, 5, 4]).take([0, 5]).row_numbers.tolist() == [9, 4]


def test_notes_go_with_the_rows() -> None:
    assert faces(pixels(), notes=["of 2021"]).take([1]).notes == ("of 2021",)


def test_the_representation_says_height_and_width() -> None:
    expected = "Dataset(faces: 6 rows, 64 x 64 images, 50.0 % positive, groups a 4, b 2, 3 natural sites)"
    assert repr(faces(pixels())) == expected
    assert "1 row, 5 x 7 images, " in repr(faces(pixels(1, 5, 7)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"features": pixels().astype(np.float32)},
            r"got float32 of shape \(6, 3, 64, 64\); images are uint8 of shape",
        ),
        ({"features": pixels().transpose(0, 2, 3, 1)}, r"got uint8 of shape \(6, 64, 64, 3\); images are uint8"),
        ({"features": pixels()[:, 0]}, r"got uint8 of shape \(6, 64, 64\)"),
        ({"features": pixels()[..., :0]}, r"got uint8 of shape \(6, 3, 64, 0\)"),
        ({"features": pixels()[:0]}, "features: no rows"),
        ({"features": pixels()[:5]}, "labels: has 6 rows, but the first column has 5"),
        ({"numbers": [1, 2]}, "numbers: has 2 rows, but the first column has 6"),
        ({"numbers": [0.5] * 6}, "numbers: expected whole numbers of rows, got values of type float64"),
        ({"feature_names": ("red",)}, "feature_names: got 1 names for images; pass an empty tuple"),
    ],
)
def test_images_of_another_form_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        faces(pixels(), **changes)
