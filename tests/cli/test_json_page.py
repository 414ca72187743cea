"""``docs/JSON.md`` has every key that the commands print with ``--json``, and what it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.commandline import json_of

pytest.importorskip("click")
pl = pytest.importorskip("polars")

pytestmark = pytest.mark.tool

PAGE = (Path(__file__).parents[2] / "docs" / "JSON.md").read_text(encoding="utf-8")
Tables = dict[str, dict[str, str]]

COLUMNS = ("--score", "score", "--group", "sex", "--site", "site")
LABELLED = (*COLUMNS, "--label", "label")
REQUIRED = [f"--require={sentence}" for sentence in ("selection rate ratio >= 0.7 per site", "accepted <= 0.6 overall")]
FIT = ("fit", "first.csv", *LABELLED)
FRONTIER = ("frontier", "first.csv", *LABELLED, "--local=none", "--global=0,none")
RUNS = (
    (*FIT, "--confidence=0.95", "--local=0.2", "--test=second.csv", "--out=policy.json", "--report=fit.html"),
    (*FIT, *REQUIRED, "--costs=1,3", "--test=second.csv", "--id=id", "--out=other.json"),
    ("fit", "first.csv", *COLUMNS, "--pooling=none", "--out=plain.json"),
    ("fit", "few.csv", *LABELLED, "--out=few.json"),
    (*FIT, "--objective=gap", "--require=accuracy loss <= 0.01 overall", "--local=0.2", "--out=least.json"),
    ("audit", "second.csv", *LABELLED, "--costs=1,3"),
    ("fit", "first.csv", *LABELLED, "--group=race", "--pooling=none", "--test=second.csv", "--out=several.json"),
    ("audit", "second.csv", *LABELLED, "--group=race"),
    ("audit", "few.csv", "--decision", "label", "--group", "sex"),
    ("audit", "second.csv", "--policy=policy.json", "--label", "label"),
    ("audit", "second.csv", "--policy=policy.json", "--label", "label", "--against=other.json", "--report=audit.html"),
    ("recommend", "first.csv", *LABELLED),
    ("recommend", "few.csv", *LABELLED, "--costs=1,3"),
    ("explain", "policy.json"),
    ("explain", "other.json"),
    ("explain", "few.json"),
    ("frontier", "first.csv", *LABELLED, "--test=second.csv"),
    ("frontier", "few.csv", *LABELLED, "--costs=1,3"),
    (*FRONTIER, "--require=accepted <= 0.2 overall", "--require=selection rate of Male >= 0.3 overall"),
)


def tables(page: str) -> Tables:
    """What each heading's table says every key holds."""
    found: Tables = {}
    for part in re.split(r"^#+ ", page, flags=re.MULTILINE)[1:]:
        name, *lines = part.splitlines()
        rows = [re.split(r" \| ", line.strip("| ")) for line in lines if line.startswith("| `")]
        if rows:
            found[name] = {
                key: re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", holds)
                for keys, holds, *_ in rows
                for key in re.findall("`([^`]*)`", keys)
            }
    return found


TABLES = tables(PAGE)
BASES = {
    "text": lambda value: isinstance(value, str),
    "name": lambda value: isinstance(value, str | int | float | bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "whole number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "true or false": lambda value: isinstance(value, bool),
    "anything": lambda value: True,
}


def faults(value: Any, holds: str, where: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    """Where a value is not what the page says."""
    holds = holds.partition(", if")[0]
    if " by " in holds:
        if not isinstance(value, dict):
            yield f"{where}: no object"
            return
        for name, each in value.items():
            yield from faults(each, holds.rpartition(" by ")[0], f"{where}.{name}", seen)
    elif holds.startswith("list of "):
        if not isinstance(value, list):
            yield f"{where}: no list"
            return
        for number, each in enumerate(value):
            yield from faults(each, holds.removeprefix("list of "), f"{where}[{number}]", seen)
    else:
        base = holds.removesuffix(" or none")
        if value is None and base != holds:
            return
        if base in BASES:
            if not BASES[base](value):
                yield f"{where}: {value!r} is no {holds}"
        else:
            yield from record_faults(value, TABLES[base], base, where, seen)


def record_faults(
    value: Any, keys: dict[str, str], name: str, where: str, seen: set[tuple[str, str]], prefix: str = ""
) -> Iterator[str]:
    """Keys that are missing on the page or in the object, and those that hold something else."""
    if not isinstance(value, dict):
        yield f"{where}: {value!r} is no {name}"
        return
    below = {key.removeprefix(prefix).partition(".")[0] for key in keys if key.startswith(prefix)}
    if missing := set(value) - below:
        yield f"{where}: not on the page: {sorted(missing)}"
    for key in sorted(below):
        full = prefix + key
        if full not in keys:
            optional = all(", if" in holds for each, holds in keys.items() if each.startswith(f"{full}."))
            if key in value:
                yield from record_faults(value[key], keys, name, f"{where}.{key}", seen, f"{full}.")
            elif not optional:
                yield f"{where}: {key} is missing"
        elif key in value:
            seen.add((name, full))
            yield from faults(value[key], keys[full], f"{where}.{key}", seen)
        elif ", if" not in keys[full]:
            yield f"{where}: {key} is missing"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    """What the commands print about people of three sites, and about a few."""
    folder, rng, rows = tmp_path_factory.mktemp("json"), np.random.default_rng(0), 6000
    site, sex = rng.choice(["north", "south", "east"], rows), rng.choice(["Female", "Male"], rows)
    score = rng.beta(1.0 + (sex == "Male"), 2.0).round(4)
    label = (rng.random(rows) < score).astype(int)
    people = pl.DataFrame({"id": np.arange(rows), "site": site, "sex": sex, "score": score, "label": label})
    people = people.with_columns(race=pl.Series(rng.choice(["Black", "white"], rows)))
    people[:3000].write_csv(folder / "first.csv")
    people[3000:].with_columns(site=pl.col("site").replace("east", "west")).write_csv(folder / "second.csv")
    people[:60].filter((pl.col("sex") == "Male") | (pl.col("site") != "south")).write_csv(folder / "few.csv")
    with chdir(folder):
        return [(run[0], json_of(*run)) for run in RUNS]


def test_the_page_has_every_key_and_what_it_holds(printed: list[tuple[str, Any]]) -> None:
    seen: set[tuple[str, str]] = set()
    found = [
        fault for command, value in printed for fault in record_faults(value, TABLES[command], command, command, seen)
    ]
    assert not found, "\n".join(sorted(set(found)))
    unseen = {(name, key) for name, keys in TABLES.items() for key in keys} - seen
    assert not unseen, f"on the page and never printed: {sorted(unseen)}"


def test_what_the_commands_print_is_strict_json(printed: list[tuple[str, Any]]) -> None:
    for _, value in printed:
        json.dumps(value, allow_nan=False)
