"""The options that name data files and what their columns mean; the same in every command."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logofair.cli.options import one_of
from logofair.files.inputs import SCALES, ColumnNames, one_file

if TYPE_CHECKING:
    from logofair.files.rows import DataRows

__all__ = ["column_options", "data_options", "read_client_file"]

Command = TypeVar("Command", bound=Callable[..., Any])


def _where(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Columns and the values asked for."""
    found: list[tuple[str, str]] = []
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            raise click.BadParameter(f"got {text!r}; pass COLUMN=VALUE, such as part=test.", ctx, param)
        found.append((name, value))
    return tuple(found)


_FIRST = (
    click.option("--score", metavar="COLUMN", help="Scores: the model's chances of the positive label, 0 to 1."),
    click.option("--label", metavar="COLUMN", help="Labels: what turned out to be true."),
    click.option(
        "--group",
        metavar="COLUMN",
        multiple=True,
        help="Groups to compare, such as sex; give it again for intersections ('Female, Black').",
    ),
)
_CLIENT = click.option("--client", metavar="COLUMN", help="Clients (sites); by default each file is one.")
_LAST = (
    click.option("--weight", metavar="COLUMN", help="Row weights, where rows count differently."),
    click.option("--positive", metavar="VALUE", help="Label that counts as 1, such as '>50K'."),
    click.option(
        "--scale",
        metavar="NAME",
        default="chance",
        show_default=True,
        callback=one_of(SCALES),
        help=f"What scores are: {', '.join(SCALES)}; the last two are converted.",
    ),
    click.option("--drop-missing", is_flag=True, help="Leave out rows that lack a value in a column named."),
    click.option(
        "--where",
        metavar="COLUMN=VALUE",
        multiple=True,
        callback=_where,
        help="Only rows with this value, such as part=test; if given again, rows that have all of them.",
    ),
)


def data_options(command: Command) -> Command:
    """Add DATA and the options that name its columns; the command gets ``data`` (names) and ``columns``."""
    wrapped = _with(command, (*_FIRST, _CLIENT, *_LAST))
    found: Command = click.argument("data", metavar="DATA...", nargs=-1, required=True)(wrapped)
    return found


def column_options(command: Command) -> Command:
    """Add the options that name the columns of one client's file; the command gets ``columns``."""
    return _with(command, (*_FIRST, *_LAST))


def _with(command: Command, options: Sequence[Callable[[Any], Any]]) -> Command:
    """Add options and collect those that name columns, the command's own ``--decision`` or ``--client`` too."""

    @functools.wraps(command)
    def with_columns(**values: Any) -> Any:
        named = {field.name: values.pop(field.name) for field in fields(ColumnNames) if field.name in values}
        return command(columns=ColumnNames(**named), **values)

    wrapped: Any = with_columns
    for option in reversed(options):
        wrapped = option(wrapped)
    found: Command = wrapped
    return found


def read_client_file(data: Path, columns: ColumnNames, features: Sequence[str] = ()) -> DataRows:
    """Read the columns of one file before anything is sent, and refuse what no plan could use."""
    from logofair.columns.checks import weights
    from logofair.files.rows import read_rows

    columns.require(one_file(data), group="the groups")
    rows = read_rows(one_file(data), columns, features=features)
    if rows.weights is not None:
        weights(rows.weights, rows.source.rows, f"{data}: column {columns.weight!r}")
    return rows
