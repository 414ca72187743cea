"""What ``import logofair`` offers, and that it offers it without importing everything."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import logofair

ROOMS = ("auditing", "datasets", "federation", "metrics", "testing", "tradeoff", "words")


def test_every_public_name_is_there_and_no_other():
    assert sorted(logofair.__all__) == logofair.__all__
    for name in logofair.__all__:
        assert getattr(logofair, name) is not None
    assert dir(logofair) == logofair.__all__
    assert len(logofair.__all__) <= 16


def test_the_functions_are_not_hidden_by_modules_of_the_same_name():
    import logofair.auditing
    import logofair.fitting.fit

    assert callable(logofair.audit)
    assert callable(logofair.fit)


def test_an_unknown_name_is_refused():
    assert not hasattr(logofair, "unfair")


def test_importing_the_package_imports_no_heavy_library():
    code = "import logofair, sys; print(sorted({'numpy', 'scipy', 'sklearn', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_fitting_needs_neither_scikit_learn_nor_pandas():
    code = (
        "import logofair, sys; logofair.fit([0.9, 0.2], None, sensitive_features=['a', 'b'], calibration='none'); "
        "print(sorted({'sklearn', 'pandas', 'rich', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["logofair", *(f"logofair.{room}" for room in ROOMS)])
def test_every_public_name_has_an_example_and_a_place_in_the_reference(module: str) -> None:
    room = import_module(module)
    reference = (Path(__file__).parents[1] / "docs" / "api" / "index.md").read_text("utf-8")
    for name in room.__all__:
        thing = getattr(room, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert ">>>" in (inspect.getdoc(thing) or ""), f"{module}.{name}"
            assert re.search(rf"^   (\w+\.)*{name}$", reference, re.MULTILINE), f"{module}.{name}"
