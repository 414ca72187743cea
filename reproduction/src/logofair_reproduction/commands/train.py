"""``logofair train``: train a model over clients by a federated method, and write the scores of the other rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from logofair.cli.commands.apply import out_option
from logofair.cli.options import (
    examples,
    force_option,
    json_option,
    name_option,
    notion_option,
    number_option,
    path_option,
    seed_option,
    such_that,
    together,
)
from logofair.engines.flower import require_flower
from logofair.errors import InputError
from logofair.files.writing import check_apart, check_output
from logofair_reproduction.commands.data import NAMES
from logofair_reproduction.errors import TrainingInterrupted

__all__ = ["METHODS", "train"]


_NETWORKS = ("logistic", "mlp", "resnet18")
_DEBIASING = ("none", "reweighing", "fairbatch")
_count = such_that(lambda n: n >= 1, "pass a whole number from 1")
_above = such_that(lambda x: 0 < x < math.inf, "pass a number above 0")
_from_0 = such_that(lambda x: 0 <= x < math.inf, "pass a number of at least 0")


_data_options = together(
    click.option("--from", "source", type=click.Path(path_type=Path), help="Official files, if not prepared yet."),
    path_option("--cache", "Folder of prepared data, as of logofair data."),
    click.option("--sensitive", metavar="NAME", help="Attribute whose groups are compared.  [default: the data set's]"),
    click.option("--target", metavar="NAME", help="celeba: attribute to predict.  [default: Smiling]"),
    number_option("--limit", int, _count, "Take only so many rows."),
)
_client_options = together(
    name_option(
        "--partition",
        ("sensitive", "label", "natural"),
        "Clients that differ in groups (sensitive) or in labels (label), or the data set's own (natural).",
        "sensitive",
    ),
    number_option("--clients", int, _count, "Number of clients.  [default: 5, or all natural ones]"),
    number_option("--alpha", float, _above, "Evenness of the clients, the smaller the less even.  [default: 0.5]"),
    name_option(
        "--scheme",
        ("plain", "authors"),
        "How rows are dealt: plain, or authors as in the paper's code.  [default: plain]",
    ),
    number_option(
        "--train-share",
        float,
        such_that(lambda s: 0 < s < 1, "pass a number between 0 and 1"),
        "Share of the rows to train on.",
        default=0.35,
    ),
    number_option(
        "--calibration-share",
        float,
        such_that(lambda s: 0 <= s < 1, "pass a number from 0 to below 1"),
        "Share of the rows for logofair fit; the rest is for testing.",
        default=0.35,
    ),
)
_step_options = together(
    name_option("--network", _NETWORKS, f"{', '.join(_NETWORKS)}.  [default: the data set's]"),
    number_option("--hidden", int, _count, "mlp: width of the hidden layer.  [default: 32]"),
    number_option("--rounds", int, _count, "Rounds in all.  [default: 20; fcfl: 1600]"),
    number_option("--local-epochs", int, _count, "Passes of a client over its rows in a round.  [default: 5]"),
    number_option("--learning-rate", float, _above, "Step size of the clients.  [default: 0.01; mlp, resnet18: 0.001]"),
    number_option("--batch-size", int, _count, "Rows of a mini-batch.  [default: 128; fcfl: 100]"),
    name_option("--optimiser", ("adam", "sgd"), "adam or sgd.  [default: adam]"),
)
_method_options = together(
    number_option("--beta", float, _from_0, "fairfed: how fast weights move.  [default: 0.05]"),
    name_option(
        "--debias",
        _DEBIASING,
        f"fairfed: {', '.join(_DEBIASING)} at the clients.  [default: reweighing; none where labels condition]",
    ),
    number_option("--debias-step", float, _above, "fairfed: step of fairbatch.  [default: 0.05]"),
    number_option("--step", float, _from_0, "fedfb: step of the weights; 0.005 suits equalized_odds.  [default: 0.3]"),
    number_option("--tolerance", float, _from_0, "fcfl: largest gap of a client.  [default: 0.1]"),
    number_option(
        "--step-size",
        float,
        _above,
        "fcfl: step along the mix; 0.01 as published, 0.5 suits a logistic regression.  [default: 0.01]",
    ),
    number_option(
        "--first-stage", int, _from_0, "fcfl: rounds of its first stage.  [default: 800, at most half of all]"
    ),
)
_file_options = together(
    path_option("--checkpoint", "Where to keep the state of training."),
    number_option("--save-every", int, _count, "Rounds between two states kept.", default=10),
    click.option("--resume", is_flag=True, help="Go on from the state in --checkpoint."),
    path_option("--history", "Where to write figures by round (JSON lines)."),
)


METHODS = ("fedavg", "fairfed", "fedfb", "fcfl")


@click.command(
    epilog=examples(
        "logofair train --method fedavg --data generated --rounds 5 --out scores.csv",
        "logofair train --method fairfed --data adult --out scores.parquet",
        "logofair train --method fedfb --data enem --notion equalized_odds --rounds 50 --out scores.csv",
        "logofair train --method fcfl --data acs --partition natural --checkpoint state.npz --out scores.parquet",
    )
)
@name_option("--method", METHODS, f"{', '.join(METHODS)}.", required=True)
@name_option("--data", NAMES, f"{', '.join(NAMES)}.", required=True)
@_data_options
@notion_option
@_client_options
@_step_options
@_method_options
@seed_option("Of the dealing, the splitting and the training.")
@name_option("--device", ("auto", "cpu", "cuda"), "auto (a GPU where there is one), cpu or cuda.", "auto")
@name_option(
    "--engine",
    ("inprocess", "flower"),
    "inprocess, or flower (its simulation: real messages, slower).",
    "inprocess",
)
@_file_options
@out_option("scores")
@force_option()
@json_option()
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
    from logofair_reproduction.training import need_torch

    need_torch()
    from logofair.cli.pages.console import page, print_json, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair_reproduction.commands.training_run import (
            CheckpointSettings,
            resumed_settings,
            train_and_score,
            write_scores,
        )
        from logofair_reproduction.commands.training_settings import TrainSettings, naming_options, training_rows
        from logofair_reproduction.training.rows import device_named

        stopped, checkpoints = None, CheckpointSettings(**kept)
        with naming_options():
            settings = resumed_settings(TrainSettings(**options), checkpoints)
            device = device_named(_device_name(place["device"], place["engine"], kept))
            rows = training_rows(settings, progress, source=place["source"], cache=place["cache"])
            try:
                trained = train_and_score(
                    settings, rows, progress, device=device, engine=place["engine"], checkpoints=checkpoints
                )
                write_scores(out, trained)
            except TrainingInterrupted as interrupt:
                stopped = interrupt
    if stopped is not None:
        click.echo(_interrupted(stopped.rounds, settings.n_rounds, kept["checkpoint"], stopped.saved), err=True)
        ctx.exit(130)
    from logofair_reproduction.commands.pages.train import as_dict, show, training_measures

    measures = training_measures(trained)
    if as_json:
        print_json(as_dict(measures, out))
    else:
        show(measures, out, page())


def _check(
    out: Path, force: bool, checkpoint: Path | None, save_every: int, resume: bool, history: Path | None
) -> None:
    """Raise where files cannot be written, or options do not go together, before any work is done."""
    from logofair.files import polars_module

    polars_module()
    check_output(out, force=force)
    if resume and checkpoint is None:
        raise InputError("--resume: goes on from the state in --checkpoint; name its file.")
    for path in (checkpoint, history):
        if path is not None:
            check_output(path, force=force or resume)
    check_apart({"--out": out, "--checkpoint": checkpoint, "--history": history})


def _device_name(device: str, engine: str, kept: Mapping[str, Any]) -> str:
    """Where to train; raise on what flower's simulation cannot do."""
    if engine != "flower":
        return device
    if kept["checkpoint"] or kept["history"]:
        raise InputError("--engine: flower returns the last state alone; leave --checkpoint and --history out.")
    if device == "cuda":
        raise InputError("--device: flower's simulation trains on the CPU; use cpu or auto.")
    require_flower("ray")
    return "cpu"


def _interrupted(done: int, rounds: int, checkpoint: Path | None, saved: bool) -> str:
    at = f"logofair: interrupted after {done:,} of {rounds:,} rounds"
    if not saved:
        return f"{at}; nothing was kept (--checkpoint keeps the state)." if checkpoint is None else f"{at}."
    return f"{at}; the state is in {checkpoint}: to go on, run the same command with --resume."
