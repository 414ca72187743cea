"""A server fed with the same totals asks the same on every machine, so that a site can tell what it has to ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support import replaying
from support.replaying import RUNS, STORED, fingerprints, numbers, recorded, store, stored

pytestmark = pytest.mark.federation


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transcripts")
    for name in RUNS:
        store(folder / name, recorded(name))
    return folder


def features_here() -> str:
    """What this processor can do beyond the least that numpy needs."""
    core = np._core._multiarray_umath
    return " ".join(name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name))


@pytest.mark.parametrize("kernels", ["Prescott", "Haswell"])
def test_another_processor_asks_the_same_to_the_bit(transcripts, kernels):
    folders = [str(Path(replaying.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "support.replaying", *(str(transcripts / name) for name in RUNS)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, folders)),
            "OPENBLAS_CORETYPE": kernels,
            "NPY_DISABLE_CPU_FEATURES": features_here() if kernels == "Prescott" else "",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [fingerprints(name, stored(transcripts / name)) for name in RUNS]


@pytest.mark.parametrize("name", RUNS)
def test_other_machines_and_libraries_have_asked_the_same(name):
    known = json.loads((STORED / "fingerprints.json").read_text())
    assert numbers(name, stored(STORED / name)) == known[name], (
        "the server's numbers are not those of the machine that stored them; where the protocol has changed, store "
        "them anew: cd tests && python -m support.replaying --store"
    )


@pytest.mark.parametrize("name", RUNS)
def test_nothing_the_server_does_rests_on_routines_that_may_round_as_they_like(name, transcripts, monkeypatch):
    totals = stored(transcripts / name)
    expected = fingerprints(name, totals)

    def refuse(*_, **__):
        raise AssertionError("not the same on every machine")

    for routine in ("inv", "pinv", "solve", "lstsq", "qr", "svd", "eigh", "cholesky", "norm", "det"):
        monkeypatch.setattr(np.linalg, routine, refuse)
    for routine in ("einsum", "tensordot", "dot", "vdot", "inner", "matmul", "power", "interp"):
        monkeypatch.setattr(np, routine, refuse)
    for routine in ("exp", "log", "log1p", "expm1"):  # right up to their last digit
        exact = getattr(np, routine)
        monkeypatch.setattr(np, routine, lambda values, exact=exact: exact(values) * (1.0 + 2.0**-52))
    assert fingerprints(name, totals) == expected
