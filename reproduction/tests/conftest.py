"""Without PyTorch the tests of what trains are skipped, and each module says so."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

# Those that train networks, or use what trains them; all others run without PyTorch.
TRAINING = (
    *("bench/test_training", "commands/test_train", "commands/test_reproduce", "flower/test_training_strategies"),
    *(f"experiments/test_{name}" for name in ("measuring", "runner", "scores")),
    *(f"training/test_{name}" for name in ("fairfed", "faults", "fcfl", "fedfb", "local", "networks", "rounds")),
)


class WithoutTorch(pytest.Module):
    """A module whose tests are skipped together."""

    def collect(self) -> list[pytest.Item]:
        pytest.skip("PyTorch is not installed: pip install './reproduction[train]'", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skip the modules that need PyTorch where it is missing."""
    place = module_path.relative_to(Path(__file__).parent).as_posix()
    if find_spec("torch") is None and place.removesuffix(".py") in TRAINING:
        return WithoutTorch.from_parent(parent, path=module_path)
    return None
