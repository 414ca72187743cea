"""Which columns of a file mean what, and a first look at them before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["column_options", "columns_by_role", "look_at"]


Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--group", "group", metavar="COLUMN", required=True, help="Column of the groups compared."),
    click.option("--score", metavar="COLUMN", help="Column of the scores, from 0 to 1; not needed with --train."),
    click.option("--label", metavar="COLUMN", help="Column of the labels; not needed with --calibration none."),
    click.option("--weight", metavar="COLUMN", help="Column of row weights, where rows count differently."),
    click.option("--positive", metavar="VALUE", help="Label that counts as 1, where labels are not 0 and 1."),
)


def column_options(command: Command) -> Command:
    """Add the options that name a file's columns.

    Examples
    --------
    >>> @click.command()
    ... @column_options
    ... def show(**columns):
    ...     click.echo(columns["group"])
    >>> [option.name for option in show.params]
    ['group', 'score', 'label', 'weight', 'positive']
    """
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def columns_by_role(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns named, by their role.

    Examples
    --------
    >>> columns_by_role({"group": "sex", "score": "risk", "label": None, "weight": None, "positive": None})
    {'group': 'sex', 'score': 'risk'}
    """
    return {role: options[role] for role in ("group", "score", "label", "weight") if options[role] is not None}


def look_at(data: Path, columns: Mapping[str, str], positive: str | None) -> dict[str, Any]:
    """Read the columns of a file, and refuse what no plan could use.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("sex,risk", "F,0.5", "M,0.75", sep=chr(10), file=file, flush=True)
    ...     look_at(Path(file.name), {"group": "sex", "score": "risk"}, None)["group"].tolist()
    ['F', 'M']
    """
    from logofair.columns.checks import binary, probabilities, weights
    from logofair.errors import InputError
    from logofair.files.tables import read_columns

    table = read_columns(data, columns, positive=positive)
    for role, values in table.items():
        where = f"{data}: column {columns[role]!r}"
        if role == "score":
            probabilities(values, where)
        elif role == "label":
            binary(values, where)
        elif role == "weight":
            weights(values, len(values), where)
        elif role in ("group", "client"):
            missing = [row for row, value in enumerate(values.tolist()) if value is None or value != value]
            if missing:
                raise InputError(f"{where}: row {missing[0]} has no value; fill it or drop such rows.")
    return table
