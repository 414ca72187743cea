"""Options that several commands share: their lists are the library's, and they refuse in one sentence."""

from __future__ import annotations

import pytest

from logofair.calibration import METHODS
from logofair.cli import options
from logofair.fitting.pooling import POOLING
from logofair.fitting.solving import _BASES
from logofair.notions import NOTIONS
from logofair.outcomes import FAIL_ON
from support.commandline import refused


def test_the_lists_kept_apart_so_that_help_needs_no_numpy_are_those_of_the_library():
    assert set(options.NOTIONS) == set(NOTIONS)
    assert set(options._CALIBRATIONS) == set(METHODS)
    assert options._BASES == _BASES
    assert options.POOLING == POOLING
    assert options.FAIL_ON == FAIL_ON


@pytest.mark.parametrize("tolerance", ["1", "2", "-0.1", "nan", "inf", "much"])
def test_a_tolerance_for_shares_lies_below_1(tmp_path, tolerance):
    said = refused("fit", tmp_path / "a.csv", "--score", "p", "--local", tolerance, "--out", tmp_path / "policy.json")
    assert "--local" in said
    assert "from 0 to below 1" in said


@pytest.mark.parametrize(
    "words",
    [
        ("federate", "server", "--groups", "F,M", "--folder"),
        ("federate", "example", "--out"),
        ("federate", "simulate", "a.csv", "--site", "site", "--group", "sex", "--folder"),
    ],
)
def test_a_file_where_a_folder_is_wanted_is_refused(tmp_path, words):
    file = tmp_path / "file"
    file.write_text("here")
    assert "is a file" in refused(*words, file)
