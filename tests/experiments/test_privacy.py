"""The measured table of privacy against accuracy."""

from __future__ import annotations

import numpy as np
import polars
import pytest

from logofair.errors import InputError
from logofair.experiments import privacy


def scored(random_state=0, n=4000):
    random = np.random.default_rng(random_state)
    groups, clients = (random.integers(0, 2, n).astype(np.int32) for _ in range(2))
    scores = random.beta(1 + groups, 2)
    labels = (random.random(n) < scores).astype(np.int64)
    return privacy.ScoredData(
        scores, labels, groups, clients, {"calibration": np.arange(n // 2), "test": np.arange(n // 2, n)}
    )


@pytest.fixture(name="lines", scope="module")
def _lines():
    made = privacy.lines([scored(random_state=0), scored(random_state=1)], draws=2, epsilons=(10.0, 0.1))
    return {(line.notion, line.epsilon): line for line in made}


def test_every_notion_has_a_line_for_every_setting(lines):
    assert list(lines) == [(n, e) for n in ("DP", "EO") for e in ("model alone", "exact rows", "no noise", "10", "0.1")]


def test_fitting_lowers_the_gap_of_the_model_alone_and_heavy_noise_raises_it_again(lines):
    gap = {setting: lines["DP", setting].figures["mean local gap"][0] for _, setting in lines}
    assert gap["exact rows"] < 0.5 * gap["model alone"]
    assert gap["no noise"] < 0.5 * gap["model alone"]
    assert gap["0.1"] > 1.5 * gap["10"]


def test_more_noise_needs_more_rows(lines):
    assert lines["DP", "no noise"].rows_needed is None
    assert 5 * lines["DP", "10"].rows_needed < lines["DP", "0.1"].rows_needed


def test_on_bins_without_noise_the_rates_fitted_are_those_of_the_real_rows():
    run = scored()
    rows = privacy._binned(run, None, 0)
    for notion in ("demographic_parity", "equalized_odds"):
        assert privacy._figures(run, notion, rows)[privacy._ROWS_OFF] == pytest.approx(0, abs=1e-9)


def test_without_the_file_of_acs_the_table_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LOGOFAIR_DATA", str(tmp_path))
    monkeypatch.setattr(privacy, "score_adult", scored)
    privacy.main(adult_seeds=1, draws=1)
    printed = capsys.readouterr().out
    assert "Adult, 5 clients" in printed
    assert "ACS is left out: " in printed
    assert "set LOGOFAIR_DATA to the folder that holds" in printed
    assert sum(line.startswith(("| DP", "| EO")) for line in printed.splitlines()) == 16


def test_adult_is_scored_by_a_model_of_other_rows():
    run = privacy.score_adult(0)
    assert run.shape == (5, 2)
    assert run.smallest_cell() == 2
    parts = [set(rows.tolist()) for rows in run.parts.values()]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]


def test_acs_is_read_from_the_folder_named(monkeypatch, tmp_path):
    random, n = np.random.default_rng(0), 300
    names = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "RAC1P")
    columns = {name: random.integers(1, 6, n) for name in names}
    columns |= {
        "SEX": random.integers(1, 3, n),
        "PINCP": random.integers(0, 2, n),
        "STATE": random.choice(["AL", "WY"], n),
    }
    (tmp_path / "acs").mkdir()
    polars.DataFrame(columns).write_parquet(tmp_path / "acs" / "acs_income_2018_35_states.parquet")
    monkeypatch.setenv("LOGOFAIR_DATA", str(tmp_path))
    table = privacy.load_acs()
    np.testing.assert_array_equal(table.clients, columns["STATE"] == "WY")
    np.testing.assert_array_equal(table.groups, columns["SEX"] - 1)
    run = privacy.score_acs(table, random_state=0)
    assert run.shape == (2, 2)
    assert run.scores.min() >= 0
    assert run.scores.max() <= 1


def test_a_missing_file_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("LOGOFAIR_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"nowhere.*: not there; set LOGOFAIR_DATA"):
        privacy.load_acs()
