"""The data door: which files, and which of their columns mean what; shared by audit, fit and frontier."""

from __future__ import annotations

import functools
import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from logofair.cli.options import one_of

__all__ = ["SCALES", "ColumnNames", "DataFiles", "data_options", "find_files"]

Command = TypeVar("Command", bound=Callable[..., Any])

SCALES = ("chance", "percent", "logit")


@dataclass(frozen=True)
class ColumnNames:
    """Which columns mean what, as the options name them; ``group`` may be several, which form intersections.

    ``where`` are columns and values: only rows that have all of these values count.

    Examples
    --------
    >>> ColumnNames(score="p", group=("sex", "race"), client="site").by_role()
    {'score': 'p', 'client': 'site', 'group 0': 'sex', 'group 1': 'race'}
    """

    score: str | None = None
    label: str | None = None
    group: tuple[str, ...] = ()
    client: str | None = None
    weight: str | None = None
    decision: str | None = None
    positive: str | None = None
    scale: str = "chance"
    drop_missing: bool = False
    where: tuple[tuple[str, str], ...] = ()

    def by_role(self) -> dict[str, str]:
        """The columns named, by role; groups are numbered."""
        single = {role: getattr(self, role) for role in ("score", "label", "client", "weight", "decision")}
        groups = {f"group {place}": name for place, name in enumerate(self.group)}
        return {role: name for role, name in (single | groups).items() if name is not None}

    def described(self) -> dict[str, str]:
        """The columns and how they are read, for people and for the record."""
        single = {role: name for role, name in self.by_role().items() if not role.startswith("group ")}
        more = {
            "positive": self.positive,
            "scale": None if self.scale == "chance" else self.scale,
            "where": self.conditions or None,
        }
        known = {name: value for name, value in more.items() if value is not None}
        return {**single, "group": ", ".join(self.group), **known}

    @property
    def conditions(self) -> str:
        """What rows must have, in words; empty where all count.

        Examples
        --------
        >>> ColumnNames(where=(("part", "test"), ("sex", "F"))).conditions
        'part=test and sex=F'
        """
        return " and ".join(f"{name}={value}" for name, value in self.where)

    def require(self, files: DataFiles, **needed: str) -> None:
        """Raise where a needed column was not named, with the columns there are; ``needed``: what each is for."""
        missing = [role for role in needed if not getattr(self, role)]
        if missing:
            from logofair.columns.checks import shown
            from logofair.errors import InputError
            from logofair.files.scan import column_names

            names = column_names(files.paths[0])
            listed = ", ".join(map(shown, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
            raise InputError(
                f"--{missing[0]}: not given; name the column of {needed[missing[0]]}: {files.paths[0]} has {listed}."
            )


@dataclass(frozen=True)
class DataFiles:
    """The files of some data; ``by_file``: each is a client, called as the file without its ending."""

    name: str
    paths: tuple[Path, ...]
    by_file: bool


def _where(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Columns and the values asked for."""
    found: list[tuple[str, str]] = []
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            raise click.BadParameter(f"got {text!r}; pass COLUMN=VALUE, such as part=test.", ctx, param)
        found.append((name, value))
    return tuple(found)


_OPTIONS = (
    click.option("--score", metavar="COLUMN", help="Scores: the model's chances of the positive label, 0 to 1."),
    click.option("--label", metavar="COLUMN", help="Labels: what turned out to be true."),
    click.option(
        "--group",
        metavar="COLUMN",
        multiple=True,
        help="Groups to compare, such as sex; give it again for intersections ('Female, Black').",
    ),
    click.option("--client", metavar="COLUMN", help="Clients (sites); by default each file is one."),
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
    """Add DATA and the options that name its columns; the command gets ``data`` (names) and ``columns``.

    An option ``--decision`` of the command's own is taken up into ``columns``.

    Examples
    --------
    >>> @click.command()
    ... @data_options
    ... def show(data, columns):
    ...     click.echo(f"{data} {columns.score}")
    >>> from click.testing import CliRunner
    >>> print(CliRunner().invoke(show, ["people.csv", "--score", "p"]).output.strip())
    ('people.csv',) p
    """

    @functools.wraps(command)
    def with_columns(**options: Any) -> Any:
        named = {field.name: options.pop(field.name) for field in fields(ColumnNames) if field.name in options}
        return command(columns=ColumnNames(**named), **options)

    wrapped: Any = with_columns
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    found: Command = click.argument("data", metavar="DATA...", nargs=-1, required=True)(wrapped)
    return found


def find_files(data: Sequence[str], *, client: str | None = None) -> DataFiles:
    """Find the files meant by DATA: a file, several, a pattern, or a folder with one file per client.

    With a ``client`` column, files are no clients.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for site in ("south", "north"):
    ...         _ = Path(folder, f"{site}.csv").write_text("p,sex")
    ...     found = find_files([folder])
    >>> [path.name for path in found.paths], found.by_file
    (['north.csv', 'south.csv'], True)
    """
    name = data[0] if len(data) == 1 else f"{len(data)} files"
    paths = [path for each in data for path in _matching(each)]
    single = len(data) == 1 and paths == [Path(data[0])]
    found = DataFiles(Path(name).name or name, tuple(dict.fromkeys(paths)), not single and client is None)
    if found.by_file:
        _refuse_twins(found.paths)
    return found


def _matching(name: str) -> list[Path]:
    """The tables in a folder, those that match a pattern, or the one file."""
    from logofair.errors import InputError
    from logofair.files.tables import KINDS

    folder = Path(name)
    if folder.is_dir():
        inside = sorted(path for path in folder.iterdir() if path.suffix.lower() in KINDS and path.is_file())
        if not inside:
            raise InputError(f"{name}: the folder holds no table; known endings are {', '.join(KINDS)}.")
        return inside
    if not folder.exists() and glob.has_magic(name):
        matching = sorted(Path(match) for match in glob.glob(name, recursive=True) if Path(match).is_file())
        if not matching:
            raise InputError(f"{name}: no file matches the pattern; check the path.")
        return matching
    return [folder]


def _refuse_twins(paths: Sequence[Path]) -> None:
    """Raise if two files would be the same client."""
    from logofair.errors import InputError

    known: dict[str, Path] = {}
    for path in paths:
        if path.stem in known:
            raise InputError(f"{path}: would be the same client as {known[path.stem]}; rename one of them.")
        known[path.stem] = path
