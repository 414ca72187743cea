"""``logofair train``: train a model over clients by a federated method, and write the scores of the other rows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.commands.apply import ENDINGS
from logofair.cli.commands.data import NAMES
from logofair.cli.options import Check, examples, force_option, notion_option, one_of, seed_option, such_that
from logofair.files.writing import check_output

if TYPE_CHECKING:
    from logofair.cli.training.rows import TrainingRows
    from logofair.cli.training.run import TrainedModel
    from logofair.cli.training.settings import TrainSettings

__all__ = ["METHODS", "train"]


_NETWORKS = ("logistic", "mlp", "resnet18")
_DEBIASING = ("none", "reweighing", "fairbatch")
_count = such_that(lambda n: n >= 1, "pass a whole number from 1")
_above = such_that(lambda x: 0 < x < math.inf, "pass a number above 0")
_from_0 = such_that(lambda x: 0 <= x < math.inf, "pass a number of at least 0")


def _name(option: str, names: tuple[str, ...], purpose: str, default: str | None = None) -> Callable[[Any], Any]:
    """An option that takes one of some names; without a default it may be left out."""

    def check(ctx: click.Context, param: click.Parameter, name: str | None) -> Any:
        return None if name is None else one_of(names)(ctx, param, name)

    shown = default is not None
    return click.option(option, metavar="NAME", default=default, show_default=shown, callback=check, help=purpose)


def _share(option: str, check: Check, purpose: str) -> Callable[[Any], Any]:
    return click.option(option, type=float, default=0.35, show_default=True, callback=check, help=purpose)


def _path(option: str, *name: str, purpose: str) -> Callable[[Any], Any]:
    return click.option(option, *name, type=click.Path(path_type=Path), help=purpose)


def _number(option: str, kind: type, check: Check, purpose: str) -> Callable[[Any], Any]:
    return click.option(option, type=kind, callback=check, help=purpose)


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator."""

    def decorated(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


_data_options = _options(
    _path("--from", "source", purpose="Official files, if not prepared yet."),
    _path("--cache", purpose="Folder of prepared data, as of logofair data."),
    click.option("--sensitive", metavar="NAME", help="Attribute whose groups are compared.  [default: the data set's]"),
    click.option("--target", metavar="NAME", help="celeba: attribute to predict.  [default: Smiling]"),
    _number("--limit", int, _count, "Take only so many rows."),
)
_client_options = _options(
    _name(
        "--partition",
        ("sensitive", "label", "natural"),
        "Clients that differ in groups (sensitive) or in labels (label), or the data set's own (natural).",
        "sensitive",
    ),
    _number("--clients", int, _count, "Number of clients.  [default: 5, or all natural ones]"),
    _number("--alpha", float, _above, "Evenness of the clients, the smaller the less even.  [default: 0.5]"),
    _name(
        "--scheme",
        ("plain", "authors"),
        "How rows are dealt: plain, or authors as in the paper's code.  [default: plain]",
    ),
    _share(
        "--train-share",
        such_that(lambda s: 0 < s < 1, "pass a number between 0 and 1"),
        "Share of the rows to train on.",
    ),
    _share(
        "--calibration-share",
        such_that(lambda s: 0 <= s < 1, "pass a number from 0 to below 1"),
        "Share of the rows for logofair fit; the rest is for testing.",
    ),
)
_step_options = _options(
    _name("--network", _NETWORKS, f"{', '.join(_NETWORKS)}.  [default: the data set's]"),
    _number("--hidden", int, _count, "mlp: width of the hidden layer.  [default: 32]"),
    _number("--rounds", int, _count, "Rounds in all.  [default: 20; fcfl: 1600]"),
    _number("--local-epochs", int, _count, "Passes of a client over its rows in a round.  [default: 5]"),
    _number("--learning-rate", float, _above, "Step size of the clients.  [default: 0.01; mlp, resnet18: 0.001]"),
    _number("--batch-size", int, _count, "Rows of a mini-batch.  [default: 128; fcfl: 100]"),
    _name("--optimiser", ("adam", "sgd"), "adam or sgd.  [default: adam]"),
)
_method_options = _options(
    _number("--beta", float, _from_0, "fairfed: how fast weights move.  [default: 0.05]"),
    _name(
        "--debias",
        _DEBIASING,
        f"fairfed: {', '.join(_DEBIASING)} at the clients.  [default: reweighing; none where labels condition]",
    ),
    _number("--debias-step", float, _above, "fairfed: step of fairbatch.  [default: 0.05]"),
    _number("--step", float, _from_0, "fedfb: step of the weights; 0.005 suits equalized_odds.  [default: 0.3]"),
    _number("--tolerance", float, _from_0, "fcfl: largest gap of a client.  [default: 0.1]"),
    _number(
        "--step-size",
        float,
        _above,
        "fcfl: step along the mix; 0.01 as published, 0.5 suits a logistic regression.  [default: 0.01]",
    ),
    _number("--first-stage", int, _from_0, "fcfl: rounds of its first stage.  [default: 800, at most half of all]"),
)
_file_options = _options(
    _path("--checkpoint", purpose="Where to keep the state of training."),
    click.option(
        "--save-every", type=int, default=10, show_default=True, callback=_count, help="Rounds between two states kept."
    ),
    click.option("--resume", is_flag=True, help="Go on from the state in --checkpoint."),
    _path("--history", purpose="Where to write figures by round (JSON lines)."),
)


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
@_data_options
@notion_option
@_client_options
@_step_options
@_method_options
@seed_option("Of the dealing, the splitting and the training.")
@_name("--device", ("auto", "cpu", "cuda"), "auto (a GPU where there is one), cpu or cuda.", "auto")
@_name(
    "--engine",
    ("inprocess", "flower"),
    "inprocess, or flower (its simulation: real messages, slower).",
    "inprocess",
)
@_file_options
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
    from logofair.training.rows import need_torch

    need_torch()
    from logofair.cli.pages.console import showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair.cli.training.rows import training_rows
        from logofair.cli.training.run import (
            CheckpointSettings,
            resumed_settings,
            train_and_score,
            write_scores,
        )
        from logofair.cli.training.settings import TrainSettings, naming_options
        from logofair.errors import TrainingInterrupted
        from logofair.training.rows import device_named

        stopped, checkpoints = None, CheckpointSettings(**kept)
        with naming_options():
            settings = resumed_settings(TrainSettings(**options), checkpoints)
            device = device_named(_device_name(place["device"], place["engine"], kept))
            rows = training_rows(settings, progress, source=place["source"], cache=place["cache"])
            try:
                trained = train_and_score(
                    settings, rows, progress, device=device, engine=place["engine"], checkpoints=checkpoints
                )
                write_scores(out, rows, trained.scores)
            except TrainingInterrupted as interrupt:
                stopped = interrupt
    if stopped is not None:
        click.echo(_interrupted(stopped.rounds, settings.n_rounds, kept["checkpoint"], stopped.saved), err=True)
        ctx.exit(130)
    _show(settings, rows, trained, out, as_json)


def _check(
    out: Path, force: bool, checkpoint: Path | None, save_every: int, resume: bool, history: Path | None
) -> None:
    """Raise where files cannot be written, or options do not go together, before any work is done."""
    from logofair.errors import InputError
    from logofair.files import polars_module

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
    from logofair.errors import InputError

    if engine != "flower":
        return device
    if kept["checkpoint"] or kept["history"]:
        raise InputError("--engine: flower returns the last state alone; leave --checkpoint and --history out.")
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


def _show(settings: TrainSettings, rows: TrainingRows, trained: TrainedModel, out: Path, as_json: bool) -> None:
    """Print what was trained."""
    from logofair.cli.training.page import as_dict, show, training_measures

    measures = training_measures(settings, rows, trained)
    if as_json:
        import json

        click.echo(json.dumps(as_dict(settings, rows, trained, measures, out), indent=2, allow_nan=False))
    else:
        from logofair.cli.pages.console import page

        show(settings, rows, trained, measures, out, page())
