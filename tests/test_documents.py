"""What the documents say: the README's table is what was recorded, and the check of the site finds what it should."""

from __future__ import annotations

import re
from pathlib import Path

from logofair_reproduction.experiments.records import read_records
from logofair_reproduction.experiments.summaries import lines
from tools.check_site import faults

ROOT = Path(__file__).parents[1]
METHODS = {"FedAvg": "fedavg", "FedFB": "fedfb", "FairFed": "fairfed", "FCFL": "fcfl", "**LoGoFair**": "logofair_lg"}


def test_the_readmes_table_is_what_was_recorded() -> None:
    records = read_records(ROOT / "docs" / "reproduction")
    at = {"experiment": "comparison_dp", "data": "adult", "alpha": 5.0}
    recorded = {line.place["method"]: line for line in lines(each for each in records if at.items() <= each.items())}
    readme = (ROOT / "README.md").read_text("utf-8")
    for name, method in METHODS.items():
        line = recorded[method]
        figures = [line.figure(figure) for figure in ("accuracy", "global_gap", "local_gap")]
        shown = [f"{each.mean:.3f} ({each.low:.3f} to {each.high:.3f})" for each in figures]
        (row,) = re.findall(rf"^\| {re.escape(name)}[^|]* \| (.*) \|$", readme, re.MULTILINE)
        assert row.split(" | ") == [*shown, f"{line.figure('floor').mean:.3f}"], name
    assert f"{len(records):,} results" in readme


def test_what_is_wrong_with_a_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text('<h1 id="top">a</h1><a href="#top">up</a><a href="https://example.org">b</a>')
    assert list(faults(tmp_path)) == []
    (tmp_path / "bad.html").write_text(
        '<script src="https://cdn.example.org/a.js"></script><a href="good.html#gone">a</a><a href="no.html">b</a>'
    )
    (tmp_path / "bad.css").write_text("@font-face { src: url('https://fonts.example.org/a.woff2') }")
    found = " ".join(faults(tmp_path))
    assert "loads https://cdn.example.org/a.js from elsewhere" in found
    assert "good.html#gone is not there" in found
    assert "no.html is not there" in found
    assert "fonts.example.org/a.woff2 is elsewhere" in found
