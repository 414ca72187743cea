"""Every test here is of the tool; where its packages are not installed, none is collected."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if not all(map(find_spec, ("click", "rich", "polars"))):
    collect_ignore_glob = ["test_*.py"]


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("tool")
