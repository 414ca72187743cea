"""``logofair train``: scores of the rows not trained on, as audit and fit read them, and bad input in one sentence."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from support import commandline

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")
pytest.importorskip("torch")

import polars as pl

from logofair import audit
from logofair_reproduction.commands.train import METHODS
from logofair_reproduction.datasets.catalogue import CATALOGUE, load_generated
from logofair_reproduction.training import methods

pytestmark = [pytest.mark.tool, pytest.mark.training]

run = commandline.run
trained = partial(commandline.json_of, "train")
refused = partial(commandline.refused, "train")
SMALL = ("--data", "generated", "--limit", "2000", "--rounds", "2")
QUICK = ("--method", "fedavg", *SMALL)


def test_the_option_names_every_method() -> None:
    assert tuple(methods.METHODS) == METHODS


@pytest.mark.parametrize("method", METHODS)
def test_every_method_scores_the_rows_it_was_not_trained_on(method: str, tmp_path: Path) -> None:
    out = tmp_path / "scores.parquet"
    found = trained("--method", method, *SMALL, "--out", out)
    scores, data = pl.read_parquet(out), load_generated()
    assert scores.columns == ["id", "part", "site", "group", "label", "score"]
    assert found["rows"] == {"train": 700, "calibration": 700, "test": 600}
    assert dict(scores["part"].value_counts().rows()) == {"calibration": 700, "test": 600}
    ids = scores["id"].to_numpy()
    assert np.unique(ids).size == ids.size == 1300
    assert (data.labels[ids] == scores["label"].to_numpy()).all()
    assert (data.sensitive[ids] == scores["group"].to_numpy()).all()
    assert set(scores["site"].to_list()) <= set(range(5))
    assert scores["score"].is_between(0, 1).all()


def test_the_figures_are_those_of_an_audit_of_the_test_rows(tmp_path: Path) -> None:
    found = trained(*QUICK, "--notion", "equalized_odds", "--out", tmp_path / "s.parquet")
    test = pl.read_parquet(tmp_path / "s.parquet").filter(pl.col("part") == "test")
    accepted, label = (test["score"] >= 0.5).to_numpy(), test["label"].to_numpy()
    columns = {"sensitive_features": test["group"].to_numpy(), "sites": test["site"].to_numpy()}
    assert found["test"] == audit(accepted, label, **columns, notion="equalized_odds").as_dict()
    assert found["test"]["accuracy"]["value"] == pytest.approx((accepted == label).mean(), abs=1e-6)


def test_the_same_seed_gives_the_same_file_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trained(*QUICK, "--seed", seed, "--out", tmp_path / f"{name}.csv")
    a, b, c = ((tmp_path / f"{name}.csv").read_bytes() for name in "abc")
    assert a == b != c


def test_settings_reach_the_method_so_that_two_without_a_step_are_fedavg(tmp_path: Path) -> None:
    for name, words in {
        "fedavg": ("fedavg",),
        "fedfb": ("fedfb", "--set", "alpha=0"),
        "fairfed": ("fairfed", "--set", "beta=0", "--set", "debias=none"),
    }.items():
        trained("--method", *words, *SMALL, "--out", tmp_path / f"{name}.csv")
    assert len({(tmp_path / f"{name}.csv").read_bytes() for name in ("fedavg", "fedfb", "fairfed")}) == 1
    slower = trained(*QUICK, "--set", "learning_rate=0.001", "--set", "optimiser=sgd", "--out", tmp_path / "slow.csv")
    assert slower["settings"]["setting"] == {"learning_rate": 0.001, "optimiser": "sgd"}
    assert (tmp_path / "slow.csv").read_bytes() != (tmp_path / "fedavg.csv").read_bytes()


def test_natural_sites_are_those_of_the_data_set_and_the_largest_of_them(tmp_path: Path) -> None:
    data = load_generated()
    assert data.sites is not None
    names, sizes = np.unique(data.sites, return_counts=True)
    trained(*QUICK, "--partition", "natural", "--sites", 2, "--out", tmp_path / "s.csv")
    dealt = pl.read_csv(tmp_path / "s.csv")
    assert set(dealt["site"]) == set(names[np.argsort(-sizes, kind="stable")[:2]].tolist())
    assert (data.sites[dealt["id"].to_numpy()] == dealt["site"].to_numpy()).all()


def test_a_limit_draws_rows_of_the_embedded_data(tmp_path: Path) -> None:
    words = ("--method", "fedavg", "--data", "adult", "--sensitive", "race", "--limit", 2000, "--rounds", 1)
    found = trained(*words, "--out", tmp_path / "s.csv")
    assert sum(found["rows"].values()) == 2000
    scores, everyone = pl.read_csv(tmp_path / "s.csv"), CATALOGUE["adult"].load(sensitive="race")
    assert (everyone.labels[scores["id"].to_numpy()] == scores["label"].to_numpy()).all()


def test_the_page_is_short_and_its_next_command_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--method", "fairfed", *SMALL, "--notion", "equal_opportunity")
    code, output, error = run("train", *words, "--out", "my scores.parquet")
    assert code == 0, error
    lines = output.splitlines()
    assert len(lines) <= 16
    assert max(map(len, lines)) <= 80
    assert "points (could be" in output
    command = output.partition("Next:\n")[2].replace("\\\n", " ")
    assert "equal_opportunity" in command
    code, _, error = run(*shlex.split(command)[1:])
    assert code == 0, error
    assert (tmp_path / "policy.json").exists()


def test_a_model_that_decides_alike_on_all_rows_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "logofair_reproduction.training.networks.Network.scores", lambda self, parameters, rows: np.full(len(rows), 0.9)
    )
    assert "decided alike" in run("train", *QUICK, "--out", tmp_path / "a.csv")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--method", "fedagv", "--data", "adult"), "did you mean 'fedavg'"),
        (("--method", "fedavg", "--data", "adlut"), "did you mean 'adult'"),
        ((*QUICK, "--set", "lerning_rate=1"), "settings of fedavg: got 'lerning_rate' (did you mean 'learning_rate'?)"),
        ((*QUICK, "--set", "learning_rate"), "is no NAME=VALUE, such as learning_rate=0.005"),
        ((*QUICK, "--set", "learning_rate=fast"), "learning_rate: expected a number above 0, got 'fast'"),
        ((*QUICK, "--set", "optimiser=adan"), "optimiser: got 'adan' (did you mean 'adam'?); use one of adam, sgd."),
        ((*QUICK, "--set", "learning_rate=1e30"), "learning_rate: got 1e+30"),
        (("--method", "fcfl", *SMALL, "--set", "local_epochs=3"), "settings of fcfl: got 'local_epochs'"),
        ((*QUICK, "--partition", "natural", "--alpha", "1"), "--alpha: natural sites are not dealt by chance"),
        (("--method", "fedavg", "--data", "adult", "--partition", "natural"), "has no natural sites"),
        ((*QUICK, "--sites", "0"), "pass a whole number from 1"),
        ((*QUICK, "--sites", "5000"), "--sites: "),
        (("--method", "fedavg", "--data", "enem", "--cache", "nowhere"), "logofair data prepare enem"),
        ((*QUICK, "--sensitive", "colour"), "--sensitive: got 'colour'"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    words: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    out = tmp_path / "s.csv"
    assert sentence in " ".join(refused(*words, "--out", out).split())
    assert not list(tmp_path.iterdir())


def test_the_output_is_checked_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("mine")
    assert "add --force" in refused(*QUICK, "--out", tmp_path / "s.csv")
    assert "make the folder first" in refused(*QUICK, "--out", tmp_path / "none" / "s.csv")
    assert "give it a name that ends in .parquet" in refused(*QUICK, "--out", tmp_path / "s.xlsx")
    assert (tmp_path / "s.csv").read_text() == "mine"
