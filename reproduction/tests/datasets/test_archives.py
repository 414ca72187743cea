"""Tables in ZIP files, within limits."""

from __future__ import annotations

import zipfile

import pytest

pytest.importorskip("polars")

from logofair.errors import InputError
from logofair.files import tables
from logofair_reproduction.datasets import preparing
from logofair_reproduction.datasets.preparing import open_zip


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        ("_MOST_MEMBERS", 2, "holds 3 files, more than 2"),
        ("_MOST_BYTES", 1 << 18, "unpacks to more than"),
        ("_ALWAYS_ALLOWED", 1 << 10, "unpacks to more than 200 times its size"),
    ],
)
def test_a_zip_file_that_would_unpack_to_too_much_is_refused(name, limit, words, tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in (("a.csv", "a\n1\n"), ("b.csv", "a\n" + "0\n" * 300_000), ("c.csv", "a\n2\n")):
            archive.writestr(member, content)
    with open_zip(path) as archive:
        assert len(archive.namelist()) == 3
    monkeypatch.setattr(preparing if name == "_MOST_MEMBERS" else tables, name, limit)
    with pytest.raises(InputError, match=words), open_zip(path):
        pytest.fail("it was opened")
