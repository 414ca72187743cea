"""Which files are meant, and which of their columns mean what; imports nothing heavy, so that options may use it."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from logofair.errors import InputError

SCALES = ("chance", "percent", "logit")
# Texts that stand for a missing value, as an empty cell does, unless other ones are named.
MISSING = ("NA", "N/A", "NaN", "nan", "NULL", "null")
_SINGLE = ("score", "label", "site", "weight", "decision", "id")  # roles of one column each


@dataclass(frozen=True)
class DataSource:
    """Where rows came from, so that a result can be traced back and made again; no rows and no folders.

    ``columns`` maps roles to names; several group columns are joined by ", ". ``fingerprint`` is the SHA-256 of the
    file, or of the list of the files' own fingerprints.
    """

    name: str
    files: tuple[str, ...]
    fingerprint: str
    rows: int
    columns: Mapping[str, str]


@dataclass(frozen=True)
class ColumnNames:
    """Which columns mean what, as the options name them; ``group`` may be several, which form intersections.

    ``where`` are columns and values: only rows that have all of these values count, and of those not the rows that have
    all values of ``unless``. ``id`` tells people apart: rows of the same id at a site are one person. ``na`` are the
    texts that stand for a missing value. ``group_probability`` names a group and the column of its probability each.
    """

    score: str | None = None
    label: str | None = None
    group: tuple[str, ...] = ()
    site: str | None = None
    weight: str | None = None
    decision: str | None = None
    id: str | None = None
    positive: str | None = None
    scale: str = "chance"
    drop_missing: bool = False
    where: tuple[tuple[str, str], ...] = ()
    unless: tuple[tuple[str, str], ...] = ()
    na: tuple[str, ...] = MISSING
    group_probability: tuple[tuple[str, str], ...] = ()

    def by_role(self) -> dict[str, str]:
        """The columns named, by role; groups are numbered."""
        single = {role: getattr(self, role) for role in _SINGLE}
        groups: dict[str, str | None] = {f"group {place}": name for place, name in enumerate(self.group)}
        groups |= {f"probability {group}": name for group, name in self.group_probability}
        return {role: name for role, name in (single | groups).items() if name is not None}

    def described(self) -> dict[str, str]:
        """The columns and how they are read, for people and for the record."""
        single = {
            role: name for role, name in self.by_role().items() if not role.startswith(("group ", "probability "))
        }
        more = {
            "positive": self.positive,
            "scale": None if self.scale == "chance" else self.scale,
            "where": self.conditions or None,
            "group probability": ", ".join("=".join(pair) for pair in self.group_probability) or None,
            "na": None if self.na == MISSING else ", ".join(self.na) or "none",
        }
        known = {name: value for name, value in more.items() if value is not None}
        return {**single, "group": ", ".join(self.group), **known}

    @property
    def conditions(self) -> str:
        """What rows must have, in words; empty where all count."""
        kept, left_out = ([f"{name}={value}" for name, value in pairs] for pairs in (self.where, self.unless))
        return " and ".join([*kept, *([f"not {' and '.join(left_out)}"] if left_out else [])])

    def only(self, *roles: str) -> ColumnNames:
        """The same without the columns of other roles."""
        unwanted = [role for role in _SINGLE if role not in roles]
        return replace(self, **dict.fromkeys(unwanted))  # type: ignore[arg-type]

    def require(self, files: DataFiles, **needed: str) -> None:
        """Raise where a needed column was not named, with the columns there are; ``needed``: what each is for."""
        missing = [role for role in needed if not getattr(self, role)]
        if missing:
            from logofair.columns.checks import listed_names
            from logofair.files.tables import column_names

            there = f"{files.paths[0]} has {listed_names(column_names(files.paths[0]))}"
            raise InputError(f"--{missing[0]}: not given; name the column of {needed[missing[0]]}: {there}.")


@dataclass(frozen=True)
class DataFiles:
    """The files of some data; ``by_file``: each is a site, called as the file without its ending."""

    name: str
    paths: tuple[Path, ...]
    by_file: bool


def ending_of(path: Path) -> str:
    """The ending of a file's name, of a packed one with that of what is packed: ".csv", ".csv.gz"."""
    endings = path.suffixes[-2:] if path.suffix.lower() == ".gz" else [path.suffix]
    return "".join(endings).lower()


def site_name(path: Path) -> str:
    """The site whose rows a file holds: its name without folders and ending."""
    return path.name[: len(path.name) - len(ending_of(path))]


def one_file(path: Path) -> DataFiles:
    """One file, whose rows are of one site or name their sites."""
    return DataFiles(str(path), (path,), by_file=False)


def find_files(data: Sequence[str], *, site: str | None = None) -> DataFiles:
    """Find the files meant by DATA: a file, several, a pattern, or a folder with one file per site.

    With a ``site`` column, files are no sites.
    """
    from logofair.files.tables import KINDS

    name = data[0] if len(data) == 1 else f"{len(data)} files"
    paths: list[Path] = []
    for each in data:
        path = Path(each)
        if os.path.isdir(path):
            inside = sorted(file for file in path.iterdir() if ending_of(file) in KINDS and file.is_file())
            if not inside:
                raise InputError(f"{each}: the folder holds no table; known endings are {', '.join(KINDS)}.")
            paths += inside
        elif not os.path.exists(path) and glob.has_magic(each):
            matching = sorted(Path(match) for match in glob.glob(each, recursive=True) if Path(match).is_file())
            if not matching:
                raise InputError(f"{each}: no file matches the pattern; check the path.")
            paths += matching
        else:
            paths.append(path)
    single = len(data) == 1 and paths == [Path(data[0])]
    found = DataFiles(Path(name).name or name, tuple(dict.fromkeys(paths)), not single and site is None)
    known: dict[str, Path] = {}
    for path in found.paths if found.by_file else ():
        if (other := known.setdefault(site_name(path), path)) != path:
            raise InputError(f"{path}: would be the same site as {other}; rename one of them.")
    return found


def check_not_read(outputs: Iterable[Path | None], *named: Iterable[Path | str]) -> None:
    """Raise where a file to be written is one of those that are named to be read, which no --force is meant for."""
    read = [path for each in named for path in find_files([*map(str, each)], site="any").paths]
    there = [path for path in read if os.path.exists(path)]
    for path in outputs:
        if path is not None and path.exists() and any(map(path.samefile, there)):
            raise InputError(f"{path}: is one of the files that are read; choose another name for what is written.")
