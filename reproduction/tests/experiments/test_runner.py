"""Running experiments: nothing is done twice, one failure stops nothing else, interrupts and cut lines are survived."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from logofair.errors import InputError
from logofair_reproduction.experiments import runner
from logofair_reproduction.experiments.records import FILE, PACKED, append, identity, read_records
from logofair_reproduction.experiments.runner import missing_data, run
from logofair_reproduction.experiments.scores import Machine
from made.experiments import SMALL, case, small_experiment, use_settings

pytestmark = pytest.mark.training


def lines_of(folder):
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def without_seconds(records):
    return sorted(json.dumps({**record, "seconds": None}, sort_keys=True) for record in records)


@pytest.fixture(name="measured")
def _measured(monkeypatch):
    """What is measured, in order."""
    use_settings(monkeypatch)
    seen = []
    real = runner.measure

    def measure(case, *others):
        seen.append((case.method, case.split.random_state))
        return real(case, *others)

    monkeypatch.setattr(runner, "measure", measure)
    return seen


def test_a_run_that_goes_on_measures_nothing_twice(measured, tmp_path):
    half = small_experiment(["fedavg", "logofair_lg"], seeds=1)
    assert vars(run([half], Machine(tmp_path), jobs=1)) == {"measured": 2, "before": 0, "failed": (), "missing": {}}
    everything = small_experiment(["fedavg", "logofair_lg", "fedfb"], seeds=2)
    trained = sorted((tmp_path / "scores").iterdir())
    times = [path.stat().st_mtime_ns for path in trained]
    assert vars(run([everything], Machine(tmp_path), jobs=1)) == {
        "measured": 4,
        "before": 2,
        "failed": (),
        "missing": {},
    }
    assert len(measured) == len(set(measured)) == 6
    assert [path.stat().st_mtime_ns for path in trained] == times
    found = [identity(record) for record in lines_of(tmp_path)]
    assert len(found) == len(set(found)) == 6
    assert run([everything, everything], Machine(tmp_path), jobs=1).before == 6
    assert len(measured) == 6


def test_a_line_that_was_cut_off_is_measured_again_and_gives_way(measured, tmp_path):
    part = small_experiment(["fedavg", "aglfop"], seeds=1)
    run([part], Machine(tmp_path), jobs=1)
    full = (tmp_path / FILE).read_bytes()
    for length in (len(full) - 1, len(full) - 30, full.index(b"\n") + 2):  # without its end, half of it, one byte
        (tmp_path / FILE).write_bytes(full[:length])
        assert run([part], Machine(tmp_path), jobs=1).measured == 1
        assert without_seconds(lines_of(tmp_path)) == without_seconds(json.loads(line) for line in full.splitlines())


def test_packed_results_are_read_and_what_is_added_stands_beside_them(measured, tmp_path):
    part = small_experiment(["fedavg", "logofair_lg"], seeds=1)
    run([part], Machine(tmp_path), jobs=1)
    before = read_records(tmp_path)
    (tmp_path / PACKED).write_bytes(gzip.compress((tmp_path / FILE).read_bytes()))
    (tmp_path / FILE).unlink()
    assert read_records(tmp_path) == before
    state = run([replace(part, seeds=2)], Machine(tmp_path), jobs=1)
    assert (state.before, state.measured) == (2, 2)
    assert len(read_records(tmp_path)) == 4
    (tmp_path / PACKED).write_bytes(b"\x1f\x8bno")
    with pytest.raises(InputError, match="is damaged"):
        read_records(tmp_path)


def test_a_line_in_the_middle_that_is_no_record_is_named(tmp_path):
    for line in (b"{", b"\xff\xff", b"[1]"):
        (tmp_path / FILE).write_bytes(line + b"\n" + b'{"figures": {}}\n')
        with pytest.raises(InputError, match=r"results\.jsonl: line 1 is no record of this version's experiments"):
            read_records(tmp_path)


def test_figures_that_are_no_numbers_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        append(tmp_path, {"figures": {"accuracy": float("nan")}})
    assert read_records(tmp_path) == []


def test_a_case_that_fails_is_told_and_the_others_are_measured(measured, monkeypatch, tmp_path):
    real = runner.measure

    def measure(case, *others):
        if case.method == "oracle" and case.split.random_state == 0:
            raise InputError("it rains.")
        return real(case, *others)

    monkeypatch.setattr(runner, "measure", measure)
    part = small_experiment(["fedavg", "oracle"])
    state = run([part], Machine(tmp_path), jobs=1)
    ((case, why),) = state.failed
    assert (case.method, case.split.random_state, why) == ("oracle", 0, "it rains.")
    assert (state.measured, len(lines_of(tmp_path))) == (3, 3)
    monkeypatch.setattr(runner, "measure", real)
    assert vars(run([part], Machine(tmp_path), jobs=1)) == {"measured": 1, "before": 3, "failed": (), "missing": {}}


def test_where_training_fails_all_that_needs_it_is_told_and_not_tried_again(measured, monkeypatch, tmp_path):
    real, tries = runner.trained, []

    def trained(rows, training, machine):
        tries.append(training.method)
        if training.method == "fedfb":
            raise ZeroDivisionError("nothing there")
        return real(rows, training, machine)

    monkeypatch.setattr(runner, "trained", trained)
    state = run([small_experiment(["fedfb", "on_fedfb", "like_fedfb", "fedavg"], seeds=1)], Machine(tmp_path), jobs=1)
    assert [(case.method, why) for case, why in state.failed] == [
        (name, "ZeroDivisionError: nothing there") for name in ("fedfb", "on_fedfb", "like_fedfb")
    ]
    assert tries == ["fedfb", "fedavg"]
    assert measured == [("fedavg", 0)]


def test_two_processes_find_what_one_does(tmp_path):
    part = small_experiment(["fedavg", "logofair_lg"])  # with the settings of the package: processes are fresh
    for jobs in (1, 2):
        assert run([part], Machine(tmp_path / str(jobs)), jobs=jobs).measured == 4
    one, two = (lines_of(tmp_path / str(jobs)) for jobs in (1, 2))
    assert without_seconds(one) == without_seconds(two)


def _interrupted(process):
    """What a process says that is interrupted: once more where Python loses the first, which it may in a finaliser."""
    for seconds in (20, 60):
        os.killpg(process.pid, signal.SIGINT)  # as the keyboard does: to all of them
        try:
            return process.communicate(timeout=seconds)[1]  # ends when no process is left that could write
        except subprocess.TimeoutExpired:
            continue
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    raise AssertionError("two interrupts did not end it")


@pytest.mark.skipif(os.name != "posix", reason="interrupts are signals")
def test_an_interrupt_ends_the_processes_at_once_and_quietly(tmp_path):
    program = """
from logofair_reproduction.experiments import runner
from test_runner_sleep import sleep
def main():
    with runner._workers(2) as work:
        for number in work(sleep, [0.0, 600.0, 600.0]):
            print("ready", flush=True)
if __name__ == "__main__":
    main()
"""
    (tmp_path / "test_runner_sleep.py").write_text("import time\ndef sleep(s):\n    time.sleep(s)\n    return s\n")
    (tmp_path / "program.py").write_text(program)
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell's jobs may ignore it
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    said = _interrupted(process)
    assert said.count("Traceback") == 1  # of the process that was started, none of its workers
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode != 0


def test_data_that_are_not_prepared_are_named_with_what_to_type(tmp_path):
    part = small_experiment(["fedavg"])
    enem = replace(part, splits=(replace(SMALL, data="enem"),))
    found = missing_data([part, enem], tmp_path)
    assert found == {"enem": f"logofair data prepare enem --from PATH --cache {tmp_path}"}


A_RECORD = {**case("fedavg").as_dict(), "figures": {"accuracy": 0.8}}


@pytest.mark.parametrize("change", [{"method": "fedprox"}, {"experiment": "figure_9"}, {"data": "compas"}])
def test_a_record_of_another_version_is_named(change, tmp_path):
    append(tmp_path, A_RECORD)
    append(tmp_path, A_RECORD | change)
    with pytest.raises(InputError, match=r"results\.jsonl: line 2 is no record of this version's experiments"):
        read_records(tmp_path)
