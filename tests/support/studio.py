"""Rows for the studio, in memory and as files, and a session of either."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from logofair.studio.answers import Wish, answers
from logofair.studio.session import Session, Setting

START = Setting(local=0.05, overall=0.02)


def columns(rows=3000, sites=4, seed=0):
    """Scores that favour men at every site, by different amounts."""
    rng = np.random.default_rng(seed)
    site, sex = rng.integers(0, sites, rows), rng.integers(0, 2, rows)
    score = rng.beta(1.5 + sex + 0.2 * (site % 3), 2.5, rows)
    names = np.array([f"branch {place:04d}" for place in range(sites)], dtype=object)
    return {
        "scores": score,
        "labels": (rng.random(rows) < score).astype(int),
        "sensitive_features": np.array(["women", "men"])[sex],
        "sites": names[site],
    }


def session(rows=3000, sites=4, *, start=START, tested=True, **more):
    test = columns(rows, sites, seed=1) if tested else None
    return Session(columns(rows, sites), {}, start, 0, test, **more)


def answer(of, what="solve", **wish):
    return list(answers(of, Wish(what=what, **wish)))[-1]


def write_files(folder: Path) -> list[str]:
    """Write rows.csv and others.csv; return the words that name them and their columns."""
    for name, seed in (("rows", 0), ("others", 1)):
        made = columns(seed=seed)
        frame = {"p": made["scores"], "paid": made["labels"], "sex": made["sensitive_features"].tolist()}
        pl.DataFrame(frame | {"branch": made["sites"].tolist()}).write_csv(folder / f"{name}.csv")
    named = ["--score", "p", "--label", "paid", "--group", "sex", "--site", "branch"]
    return [str(folder / "rows.csv"), *named, "--test", str(folder / "others.csv")]
