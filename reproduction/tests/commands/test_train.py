"""``logofair train``: scores of the rows not trained on, as audit and fit read them; states, history, bad input."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support import commandline

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")
pytest.importorskip("torch")

import polars as pl

from logofair.datasets import Dataset
from logofair_reproduction.commands import training_run as train_run
from logofair_reproduction.commands import training_settings as train_rows
from logofair_reproduction.commands.training_settings import TrainSettings
from logofair_reproduction.datasets.catalogue import CATALOGUE
from logofair_reproduction.datasets.preparing import write_about

pytestmark = [pytest.mark.tool, pytest.mark.training]

run = commandline.run
trained = partial(commandline.json_of, "train")
refused = partial(commandline.refused, "train")
READ = ("--score", "score", "--label", "label", "--group", "group", "--client", "client")
SMALL = ("--data", "generated", "--limit", "2000", "--rounds", "2")
QUICK = ("--method", "fedavg", *SMALL)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---------------------------------------------------------------- what is written


@pytest.mark.parametrize("method", ["fedavg", "fairfed", "fedfb", "fcfl"])
def test_every_method_scores_the_rows_it_was_not_trained_on(method: str, tmp_path: Path) -> None:
    out, state = tmp_path / "scores.parquet", tmp_path / "state.npz"
    found = trained("--method", method, *SMALL, "--out", out, "--checkpoint", state)
    scores, data = pl.read_parquet(out), CATALOGUE["generated"].load(rows=2000)
    assert scores.columns == ["id", "part", "client", "group", "label", "score"]
    assert found["rows"] == {"train": 700, "calibration": 700, "test": 600}
    assert dict(scores["part"].value_counts().rows()) == {"calibration": 700, "test": 600}
    ids = scores["id"].to_numpy()
    assert np.unique(ids).size == ids.size == 1300
    assert (data.labels[ids] == scores["label"].to_numpy()).all()
    assert (data.sensitive[ids] == scores["group"].to_numpy()).all()
    assert set(scores["client"].to_list()) <= set(range(5))
    with np.load(state) as stored:
        *weights, bias = stored["parameters"].astype(np.float64)
        counted = stored["measured rows"]
    assert np.abs(scores["score"].to_numpy() - 1 / (1 + np.exp(-data.features[ids] @ weights - bias))).max() < 1e-5
    rest = np.setdiff1d(np.arange(2000), ids)
    sums = [[((data.sensitive[rest] == g) & (data.labels[rest] == y)).sum() for y in (0, 1)] for g in found["groups"]]
    assert counted.sum(0).tolist() == sums


def test_a_limit_draws_rows_of_the_embedded_data(tmp_path: Path) -> None:
    words = ("--method", "fedavg", "--data", "adult", "--sensitive", "race", "--limit", 2000, "--rounds", 1)
    found = trained(*words, "--out", tmp_path / "s.csv")
    assert (found["data"], sum(found["rows"].values()), found["parameters"]) == ("adult", 2000, 92)
    assert set(found["groups"]) >= {"Black", "White"}
    scores, whole = pl.read_csv(tmp_path / "s.csv"), CATALOGUE["adult"].load(sensitive="race")
    ids = scores["id"].to_numpy()
    assert (np.unique(ids).size, ids.max() > 40_000) == (1300, True)
    assert (whole.labels[ids] == scores["label"].to_numpy()).all()
    assert (whole.sensitive[ids] == scores["group"].to_numpy()).all()


def test_the_kinds_of_file_hold_the_same_table(tmp_path: Path) -> None:
    for ending in ("csv", "tsv", "parquet", "arrow"):
        trained(*QUICK, "--out", tmp_path / f"s.{ending}")
    tables = [pl.read_csv(tmp_path / "s.csv"), pl.read_csv(tmp_path / "s.tsv", separator="\t")]
    tables += [pl.read_parquet(tmp_path / "s.parquet"), pl.read_ipc(tmp_path / "s.arrow")]
    assert all(table.equals(tables[0]) for table in tables)


def test_settings_reach_the_methods_so_that_two_without_a_step_are_fedavg(tmp_path: Path) -> None:
    plain = ("--method", "fedavg"), ("--method", "fairfed", "--beta", 0, "--debias", "none")
    for place, words in enumerate((*plain, ("--method", "fedfb", "--step", 0), ("--method", "fairfed"))):
        trained(*words, *SMALL, "--learning-rate", 0.05, "--out", tmp_path / f"{place}.csv")
    first, second, third, other = ((tmp_path / f"{place}.csv").read_bytes() for place in range(4))
    assert first == second == third != other


def test_the_options_of_training_are_put_on_record(tmp_path: Path) -> None:
    words = ("--local-epochs", 1, "--learning-rate", 0.5, "--batch-size", 64, "--optimiser", "sgd", "--seed", 3)
    found = trained(*QUICK, *words, "--out", tmp_path / "s.csv")["settings"]
    steps = {"local_epochs": 1, "learning_rate": 0.5, "batch_size": 64, "optimiser": "sgd"}
    assert {name: found[f"schedule_{name}"] for name in steps} == steps
    assert found["seed"] == 3
    words = ("--tolerance", 0.05, "--step-size", 0.1, "--batch-size", 50, "--rounds", 3)
    found = trained("--method", "fcfl", *SMALL, *words, "--out", tmp_path / "t.csv")["settings"]
    own = {"tolerance": 0.05, "step_size": 0.1, "batch_size": 50, "first_stage": 1}
    assert {name: found[f"method_{name}"] for name in own} == own
    assert "schedule_learning_rate" not in found


def test_natural_clients_are_those_of_the_data_set_and_the_largest_of_them(tmp_path: Path) -> None:
    found = trained(*QUICK, "--partition", "natural", "--clients", 2, "--out", tmp_path / "s.parquet")
    data = CATALOGUE["generated"].load(rows=2000)
    assert data.clients is not None
    names, sizes = np.unique(data.clients, return_counts=True)
    assert found["clients"] == sorted(names[np.argsort(-sizes)[:2]].tolist())
    assert found["clients_left_out"] == names.size - 2
    scores = pl.read_parquet(tmp_path / "s.parquet")
    assert (data.clients[scores["id"].to_numpy()] == scores["client"].to_numpy()).all()
    assert sum(found["rows"].values()) == int(np.sort(sizes)[-2:].sum())


def test_rows_are_dealt_and_split_by_the_seed(tmp_path: Path) -> None:
    for name, words in {"a": (), "b": (), "c": ("--seed", 1), "d": ("--partition", "label")}.items():
        trained(*QUICK, *words, "--out", tmp_path / f"{name}.csv")
    tables = {name: (tmp_path / f"{name}.csv").read_bytes() for name in "abcd"}
    assert tables["a"] == tables["b"]
    assert len(set(tables.values())) == 3


# ---------------------------------------------------------------- what is shown


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_the_figures_are_those_of_an_audit_of_the_test_rows(notion: str, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    found = trained("--method", "fedfb", *SMALL, "--notion", notion, "--alpha", 5, "--out", out)
    code, output, error = run("audit", out, *READ, "--where", "part=test", "--notion", notion, "--json")
    assert code == 0, error
    audited = json.loads(output)
    names = ("global", "largest_local", "headline")
    assert found["test"]["gaps"][notion] == {name: audited["notions"][notion][name] for name in names}
    for name in ("rates", "accuracy", "accepted"):
        assert found["test"][name] == audited[name]
    test = pl.read_csv(out).filter(part="test").with_columns(yes=pl.col("score") >= 0.5)
    assert found["test"]["accuracy"]["value"] == pytest.approx((test["yes"] == (test["label"] == 1)).mean())
    if notion == "demographic_parity":
        low, high = sorted(test.group_by("group").agg(pl.col("yes").mean())["yes"])
        assert found["test"]["gaps"][notion]["global"]["value"] == pytest.approx(high - low)
        assert found["test_support"]["smallest"]["rows"] == test.group_by("client", "group").len()["len"].min()


def test_the_page_fits_and_its_next_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--method", "fairfed", *SMALL, "--notion", "equal_opportunity", "--alpha", 5, "--out", "my scores.csv")
    code, page, error = run("train", *words)
    assert (code, error) == (0, "")
    assert max(map(len, page.splitlines())) <= 80
    assert page.startswith("generated: 2,000 rows at 5 clients; a ")
    assert "fairfed for equal opportunity: logistic, 11 parameters; 2 rounds, seed 0\n" in page
    assert "700 rows to train, 700 to calibrate, 600 to test" in page
    assert "Licence" in page
    joined = page[page.index("Next") + 4 :].replace("\\\n", " ")
    commands = [shlex.split(line) for line in joined.splitlines() if line.strip()]
    assert [command[:3] for command in commands] == [
        ["logofair", "audit", "my scores.csv"],
        ["logofair", "fit", "my scores.csv"],
    ]
    for command in commands:
        code, _, error = run(*command[1:])
        assert code == 0, error
    policy = json.loads(Path("policy.json").read_text())
    assert '"where": "part=calibration"' in json.dumps(policy)
    assert "equal_opportunity" in json.dumps(policy)


def test_the_page_tells_the_test_rows_first_each_figure_with_its_interval(tmp_path: Path) -> None:
    words = ("--method", "fedavg", *SMALL, "--clients", 10, "--alpha", 1, "--seed", 1)
    page = run("train", *words, "--out", tmp_path / "s.csv")[1]
    found = trained(*words, "--out", tmp_path / "t.csv")
    assert max(map(len, page.splitlines())) <= 80
    text, test, train = " ".join(page.split()), found["test"], found["train"]
    for group, rate in test["rates"]["selection rate"].items():
        figures = f"{rate['value']:.4f} {rate['low']:.4f} to {rate['high']:.4f} {rate['rows']}"
        assert f"{group} {figures}" in text
    places = [text.index("Score >= 1/2 on the 600 test rows"), text.index("selection rate")]
    places += [text.index(f"Accuracy {test['accuracy']['value']:.4f} (95%: "), text.index("Demographic parity")]
    for side in ("global", "local"):
        gap = test["gaps"]["demographic_parity"]["headline"][side]
        places.append(text.index(f"{gap['value']:.4f} (selection rate, "))
        assert f"95%: {gap['low']:.4f} to {gap['high']:.4f}; {gap['rows']} rows): {gap['finding']}" in text
    places.append(text.index(f"The rows that the model has seen: accuracy {train['accuracy']['value']:.4f}, "))
    assert places == sorted(places)


def test_with_one_client_nothing_is_said_of_gaps_inside_clients(tmp_path: Path) -> None:
    page = run("train", *QUICK, "--clients", 1, "--out", tmp_path / "s.csv")[1]
    assert "2,000 rows at 1 client; " in page
    assert "inside clients" not in page


def test_what_is_to_know_about_the_data_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = replace(CATALOGUE["generated"].load(rows=2000), notes=("The year is 2018.", "Read as they are."))
    monkeypatch.setattr(train_rows, "load", lambda name, **choices: noted)
    page = run("train", *QUICK, "--out", tmp_path / "s.csv")[1]
    assert "\nNote        The year is 2018.\n            Read as they are.\n" in page
    assert trained(*QUICK, "--out", tmp_path / "t.csv")["notes"] == [*noted.notes]


def test_without_calibration_rows_there_is_nothing_to_fit(tmp_path: Path) -> None:
    code, page, _ = run("train", *QUICK, "--calibration-share", 0, "--out", tmp_path / "s.csv")
    assert code == 0
    assert "700 rows to train, 1,300 to test" in page
    assert "logofair fit" not in page
    assert set(pl.read_csv(tmp_path / "s.csv")["part"]) == {"test"}


# ---------------------------------------------------------------- states and history


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Whoever trains is interrupted in the fourth round."""
    real = train_run.train

    def broken(*words: Any, **more: Any) -> Iterator[Any]:
        for state in real(*words, **more):
            if state.round == 4:
                raise KeyboardInterrupt
            yield state

    with monkeypatch.context() as patch:
        patch.setattr(train_run, "train", broken)
        yield patch


@pytest.mark.parametrize(
    "method",
    [
        ("fedavg",),
        ("fairfed", "--debias", "fairbatch", "--debias-step", "0.3"),
        ("fedfb",),
        ("fcfl", "--first-stage", "2"),
    ],
)
def test_a_run_that_goes_on_is_as_if_it_had_never_stopped(
    method: tuple[str, ...], interrupt: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ("--method", *method, "--data", "generated", "--limit", 1500, "--rounds", 6, "--network", "mlp")
    kept = ("--checkpoint", tmp_path / "state.npz", "--history", tmp_path / "history.jsonl")
    code, page, said = run("train", *words, "--out", tmp_path / "s.csv", *kept)
    assert (code, page) == (130, "")
    assert said == (
        f"logofair: interrupted after 3 of 6 rounds; the state is in {kept[1]}: to go on, run the same command with "
        "--resume.\n"
    )
    assert not (tmp_path / "s.csv").exists()
    interrupt.undo()
    found = trained(*words, "--out", tmp_path / "s.csv", *kept, "--resume")
    assert (found["rounds"], found["rounds_before"]) == (6, 3)
    straight = ("--checkpoint", tmp_path / "other.npz", "--history", tmp_path / "other.jsonl")
    trained(*words, "--out", tmp_path / "t.csv", *straight)
    for one, other in (("s.csv", "t.csv"), ("history.jsonl", "other.jsonl")):
        assert (tmp_path / one).read_bytes() == (tmp_path / other).read_bytes()
    with np.load(tmp_path / "state.npz") as one, np.load(tmp_path / "other.npz") as other:
        assert one.files == other.files
        assert all((one[name] == other[name]).all() for name in one.files)


def test_rounds_past_the_last_state_kept_are_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--method", "fairfed", *SMALL[:-2], "--checkpoint", tmp_path / "s.npz", "--history", tmp_path / "h.jsonl")
    trained(*words, "--rounds", 2, "--out", tmp_path / "two.csv")
    with (tmp_path / "h.jsonl").open("a") as file:  # as if a crash came in the fourth round
        file.write('{"round": 3}\n{"rou')
    trained(*words, "--rounds", 4, "--out", tmp_path / "four.csv", "--resume")
    assert [line["round"] for line in lines_of(tmp_path / "h.jsonl")] == [1, 2, 3, 4]
    assert lines_of(tmp_path / "h.jsonl")[2]["loss"] > 0
    trained("--method", "fairfed", *SMALL[:-2], "--rounds", 4, "--out", tmp_path / "straight.csv")
    assert (tmp_path / "four.csv").read_bytes() == (tmp_path / "straight.csv").read_bytes()
    assert refused(*words, "--rounds", 3, "--out", tmp_path / "three.csv", "--resume").endswith(
        "s.npz has 4 rounds done already; ask for as many or more."
    )
    again = trained(*words, "--rounds", 4, "--out", tmp_path / "again.csv", "--resume")
    assert again["rounds_before"] == 4
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "four.csv").read_bytes()


def test_states_are_kept_every_so_many_rounds(interrupt: pytest.MonkeyPatch, tmp_path: Path) -> None:
    saved: list[int] = []
    real = train_run.save_state

    def save(path: Path, state: Any, about: Any) -> None:
        saved.append(state.round)
        real(path, state, about)

    interrupt.setattr(train_run, "save_state", save)
    words = ("--method", "fedavg", *SMALL[:-2], "--rounds", 8, "--out", tmp_path / "s.csv")
    assert run("train", *words, "--checkpoint", tmp_path / "s.npz", "--save-every", 2)[0] == 130
    assert saved == [2, 3]
    code, _, said = run("train", *words)
    assert (code, saved) == (130, [2, 3])
    assert said == "logofair: interrupted after 3 of 8 rounds; nothing was kept (--checkpoint keeps the state).\n"


def test_a_state_of_another_run_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "s.npz"
    words = (*SMALL, "--out", tmp_path / "t.csv", "--checkpoint", state)
    trained("--method", "fairfed", *SMALL, "--out", tmp_path / "s.csv", "--checkpoint", state)
    assert f"{state}: exists already" in refused("--method", "fairfed", *words)
    cases = {
        ("--method", "fedavg"): "--method 'fairfed', not 'fedavg'",
        ("--method", "fairfed", "--beta", 1): "--beta 0.05, not 1.0",
        ("--method", "fairfed", "--seed", 1): "--seed 0, not 1",
        ("--method", "fairfed", "--alpha", 5): "--alpha 0.5, not 5.0",
        ("--method", "fairfed", "--learning-rate", 1): "--learning-rate 0.01, not 1.0",
    }
    for method, difference in cases.items():
        said = refused(*method, *words, "--resume")
        assert said == f"logofair: {state}: is of a run with {difference}; use the same settings, or another file."
    assert not (tmp_path / "t.csv").exists()
    trained("--method", "fairfed", "--alpha", 0.5, "--beta", 0.05, *words, "--resume")  # the defaults, typed


def test_fcfl_goes_on_for_more_rounds_with_the_first_stage_it_began_with(tmp_path: Path) -> None:
    words = ("--method", "fcfl", *SMALL[:-2], "--checkpoint", tmp_path / "s.npz")
    first = trained(*words, "--rounds", 6, "--out", tmp_path / "six.csv")
    found = trained(*words, "--rounds", 10, "--out", tmp_path / "ten.csv", "--resume")
    assert (found["rounds"], found["rounds_before"]) == (10, 6)
    assert found["settings"]["method_first_stage"] == first["settings"]["method_first_stage"] == 3
    trained(*words[:-2], "--rounds", 10, "--first-stage", 3, "--out", tmp_path / "straight.csv")
    assert (tmp_path / "ten.csv").read_bytes() == (tmp_path / "straight.csv").read_bytes()
    said = refused(*words, "--rounds", 12, "--first-stage", 4, "--out", tmp_path / "s.csv", "--resume")
    assert "is of a run with --first-stage 3, not 4; use " in said
    (tmp_path / "s.npz").write_bytes(b"no state")
    said = refused(*words, "--rounds", 12, "--out", tmp_path / "s.csv", "--resume")
    assert said.endswith("s.npz: is no training state of logofair, or is damaged; remove it and train afresh.")


@pytest.mark.parametrize(("rounds", "stage"), [(None, 800), (6, 3), (1, 0), (5000, 800)])
def test_the_first_stage_is_the_papers_and_at_most_half(rounds: int | None, stage: int) -> None:
    assert TrainSettings("fcfl", "generated", rounds=rounds).as_dict()["method_first_stage"] == stage


def test_a_state_of_data_prepared_anew_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = CATALOGUE["generated"].load(rows=1000)
    monkeypatch.setattr(train_rows, "load", lambda name, **choices: drawn)
    folder, state = tmp_path / "cache" / "acs", tmp_path / "s.npz"
    words = ("--method", "fedavg", "--data", "acs", "--rounds", 1, "--cache", tmp_path / "cache", "--checkpoint", state)
    folder.mkdir(parents=True)
    write_about(folder, "acs", {"counts": 1})
    trained(*words, "--out", tmp_path / "s.csv")
    trained(*words, "--out", tmp_path / "t.csv", "--resume")
    write_about(folder, "acs", {"counts": 2})
    said = refused(*words, "--out", tmp_path / "u.csv", "--resume")
    assert said.startswith(f"logofair: {state}: is of a run with prepared data '")
    assert not (tmp_path / "u.csv").exists()


def test_the_history_tells_every_round(tmp_path: Path) -> None:
    words = ("--method", "fairfed", *SMALL[:-2], "--rounds", 3, "--out", tmp_path / "s.csv")
    found = trained(*words, "--history", tmp_path / "h.jsonl", "--checkpoint", tmp_path / "s.npz")
    lines = lines_of(tmp_path / "h.jsonl")
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert lines[2]["loss"] < lines[0]["loss"]
    last, gaps = lines[-1], found["train"]["gaps"]["demographic_parity"]
    assert last["accuracy"] == found["train"]["accuracy"]["value"]
    assert last["global_gap"] == pytest.approx(gaps["global"]["value"])
    assert last["local_gap"] == pytest.approx(gaps["largest_local"]["value"])
    assert [client["client"] for client in last["clients"]] == found["clients"]
    assert max(client["gap"] for client in last["clients"] if client["gap"] is not None) == last["local_gap"]
    with np.load(tmp_path / "s.npz") as stored:
        rows, loss = stored["measured rows"], stored["measured loss"]
        assert last["method_state"] == {"weights": stored["method weights"].tolist()}
    assert [client["loss"] for client in last["clients"]] == pytest.approx(loss.sum((1, 2)) / rows.sum((1, 2)))
    assert last["loss"] == pytest.approx(loss.sum() / rows.sum())


def test_the_history_of_fcfl_tells_the_rounds_it_counts(tmp_path: Path) -> None:
    words = ("--method", "fcfl", *SMALL[:-2], "--rounds", 21, "--out", tmp_path / "s.csv")
    found = trained(*words, "--history", tmp_path / "h.jsonl")
    assert [line["round"] for line in lines_of(tmp_path / "h.jsonl")] == [20]
    assert found["rounds"] == 21


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--method fedagv --data adult", "--method: got 'fedagv' (did you mean 'fedavg'?); use one of fedavg, "),
        ("--method fedavg --data adlut", "--data: got 'adlut' (did you mean 'adult'?); use one of adult, enem, "),
        ("--method fedavg --data acs", "acs: nothing prepared in {cache}/acs; run: logofair data prepare acs --from "),
        ("--method fedavg --data adult --from x", "--from: adult needs no files; leave it out."),
        ("--method fedavg --data adult --target x", "--target: adult has one target alone; leave it out."),
        ("--method fedavg --data adult --partition natural", "--partition: adult has no natural clients; use "),
        ("--method fedavg --data adult --limit 60000", "--limit: got 60,000, but there are 48,842 rows; ask for "),
        ("--method fedavg --data generated --network resnet18", "r: --network: resnet18 does not take tables; use "),
        ("--method fedavg --data generated --hidden 9", "--hidden: is the width of an mlp; leave it out for logistic."),
        ("--method fedavg --data generated --beta 1", "--beta: is a setting of fairfed; leave it out for fedavg."),
        ("--method fairfed --data generated --step 1", "--step: is a setting of fedfb; leave it out for fairfed."),
        ("--method fedfb --data generated --tolerance 1", "--tolerance: is a setting of fcfl; leave it out for fedfb."),
        ("--method fcfl --data generated --local-epochs 2", "--local-epochs: fcfl takes no local steps; leave it out"),
        ("--method fairfed --data generated --debias-step 1", "--debias-step: is the step of fairbatch; leave it out "),
        ("--method fairfed --data generated --debias non", "--debias: got 'non' (did you mean 'none'?); use one of "),
        (
            "--method fedavg --data generated --partition natural --alpha 1",
            "--alpha: natural clients are not dealt by ",
        ),
        ("--method fedavg --data generated --train-share 0.7", "0.7 + 0.35 leave no rows for testing; make them less "),
        (
            "--method fedavg --data generated --resume",
            "--resume: goes on from the state in --checkpoint; name its file",
        ),
        ("--method fedavg --data generated --resume --checkpoint no.npz", "no.npz: cannot be read (No such file or "),
        (
            "--method fedavg --data generated --engine flower --history h",
            "--engine: flower returns the last state alone",
        ),
        ("--method fedavg --data generated --engine flower --device cuda", "--device: flower's simulation trains on "),
        (
            "--method fedavg --data generated --limit 150 --clients 30 --alpha 3",
            " --clients, a larger --alpha, or more ",
        ),
        (
            "--method fedavg --data generated --limit 12 --partition natural",
            "take only the largest, such as --clients ",
        ),
        ("--method fedavg --data generated --clients 0", "--clients: got 0; pass a whole number from 1."),
        ("--method fedavg --data generated --learning-rate nan", "--learning-rate: got nan; pass a number above 0."),
        (
            "--method fedavg --data generated --learning-rate 1e9",
            "logofair: --learning-rate: got 1000000000.0; pass a ",
        ),
        ("--method fcfl --data generated --step-size 1e9", "logofair: --step-size: got 1000000000.0; pass a number "),
        (
            "--method fcfl --data generated --first-stage 3 --rounds 2",
            "--first-stage: 3 rounds are more than the 2 in ",
        ),
        ("--method fedavg --data generated --limit 9 --clients 10", "logofair: --clients: got 10 clients for 9 rows; "),
        ("--method fedavg --data adult --sensitive sxe", "logofair: --sensitive: got 'sxe' (did you mean 'sex'?)"),
        ("--method fedavg --data generated --sensitive sex", "logofair: --sensitive: got 'sex'; use one of group"),
        (
            "--method fedavg --data generated --limit 100 --train-share 1e-4",
            "logofair: --train-share and --calibration-share: part 'train' gets none of 100 rows; ",
        ),
        ("--method fedavg --data acs --from nowhere", "logofair: --from: nowhere is not there; check the path."),
        ("--method fedavg --data generated --checkpoint ./s.csv", "--checkpoint: s.csv is the file of --out too; "),
        ("--method fedavg --data generated --checkpoint h --history h", "--history: h is the file of --checkpoint too"),
        ("--method fedavg --data generated --history no/h", "no/h: cannot be written (no folder 'no'); make the "),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    words: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cache = tmp_path / "cache"
    assert sentence.format(cache=cache) in refused(*words.split(), "--cache", cache, "--out", "s.csv")
    assert not list(tmp_path.iterdir())


def test_the_output_is_checked_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("mine")
    assert "exists already; choose another name or add --force" in refused(*QUICK, "--out", tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text() == "mine"
    trained(*QUICK, "--out", tmp_path / "s.csv", "--force")
    assert "end its name in one of .parquet" in refused(*QUICK, "--out", tmp_path / "s.xlsx")


def test_without_a_gpu_or_pytorch_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    said = refused(*QUICK, "--device", "cuda", "--out", tmp_path / "s.csv")
    assert said == "logofair: --device: got 'cuda', but PyTorch finds no GPU here; use cpu or auto."
    monkeypatch.setattr("logofair_reproduction.training.find_spec", lambda name: None)
    said = refused(*QUICK, "--out", tmp_path / "s.csv")
    assert said.endswith("needs PyTorch; install it with: pip install './reproduction[train]'.")


def test_two_names_of_one_file_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "s.csv").symlink_to(tmp_path / "h.jsonl")
    said = refused(*QUICK, "--out", tmp_path / "s.csv", "--history", tmp_path / "h.jsonl")
    assert said == f"logofair: --history: {tmp_path / 'h.jsonl'} is the file of --out too; choose another name."


@pytest.mark.parametrize("option", ["--out", "--checkpoint", "--history"])
def test_a_folder_that_takes_no_files_is_found_before_any_work(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.touch

    def touch(path: Path, *words: Any, **more: Any) -> None:
        if path.parent == tmp_path / "sealed":
            raise PermissionError(1, "Operation not permitted")
        real(path, *words, **more)

    monkeypatch.setattr(Path, "touch", touch)
    (tmp_path / "sealed").mkdir()
    path = tmp_path / "sealed" / "s.csv"
    words = ("--method", "fedavg", "--data", "acs", "--out", tmp_path / "t.csv")  # acs is not even there
    said = refused(*words, option, path, "--cache", tmp_path)
    assert said == f"logofair: {path}: cannot be written (Operation not permitted); choose another folder."
    assert [path.name for path in tmp_path.rglob("*")] == ["sealed"]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file can grow past a size, as on a disk that is full."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_a_full_disk_is_one_sentence_and_leaves_no_scores(ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"s.{ending}"
    with files_of_at_most(4096):
        said = refused(*QUICK, "--out", out)
    assert said.startswith(f"logofair: {out}: cannot be written (File too large")
    assert said.endswith("has room and may be written to.")
    assert not list(tmp_path.iterdir())


def test_on_a_full_disk_the_history_keeps_the_lines_that_are_whole(tmp_path: Path) -> None:
    trained(*QUICK, "--out", tmp_path / "s.csv", "--history", tmp_path / "whole.jsonl")
    first, _ = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    history = tmp_path / "h.jsonl"
    for room, left in ((len(first) + 9, first), (9, None)):
        with files_of_at_most(room):
            said = refused(*QUICK, "--out", tmp_path / "t.csv", "--history", history, "--force")
        assert said == f"logofair: {history}: cannot be written (File too large); make room or choose another folder."
        assert (history.read_bytes() if history.exists() else None) == left
    assert not (tmp_path / "t.csv").exists()


@pytest.fixture
def unscaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose features are so large that a large step leaves what a float can hold."""
    drawn = CATALOGUE["generated"].load(rows=2000)
    large = replace(drawn, features=1e5 * drawn.features)
    monkeypatch.setattr(train_rows, "load", lambda name, **choices: large)


@pytest.mark.usefixtures("unscaled")
def test_a_model_that_diverges_is_said_once_and_only_sound_states_are_kept(tmp_path: Path) -> None:
    steps = ("--learning-rate", 1e6, "--optimiser", "sgd", "--local-epochs", 1, "--batch-size", 700)
    kept = ("--checkpoint", tmp_path / "s.npz", "--history", tmp_path / "h.jsonl", "--save-every", 1)
    said = refused("--method", "fedavg", *SMALL, *steps, "--network", "mlp", *kept, "--out", tmp_path / "s.csv")
    assert said == (
        "logofair: train: the model diverged in round 2 (it holds numbers that are not finite); use a smaller learning "
        "rate or step size."
    )
    (line,) = lines_of(tmp_path / "h.jsonl")
    assert (line["round"], line["loss"] > 0) == (1, True)
    with np.load(tmp_path / "s.npz") as stored:
        assert all(np.isfinite(stored[name]).all() for name in stored.files)
        assert json.loads(stored["header"].tobytes())["round"] == 1
    assert not (tmp_path / "s.csv").exists()


@pytest.mark.usefixtures("unscaled")
@pytest.mark.parametrize("kept", [False, True])
def test_rounds_that_are_not_counted_cannot_hide_that_a_model_diverged(kept: bool, tmp_path: Path) -> None:
    words = ("--method", "fcfl", "--network", "mlp", "--step-size", 1e6, *SMALL[:-2], "--rounds", 12)
    state = ("--checkpoint", tmp_path / "s.npz") if kept else ()
    assert "train: the model diverged in round " in refused(*words, *state, "--out", tmp_path / "s.csv")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- other data and engines


def faces(rows: int = 40, labels: Any = None) -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        "faces",
        rng.integers(0, 256, (rows, 3, 8, 8), dtype=np.uint8),
        feature_names=(),
        labels=rng.integers(0, 2, rows) if labels is None else labels,
        sensitive=rng.choice(["a", "b"], rows),
    )


def test_images_are_trained_on_by_resnet18(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_rows, "digest_of", lambda folder: "none")
    monkeypatch.setattr(train_rows, "load", lambda name, **choices: faces(choices["rows"]))
    words = ("--method", "fedavg", "--data", "celeba", "--limit", 40, "--clients", 2, "--alpha", 9, "--rounds", 1)
    said = refused(*words, "--network", "mlp", "--out", tmp_path / "s.csv")
    assert said.endswith("mlp does not take images; use resnet18.")
    found = trained(*words, "--local-epochs", 1, "--out", tmp_path / "s.csv")
    assert (found["network"], found["parameters"]) == ("resnet18", 11_177_025)
    assert pl.read_csv(tmp_path / "s.csv")["score"].is_between(0, 1).all()


def test_rows_of_one_label_or_one_group_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--method", "fedavg", "--data", "adult", "--clients", 2, "--alpha", 9, "--out", tmp_path / "s.csv")
    monkeypatch.setattr(train_rows, "load", lambda name, **choices: faces(labels=np.ones(40)))
    assert "all 14 rows to train on have label 1, and training needs both" in refused(*words)
    monkeypatch.setattr(train_rows, "load", lambda name, **choices: replace(faces(), sensitive=np.full(40, "a")))
    assert "all rows are of group 'a'; fairness compares two or more groups" in refused(*words)


def test_files_are_prepared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Path] = []

    def prepare(source: Path, into: Path, *, progress: object) -> dict[str, int]:
        prepared.append(source)
        into.mkdir(parents=True)
        write_about(into, "acs", {})
        return {}

    drawn = CATALOGUE["generated"].load(rows=1000)
    monkeypatch.setattr(train_rows, "CATALOGUE", {"acs": replace(CATALOGUE["acs"], prepare=prepare)})
    monkeypatch.setattr(train_rows, "load", lambda name, **choices: drawn)
    source = tmp_path / "files"
    source.mkdir()
    words = ("--method", "fedavg", "--data", "acs", "--rounds", 1, "--from", source, "--cache", tmp_path / "cache")
    assert "prepared before" not in run("train", *words, "--out", tmp_path / "s.csv")[1]
    assert "The data set was prepared before, so that the files" in run("train", *words, "--out", tmp_path / "t.csv")[1]
    assert prepared == [source]
    assert f"--from: {source}x is not there; check the path." in refused(
        *words[:-4], "--from", f"{source}x", *words[-2:], "--out", tmp_path / "u.csv"
    )


def test_flower_gets_the_same_work_and_its_state_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_place(method: Any, network: Any, clients: Any, **more: Any) -> Any:
        *_, last = train_run.train(method, network, clients, **more)
        return last

    monkeypatch.setattr("logofair.engines.flower.require_flower", lambda *packages: None)
    monkeypatch.setitem(
        sys.modules, "logofair_reproduction.flower.simulation", SimpleNamespace(train_with_flower=in_place)
    )
    words = ("--method", "fairfed", *SMALL)
    trained(*words, "--engine", "flower", "--out", tmp_path / "f.csv")
    trained(*words, "--out", tmp_path / "s.csv")
    assert (tmp_path / "f.csv").read_bytes() == (tmp_path / "s.csv").read_bytes()


def test_a_model_that_decides_alike_on_all_rows_is_said_to_be_constant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "logofair_reproduction.training.Network.scores", lambda network, parameters, rows: np.full(len(rows), 0.9)
    )
    words = ("--method", "fedavg", "--data", "generated", "--limit", 400, "--rounds", 1, "--local-epochs", 1)
    code, output, error = run("train", *words, "--out", tmp_path / "a.csv")
    assert code == 0, error
    assert "The model accepts everybody on the test rows" in " ".join(output.split())


@pytest.mark.parametrize(("network", "rate"), [("logistic", 0.01), ("mlp", 0.001)])
def test_networks_with_hidden_layers_take_smaller_steps_unless_told(network: str, rate: float, tmp_path: Path) -> None:
    words = ("--method", "fedavg", "--data", "generated", "--limit", 400, "--rounds", 1, "--network", network)
    assert trained(*words, "--out", tmp_path / "a.csv")["settings"]["schedule_learning_rate"] == rate
    again = trained(*words, "--learning-rate", 0.5, "--out", tmp_path / "b.csv")
    assert again["settings"]["schedule_learning_rate"] == 0.5


def test_the_options_name_every_method_network_and_way_of_debiasing() -> None:
    from logofair_reproduction.commands import train as train_options
    from logofair_reproduction.commands.train import METHODS
    from logofair_reproduction.training import methods
    from logofair_reproduction.training.messages import DEBIASING
    from logofair_reproduction.training.networks import NETWORKS

    assert tuple(methods.METHODS) == METHODS
    assert tuple(NETWORKS) == train_options._NETWORKS
    assert DEBIASING == train_options._DEBIASING
