"""What the documents say of the records: the table of the results' page is what was recorded."""

from __future__ import annotations

import re
from pathlib import Path

from logofair_reproduction.experiments.records import read_records
from logofair_reproduction.experiments.summaries import lines, measured

ROOT = Path(__file__).parents[2]
METHODS = {"FedAvg": "fedavg", "FedFB": "fedfb", "FairFed": "fairfed", "FCFL": "fcfl", "**LoGoFair**": "logofair_lg"}


def test_the_table_of_results_is_what_was_recorded() -> None:
    records = read_records(ROOT / "reproduction" / "records")
    found = lines(measured(records).filter(experiment="comparison_dp", data="adult", alpha=5.0))
    recorded = {(row["method"], row["figure"]): row for row in found.iter_rows(named=True)}
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    for name, method in METHODS.items():
        rows = [recorded[method, figure] for figure in ("accuracy", "global_gap", "local_gap")]
        shown = [f"{row['mean']:.3f} ({row['low']:.3f} to {row['high']:.3f})" for row in rows]
        (row,) = re.findall(rf"^\| {re.escape(name)}[^|]* \| (.*) \|$", page, re.MULTILINE)
        assert row.split(" | ") == [*shown, f"{recorded[method, 'floor']['mean']:.3f}"], name
    assert f"{len(records):,} results" in page
