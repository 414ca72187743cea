"""The options of ``logofair train``, by what they are about."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from logofair.cli.options import Check, one_of, such_that

__all__ = ["data_set", "dealing", "keeping", "of_methods", "steps"]

_NETWORKS = ("logistic", "mlp", "resnet18")
_DEBIASING = ("none", "reweighing", "fairbatch")
_count = such_that(lambda n: n >= 1, "pass a whole number from 1")
_above = such_that(lambda x: 0 < x < math.inf, "pass a number above 0")
_from_0 = such_that(lambda x: 0 <= x < math.inf, "pass a number of at least 0")


def _maybe(names: tuple[str, ...]) -> Check:
    """One of some names, or none given."""
    return lambda ctx, param, name: name and one_of(names)(ctx, param, name)


def _number(name: str, kind: type, check: Check, purpose: str) -> Callable[[Any], Any]:
    return click.option(name, type=kind, callback=check, help=purpose)


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator."""

    def decorated(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


data_set = _options(
    click.option("--from", "source", type=click.Path(path_type=Path), help="Official files, if not prepared yet."),
    click.option("--cache", type=click.Path(path_type=Path), help="Folder of prepared data, as of logofair data."),
    click.option("--sensitive", metavar="NAME", help="Attribute whose groups are compared.  [default: the data set's]"),
    click.option("--target", metavar="NAME", help="celeba: attribute to predict.  [default: Smiling]"),
    _number("--limit", int, _count, "Take only so many rows."),
)
dealing = _options(
    click.option(
        "--partition",
        metavar="NAME",
        default="sensitive",
        show_default=True,
        callback=one_of(("sensitive", "label", "natural")),
        help="Clients that differ in groups (sensitive) or in labels (label), or the data set's own (natural).",
    ),
    _number("--clients", int, _count, "Number of clients.  [default: 5, or all natural ones]"),
    _number("--alpha", float, _above, "Evenness of the clients, the smaller the less even.  [default: 0.5]"),
    click.option(
        "--scheme",
        metavar="NAME",
        callback=_maybe(("plain", "authors")),
        help="How rows are dealt: plain, or authors as in the paper's code.  [default: plain]",
    ),
    click.option(
        "--train-share",
        type=float,
        default=0.35,
        show_default=True,
        callback=such_that(lambda s: 0 < s < 1, "pass a number between 0 and 1"),
        help="Share of the rows to train on.",
    ),
    click.option(
        "--calibration-share",
        type=float,
        default=0.35,
        show_default=True,
        callback=such_that(lambda s: 0 <= s < 1, "pass a number from 0 to below 1"),
        help="Share of the rows for logofair fit; the rest is for testing.",
    ),
)
steps = _options(
    click.option(
        "--network",
        metavar="NAME",
        callback=_maybe(_NETWORKS),
        help=f"{', '.join(_NETWORKS)}.  [default: the data set's]",
    ),
    _number("--hidden", int, _count, "mlp: width of the hidden layer.  [default: 32]"),
    _number("--rounds", int, _count, "Rounds in all.  [default: 20; fcfl: 1600]"),
    _number("--local-epochs", int, _count, "Passes of a client over its rows in a round.  [default: 5]"),
    _number("--learning-rate", float, _above, "Step size of the clients.  [default: 0.01; mlp, resnet18: 0.001]"),
    _number("--batch-size", int, _count, "Rows of a mini-batch.  [default: 128; fcfl: 100]"),
    click.option("--optimiser", metavar="NAME", callback=_maybe(("adam", "sgd")), help="adam or sgd.  [default: adam]"),
)
of_methods = _options(
    _number("--beta", float, _from_0, "fairfed: how fast weights move.  [default: 0.05]"),
    click.option(
        "--debias",
        metavar="NAME",
        callback=_maybe(_DEBIASING),
        help=f"fairfed: {', '.join(_DEBIASING)} at the clients.  [default: reweighing; none where labels condition]",
    ),
    _number("--debias-step", float, _above, "fairfed: step of fairbatch.  [default: 0.05]"),
    _number("--step", float, _from_0, "fedfb: step of the weights; 0.005 suits equalized_odds.  [default: 0.3]"),
    _number("--bound", float, _from_0, "fcfl: largest disparity of a client.  [default: 0.1]"),
    _number(
        "--step-size",
        float,
        _above,
        "fcfl: step along the mix; 0.01 as published, 0.5 suits a logistic regression.  [default: 0.01]",
    ),
    _number("--first-stage", int, _from_0, "fcfl: rounds of its first stage.  [default: 800, at most half of all]"),
)
keeping = _options(
    click.option("--checkpoint", type=click.Path(path_type=Path), help="Where to keep the state of training."),
    click.option(
        "--save-every", type=int, default=10, show_default=True, callback=_count, help="Rounds between two states kept."
    ),
    click.option("--resume", is_flag=True, help="Go on from the state in --checkpoint."),
    click.option("--history", type=click.Path(path_type=Path), help="Where to write figures by round (JSON lines)."),
)
