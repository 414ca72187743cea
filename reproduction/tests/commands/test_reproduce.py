"""``logofair reproduce``: lists, runs, goes on, shows again; refuses in one sentence; exit codes."""

from __future__ import annotations

import re
from datetime import date

import pytest

from logofair_reproduction.commands import reproduce as command
from logofair_reproduction.experiments import runner
from logofair_reproduction.experiments.experiment import experiment_names
from made.experiments import small_experiment, use_settings
from support.commandline import refused, run

INTERRUPTED = "logofair: interrupted; what was measured is in {}, and the same command goes on.\n"

pytestmark = [pytest.mark.tool, pytest.mark.training]


@pytest.fixture(name="small")
def _small(monkeypatch):
    """The experiment comparison_dp is two methods on a few rows of Adult."""
    use_settings(monkeypatch)
    part = small_experiment(["fedavg", "logofair_lg"], seeds=2)
    monkeypatch.setattr(command, "_parts", lambda names, **_: [part])


def test_without_a_name_the_experiments_are_listed():
    code, page, _ = run("reproduce")
    assert code == 0
    assert page == run("reproduce", "--list")[1]
    assert all(f"\n{name} " in f"\n{page}" for name in experiment_names())
    # Two curves of 20 seeds: FedAvg, Algorithm 1 at 11 levels, the protocol and two bounds.
    assert re.search(rf"\nrounds_dp .*; {2 * 20 * (1 + 11 + 1 + 2)} cases of", page)


def test_experiments_that_are_named_are_listed_alone():
    named = run("reproduce", "mixed", "groups", "--list")[1]
    assert [name for name in experiment_names() if f"\n{name} " in f"\n{named}"] == ["groups", "mixed"]
    assert run("reproduce", "all", "--list") == run("reproduce", "--list")
    assert "NAME: got 'mixd' (did you mean 'mixed'?)" in refused("reproduce", "mixd", "--list")


def test_a_folder_that_cannot_be_is_refused_in_one_sentence(small, tmp_path):
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"
    sentence = (
        f"{out}: cannot be written (Not a directory); choose a folder that exists, has room and may be written to."
    )
    assert sentence in refused("reproduce", "comparison_dp", "--out", out)


def test_a_run_stopped_before_it_began_says_that_it_goes_on(small, monkeypatch, tmp_path):
    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "missing_data", lambda *_: stop())
    found = run("reproduce", "comparison_dp", "--out", tmp_path / "out")
    assert found == (130, "", INTERRUPTED.format(tmp_path / "out"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["comparision_dp"], "NAME: got 'comparision_dp' (did you mean 'comparison_dp'?); use one of "),
        (["all", "mixd"], "NAME: got 'mixd' (did you mean 'mixed'?); use one of "),
        (["mixed", "--data", "adlut"], "--data: got 'adlut' (did you mean 'adult'?); use one of adult, enem."),
        (["mixed", "--method", "oracel"], "--method: got 'oracel' (did you mean 'oracle'?); use one of fedavg, "),
        (["mixed", "--alpha", "3"], "mixed: no case has all that --data, --method and --alpha ask for; leave one out."),
        (["natural", "--quick"], "(--quick takes adult alone unless --data names others)"),
        (["groups", "natural", "--data", "acs", "--alpha", "5"], "groups, natural: no case has all that "),
        (["natural", "--data", "acs"], "natural: acs is not prepared, type: logofair data prepare acs --from PATH"),
        (["mixd", "--show"], "NAME: got 'mixd' (did you mean 'mixed'?)"),
        (
            ["--show", "--seeds", "3"],
            "--show: writes all results of --out again, so --seeds changes nothing; leave it out.",
        ),
        (["mixed", "--seeds", "1000000000"], "--seeds: got 1000000000; pass a whole number from 1 to 1,000."),
        (["--show"], "holds no results (results.jsonl); name a folder of logofair reproduce."),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_and_leaves_nothing_behind(words, sentence, tmp_path):
    out = tmp_path / "out"
    assert sentence in refused("reproduce", *words, "--out", out, "--cache", tmp_path / "cache")
    assert not out.exists()


@pytest.mark.parametrize("option", ["--seeds", "--settings", "--jobs", "--alpha"])
def test_numbers_below_1_are_refused(option):
    assert f"{option}: got" in refused("reproduce", "mixed", option, "0")


def parts(*names, **part):
    nothing = {"quick": False, "data": (), "method": (), "alpha": (), "seeds": None, "settings": None}
    return command._parts(names, **nothing | part)


def test_a_quick_run_takes_adult_alone_unless_data_are_named():
    quick = parts(*experiment_names(), quick=True)
    assert {split.data for part in quick for split in part.splits} == {"adult"}
    assert {part.seeds for part in quick} == {2}
    named = parts("natural", quick=True, data=("enem",))
    assert [split.data for part in named for split in part.splits] == ["enem"]


def test_one_cell_can_be_run_again():
    wanted = parts("comparison_dp", data=("adult",), method=("fedfb",), alpha=(0.5,), seeds=1, settings=2)
    (case,) = [case for part in wanted for case in part.cases()]
    assert (case.split.data, case.split.alpha, case.method, case.budget) == ("adult", 0.5, "fedfb", 2)


def test_from_nothing_to_files_and_shown_again(small, tmp_path):
    out = tmp_path / "out"
    words = ("reproduce", "comparison_dp", "--out", out, "--jobs", 1)
    code, page, said = run(*words)
    assert (code, said) == (0, "")
    assert "Comparison, demographic parity: Adult (UCI)" in page
    assert "| 5     | LoGoFair_l&g | " in page
    assert "✓ confirmed: the figures of this run show it." in page
    assert "| paper  | Beats" not in page
    assert "4 cases now, 0 before." in page
    assert f"{out}/page.html" in page.replace("\n          ", "")
    html = (out / "page.html").read_text()
    assert all(
        words in html
        for words in (
            "A sample: 900 rows, drawn at random (the paper: more than 45,000)",
            "logofair reproduce comparison_dp",
            date.today().isoformat(),
            "device cpu",
        )
    )
    assert "| FedAvg |" in (out / "tables.md").read_text()
    assert html.count('<img src="data:image/png;base64,') == 1
    assert "0 cases now, 4 before." in run(*words)[1]
    (out / "page.html").unlink()
    code, page, _ = run("reproduce", "--show", "--out", out)
    assert (code, "Comparison, demographic parity" in page, "before." in page) == (0, True, False)
    assert (out / "page.html").is_file()
    assert "Comparison, demographic" not in run("reproduce", "mixed", "--show", "--out", out)[1]  # its tables alone


def test_an_interrupted_run_keeps_what_was_measured_and_goes_on(small, monkeypatch, tmp_path):
    out, real = tmp_path / "out", runner._measure

    def measure(cases, machine):
        if cases[0].split.random_state == 1:
            raise KeyboardInterrupt
        return real(cases, machine)

    words = ("reproduce", "comparison_dp", "--out", out, "--jobs", 1)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_measure", measure)
        code, page, said = run(*words)
    assert (code, page) == (130, "")
    assert said == INTERRUPTED.format(out)
    assert not (out / "page.html").exists()
    assert "2 before." in run(*words)[1]


def test_cases_that_fail_are_told_at_the_end_and_make_the_exit_code_1(small, monkeypatch, tmp_path):
    real = runner.measure

    def measure(case, *others):
        if case.method == "fedavg":
            raise ValueError("it rains\nall day")
        return real(case, *others)

    monkeypatch.setattr(runner, "measure", measure)
    words = ("reproduce", "comparison_dp", "--out", tmp_path, "--jobs", 1)
    code, page, said = run(*words)
    assert code == 1
    assert "2 cases now, 0 before." in page
    assert said == (
        "logofair: 2 cases failed; the first: comparison_dp, fedavg on adult, 3 clients, alpha 5, seed 0: "
        "ValueError: it rains all day.\n"
    )


def test_data_that_are_not_prepared_are_left_out_and_named(small, monkeypatch, tmp_path):
    part = small_experiment(["fedavg"], seeds=1)
    enem = small_experiment(["fedavg"], seeds=1, data="enem")
    monkeypatch.setattr(command, "_parts", lambda names, **_: [part, enem])
    page = run("reproduce", "all", "--out", tmp_path / "out", "--cache", tmp_path / "cache", "--jobs", 1)[1]
    left_out = (
        f"Left out enem, which is not prepared: logofair data prepare enem --from PATH --cache {tmp_path / 'cache'}"
    )
    assert left_out.replace(" ", "") in "".join(page.split())
    assert "1 case now, 0 before." in page


def test_two_runs_in_one_folder_are_refused(small, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "another process works in this folder" in refused("reproduce", "comparison_dp", "--out", tmp_path)
