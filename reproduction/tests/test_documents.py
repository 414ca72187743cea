"""What the documents say of the records: the README's table is what was recorded."""

from __future__ import annotations

import re
from pathlib import Path

from logofair_reproduction.experiments.records import read_records
from logofair_reproduction.experiments.summaries import lines

ROOT = Path(__file__).parents[2]
METHODS = {"FedAvg": "fedavg", "FedFB": "fedfb", "FairFed": "fairfed", "FCFL": "fcfl", "**LoGoFair**": "logofair_lg"}


def test_the_readmes_table_is_what_was_recorded() -> None:
    records = read_records(ROOT / "reproduction" / "records")
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
