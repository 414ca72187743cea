"""NVIDIA FLARE's simulator has the numbers of every other engine; ``make test-nvflare`` has an environment for it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="nvflare is not installed; make test-nvflare makes an environment with it")

from logofair.engines.folder import RunOptions, read_result, write_plan
from logofair.engines.inprocess import run
from logofair.engines.site import SiteSettings, read_site, with_columns
from logofair.federation import Plan, make_plan
from logofair.federation.secure import key_fingerprint, new_signing_key, public_line
from logofair.federation.secure.primitives import private_text
from logofair.files.inputs import ColumnNames
from logofair.policy.policy import Policy

polars = pytest.importorskip("polars")
pytestmark = pytest.mark.federation

SITES = ("east", "north", "south")
COLUMNS = ColumnNames("score", "label", ("sex",))
JOB = resources.files("logofair.engines.nvflare") / "job" / "job.py"
# In a process of its own: FLARE starts threads and processes, sets handlers of signals, and warns.
SIMULATE = """
import json, runpy, sys
from pathlib import Path
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from logofair.engines.nvflare import CLASSES

if __name__ == "__main__":
    policy = Path("flare", "logofair", "local", "resources.json")
    policy.parent.mkdir(parents=True)
    policy.write_text(json.dumps({"format_version": 2, "class_allow_list": [*DEFAULT_CLASS_ALLOW_LIST, *CLASSES]}))
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def with_files(home: Path, plan: Plan) -> dict[str, SiteSettings]:
    """A plan and its sites on disk."""
    (home / "sites").mkdir()
    (home / "keys").mkdir()
    write_plan(home / "plan.json", plan, RunOptions(SITES, wait=60.0, timeout=60.0))
    signing = {site: new_signing_key() for site in SITES}
    trusted = {site: key_fingerprint(public_line(key).encode(), site) for site, key in signing.items()}
    settings = {}
    for number, site in enumerate(SITES):
        rng = np.random.default_rng(number)
        group = rng.integers(0, 2, 150)
        score = rng.beta(1.0 + 0.5 * group, 2.0)
        label = (rng.random(150) < score).astype(int)
        table = {"sex": np.array(["F", "M"])[group], "score": score, "label": label}
        polars.DataFrame(table).write_parquet(home / f"{site}.parquet")
        (home / "keys" / f"{site}.pub").write_text(public_line(signing[site]))
        (home / f"{site}.key").write_text(private_text(signing[site]))
        settings[site] = SiteSettings(
            site,
            str(home / f"{site}.parquet"),
            COLUMNS,
            folder=str(home / "states" / site),
            policy=str(home / f"{site}.policy.json"),
            key=str(home / f"{site}.key") if plan.secure else None,
            peers=str(home / "keys") if plan.secure else None,
            trusted=trusted,
        )
        settings[site].write(home / "sites" / f"{site}.json")
    return settings


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_policies_are_those_of_the_engine_in_process(secure: bool, tmp_path: Path) -> None:
    plan = make_plan(
        groups=["F", "M"], notion="equal_opportunity", calibration="beta", pooling="none", secure=secure, run="flare"
    )
    settings, script = with_files(tmp_path, plan), tmp_path / "simulate.py"
    script.write_text(SIMULATE)
    files = [str(JOB), "plan.json", "server"]
    written = subprocess.run([sys.executable, *files, "--sites", "3"], capture_output=True, text=True, cwd=tmp_path)
    command = [sys.executable, str(script), *files, "--simulate", "sites"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=540)
    assert (tmp_path / "server" / "result.json").exists(), (done.stdout + done.stderr)[-4000:]
    result = read_result(tmp_path / "server" / "result.json")
    assert result.sites == SITES
    assert result.holds
    assert (tmp_path / "job" / "logofair" / "meta.json").exists(), written.stderr[-4000:]
    assert not list((tmp_path / "job").rglob("custom"))  # no code travels: sites may switch BYOC off
    expected = run(plan, {site: read_site(each, plan) for site, each in settings.items()})
    for site, each in settings.items():
        policy = Policy.load(each.policy)
        if secure:  # sums of fixed precision
            assert result.accuracy == pytest.approx(expected.result.accuracy, abs=2 * plan.optimality_gap)
            assert policy.info.certificate is not None
            continue
        with_columns(expected.policies[site], each).save(tmp_path / "expected.json")
        assert json.loads((tmp_path / "expected.json").read_text()) == json.loads(Path(each.policy).read_text())
