"""The page of threats names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "THREATS.md"


def test_every_test_and_file_that_the_page_of_threats_names_is_there():
    text = PAGE.read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:[\w/]+/)?test_\w+\.py)", text))
    names = set(re.findall(r"(?<=[`:])(test_\w+)(?=`)", text))
    assert len(files) > 5
    assert len(names) > 30
    defined = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        defined |= set(re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
    assert not names - defined
    places = (ROOT, ROOT / "tests" / "federation")
    assert not [file for file in files if not any((place / file).is_file() for place in places)]
