"""The engine that docs/ENGINES.md shows: it is complete, short, and gives the policies of the engine in process."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from logofair.engines.folder import RunOptions, read_result, write_plan
from logofair.engines.inprocess import run
from logofair.engines.site import SiteSettings, read_site, with_columns
from logofair.files.inputs import ColumnNames
from logofair.policy.policy import Policy
from support.sites import federation, plan_of

polars = pytest.importorskip("polars")
pytestmark = pytest.mark.federation

GUIDE = Path(__file__).parents[2] / "docs" / "ENGINES.md"


def example() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)


def test_the_engine_of_the_guide_runs_and_gives_the_policies_of_the_engine_in_process(tmp_path):
    assert len(example().splitlines()) < 60
    script = tmp_path / "own_engine.py"
    script.write_text(example(), encoding="utf-8")
    plan = plan_of(calibration="platt", optimality_gap=1e-4)
    write_plan(tmp_path / "plan.json", plan, RunOptions(tuple("abc"), timeout=60.0))
    settings, addresses = {}, []
    with ExitStack() as ended:
        for site, rows in federation((40, 30, 35)).items():
            file, port = tmp_path / f"{site}.parquet", free_port()
            polars.DataFrame({"g": rows.sensitive_features, "s": rows.scores, "y": rows.labels}).write_parquet(file)
            settings[site] = SiteSettings(
                site, str(file), ColumnNames("s", "y", ("g",)), str(tmp_path / site), str(tmp_path / f"{site}.json")
            )
            settings[site].write(tmp_path / f"{site}.site.json")
            command = [sys.executable, str(script), "site", str(tmp_path / f"{site}.site.json"), str(port)]
            process = ended.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            ended.callback(process.kill)
            addresses.append(f"{site}=http://127.0.0.1:{port}")
            wait_for(port)
        command = [sys.executable, str(script), "server", str(tmp_path / "plan.json"), str(tmp_path / "state")]
        done = subprocess.run([*command, *addresses], capture_output=True, text=True, timeout=300)
    assert "at 3 sites (a, b and c)" in done.stdout, done.stdout + done.stderr
    assert read_result(tmp_path / "state" / "result.json").holds
    expected = run(plan, {site: read_site(each, plan) for site, each in settings.items()})
    for site, each in settings.items():
        with_columns(expected.policies[site], each).save(tmp_path / "expected.json")
        assert Path(each.policy).read_bytes() == (tmp_path / "expected.json").read_bytes()
        assert Policy.load(each.policy).site == site
