"""Headless Chromium for tests, driven by Playwright; where either is missing, tests that need it skip and say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A browser at rest talks to its maker; tests must not.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def chromium_path() -> str | None:
    """Where Chromium is: LOGOFAIR_CHROMIUM, or the first of its usual names on the path."""
    named = os.environ.get("LOGOFAIR_CHROMIUM")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def running_browser() -> Iterator[Any]:
    """A browser of this test run's own."""
    driver = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright (pip install playwright)")
    path = chromium_path()
    if path is None:
        pytest.skip("browser tests need Chromium (apt-get install chromium, or LOGOFAIR_CHROMIUM=path)")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()
