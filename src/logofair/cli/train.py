"""``logofair train``: train a model over clients by a federated method, and write the scores of the other rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.apply import ENDINGS
from logofair.cli.data_out import check_output, force_option
from logofair.cli.datasets import NAMES
from logofair.cli.options import examples, notion_option, one_of, seed_option, such_that
from logofair.cli.train_options import data_set, dealing, keeping, of_methods, steps

if TYPE_CHECKING:
    from logofair.cli.train_rows import TrainingRows
    from logofair.cli.train_run import Trained
    from logofair.cli.train_settings import TrainSettings

__all__ = ["train"]

METHODS = ("fedavg", "fairfed", "fedfb", "fcfl")


@click.command(
    epilog=examples(
        "logofair train --method fairfed --data adult --out scores.parquet",
        "logofair train --method fedfb --data enem --notion equalized_odds --rounds 50 --out scores.csv",
        "logofair train --method fcfl --data acs --partition natural --checkpoint state.npz --out scores.parquet",
    )
)
@click.option("--method", metavar="NAME", required=True, callback=one_of(METHODS), help=f"{', '.join(METHODS)}.")
@click.option("--data", metavar="NAME", required=True, callback=one_of(NAMES), help=f"{', '.join(NAMES)}.")
@data_set
@notion_option
@dealing
@steps
@of_methods
@seed_option("Of the dealing, the splitting and the training.")
@click.option(
    "--device",
    metavar="NAME",
    default="auto",
    show_default=True,
    callback=one_of(("auto", "cpu", "cuda")),
    help="auto (a GPU where there is one), cpu or cuda.",
)
@click.option(
    "--engine",
    metavar="NAME",
    default="inprocess",
    show_default=True,
    callback=one_of(("inprocess", "flower")),
    help="inprocess, or flower (its simulation: real messages, slower).",
)
@keeping
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    callback=such_that(lambda path: path.suffix.lower() in ENDINGS, f"end its name in one of {', '.join(ENDINGS)}"),
    help="Where to write the scores; the ending says how: Parquet, CSV or Arrow.",
)
@force_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of tables.")
@click.pass_context
def train(ctx: click.Context, /, **options: Any) -> None:
    """Train a model over clients, and write the scores of the rows not trained on.

    The scores have the columns id (the row's number in the data set), part
    (calibration or test), client, group, label and score; logofair audit and
    logofair fit read them as they are. fedavg trains for accuracy alone; fairfed,
    fedfb and fcfl also for fairness. The same seed gives the same scores.
    """
    kept = {name: options.pop(name) for name in ("checkpoint", "save_every", "resume", "history")}
    place = {name: options.pop(name) for name in ("source", "cache", "device", "engine")}
    out, force, as_json = (options.pop(name) for name in ("out", "force", "as_json"))
    _check(out, force, **kept)
    from logofair.cli.console import watching
    from logofair.training.extra import need_torch

    need_torch()
    with watching(quiet=as_json) as watch:
        from logofair.cli.train_rows import training_rows  # here, while the reader sees that work goes on
        from logofair.cli.train_run import Keeping, Stopped, as_begun, train_and_score, write_scores
        from logofair.cli.train_settings import TrainSettings, in_options
        from logofair.training.rows import device_named

        stopped, keeping = None, Keeping(**kept)
        with in_options():
            settings = as_begun(TrainSettings(**options), keeping)
            device = device_named(_device_name(place["device"], place["engine"], kept))
            rows = training_rows(settings, watch, source=place["source"], cache=place["cache"])
            try:
                trained = train_and_score(settings, rows, watch, device=device, engine=place["engine"], keeping=keeping)
                write_scores(out, rows, trained.scores)
            except Stopped as interrupt:
                stopped = interrupt
    if stopped is not None:
        click.echo(_interrupted(stopped.rounds, settings.n_rounds, kept["checkpoint"], stopped.saved), err=True)
        ctx.exit(130)
    _show(settings, rows, trained, out, as_json)


def _check(
    out: Path, force: bool, checkpoint: Path | None, save_every: int, resume: bool, history: Path | None
) -> None:
    """Raise where files cannot be written, or options do not go together, before any work is done."""
    from logofair.inputs import InputError
    from logofair.tables import polars_module

    polars_module()
    check_output(out, force=force)
    if resume and checkpoint is None:
        raise InputError("--resume: goes on from the state in --checkpoint; name its file.")
    for path in (checkpoint, history):
        if path is not None:
            check_output(path, force=force or resume)
    named = {"--out": out, "--checkpoint": checkpoint, "--history": history}
    files: dict[str, str] = {}
    for option, path in named.items():
        if path is not None and (other := files.setdefault(os.path.realpath(path), option)) != option:
            raise InputError(f"{option}: {path} is the file of {other} too; choose another name.")


def _device_name(device: str, engine: str, kept: Mapping[str, Any]) -> str:
    """Where to train; raise on what flower's simulation cannot do."""
    from logofair.inputs import InputError

    if engine != "flower":
        return device
    if kept["checkpoint"] or kept["history"]:
        raise InputError("--engine: flower tells the last state alone; leave --checkpoint and --history out.")
    if device == "cuda":
        raise InputError("--device: flower's simulation trains on the CPU; use cpu or auto.")
    from logofair.engines.flower import require_flower

    require_flower("ray")
    return "cpu"


def _interrupted(done: int, rounds: int, checkpoint: Path | None, saved: bool) -> str:
    at = f"logofair: interrupted after {done:,} of {rounds:,} rounds"
    if not saved:
        return f"{at}; nothing was kept (--checkpoint keeps the state)." if checkpoint is None else f"{at}."
    return f"{at}; the state is in {checkpoint}: to go on, run the same command with --resume."


def _show(settings: TrainSettings, rows: TrainingRows, trained: Trained, out: Path, as_json: bool) -> None:
    """Print what was trained."""
    from logofair.cli.train_page import as_dict, measures_of, show

    measures = measures_of(settings, rows, trained)
    if as_json:
        import json

        click.echo(json.dumps(as_dict(settings, rows, trained, measures, out), indent=2, allow_nan=False))
    else:
        from logofair.cli.console import page

        show(settings, rows, trained, measures, out, page())
