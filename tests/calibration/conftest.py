"""The formulas of calibration hold for any number of rows; how few are summed has its own tests."""

from __future__ import annotations

import pytest

from logofair.calibration import fits


@pytest.fixture(autouse=True)
def _groups_of_any_size(monkeypatch):
    monkeypatch.setattr(fits, "LEAST_ROWS", 0)
