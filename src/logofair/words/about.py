"""What a page is about: which data, which command, for what purpose, and the user's own words for places."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from logofair import __version__
from logofair.columns.attributes import Attributes
from logofair.columns.checks import Label
from logofair.files.inputs import DataSource
from logofair.fitting.solution import Solution
from logofair.words.phrases import counted, cut, fitting, group_names, listed, name_of, people
from logofair.words.sections import Command, Facts, Paragraph, Part, Section

_NAMES = 60  # columns of a first line for the names of groups
_PAPER = (
    "Zhang, Chen, Han, Zhong and Zheng: LoGoFair: Post-Processing for Local and Global Fairness in Federated "
    "Learning. AAAI 2025."
)


@dataclass(frozen=True)
class About:
    """What a report says of itself, all of it optional.

    Parameters
    ----------
    data : DataSource, optional
        The data's name and fingerprint; :func:`in_memory` makes one for columns that came from no file.
    command : str
        What makes the same again, as it would be typed.
    title, purpose, author, made : str, optional
        By default the name of the data; what the decisions are for; who made the report; on which day.
    accepted : str
        The word for a positive decision, such as "granted".
    left_out : int
        Rows that were left out for lack of a value.
    written : tuple of str
        Files that were written.

    Examples
    --------
    >>> About(title="Loans 2024", accepted="granted").accepted
    'granted'
    """

    data: DataSource | None = None
    command: str = ""
    title: str | None = None
    purpose: str | None = None
    author: str | None = None
    made: str | None = None
    accepted: str = "accepted"
    left_out: int = 0
    written: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the data are called."""
        return self.title or (name_of(self.data.name, 80) if self.data else "These decisions")

    @property
    def site_word(self) -> str:
        """The user's word for a site."""
        return site_word(None if self.data is None else self.data.columns.get("site"))

    @property
    def label_word(self) -> str:
        """What a label is called: the name of its column."""
        return name_of((None if self.data is None else self.data.columns.get("label")) or "label", 16)

    @property
    def heading(self) -> tuple[tuple[str, str], ...]:
        """The small lines at the head of a report."""
        by = " ".join(filter(None, (self.made, self.author and f"by {self.author}")))
        return tuple((name, words) for name, words in (("Made", by), ("Purpose", self.purpose)) if words)


def site_word(column: str | None) -> str:
    """Return what a site is called: the name of its column where that is one plain word."""
    return column.lower() if column and column.isalpha() and column.isascii() else "site"


def title_line(about: About, rows: float, sites: Sequence[Label | None], groups: Sequence[Label]) -> str:
    """Return the first line of a page: the data, how many people at how many sites, and the groups."""
    where = f" at {counted(len(sites), about.site_word)}" if len(sites) > 1 else ""
    left_out = f" ({about.left_out:,} rows left out for lack of a value)" if about.left_out else ""
    condition = "" if about.data is None else about.data.columns.get("where", "")
    name = f"{about.name} where {cut(condition, 60)}" if condition else about.name
    return f"{name}: {people(rows)}{left_out}{where}, {groups_listed(groups)}"


def groups_listed(groups: Sequence[Label]) -> str:
    """Return the names of the groups as a page's first line has them, of several columns those of each."""
    attributes, found = Attributes(tuple(groups)), []
    for values in attributes.values:
        names = group_names(values, 24)
        found.append(listed(names, min(4, fitting(names, _NAMES, 2))))
    if attributes.columns:
        found = [f"{name_of(column, 24)} ({those})" for column, those in zip(attributes.columns, found, strict=True)]
    return listed(found)


def in_memory(name: str, solution: Solution) -> DataSource:
    """Return the source of a solution whose rows came from no file: a name, and a fingerprint of its columns.

    The same rows in the same order have the same fingerprint.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.2], None, sensitive_features=["a", "b"], calibration="none")
    >>> in_memory("two rows", solution).rows
    2
    """
    rows, digest = solution.rows, hashlib.sha256()
    for numbers in (rows.scores, rows.labels, rows.weights):
        digest.update(b"none;" if numbers is None else np.ascontiguousarray(numbers, dtype="<f8").tobytes())
    for column in (rows.groups, rows.sites):
        digest.update(repr(column.names).encode("utf-8", "backslashreplace"))
        digest.update(np.ascontiguousarray(column.codes, dtype="<i8").tobytes())
    return DataSource(name, (), digest.hexdigest(), rows.scores.size, {})


def data_facts(data: DataSource | None) -> Iterator[tuple[str, str]]:
    """Return which rows these are."""
    if data is None:
        return
    of = "of the file" if len(data.files) == 1 else "of the list of files" if data.files else "of the columns"
    yield "data", listed(data.files, 5) if data.files else data.name
    yield f"SHA-256 {of}", data.fingerprint
    if data.columns:
        yield "columns", ", ".join(f"{role}: {name}" for role, name in data.columns.items())


def made_facts(about: About) -> Iterator[tuple[str, str]]:
    """Return the versions a result may depend on, the day, and who made it."""
    versions = [f"logofair {__version__}", f"Python {platform.python_version()}"]
    for package in ("numpy", "scipy", "polars"):
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    yield "versions", ", ".join(versions)
    for name, value in (("made", about.made), ("by", about.author)):
        if value:
            yield name, value


def sources_section(about: About, facts: Iterable[tuple[str, str]]) -> Section:
    """Return how to make the same again, what the figures rest on, and what to cite."""
    lines = (*data_facts(about.data), *facts, *made_facts(about))
    command: list[Part] = [Paragraph("The command:"), Command(about.command)] if about.command else []
    cited = Paragraph(
        f"This page holds totals and rules, never rows. The method, corrected and extended here: {_PAPER}"
    )
    return Section("sources", "Make it again", (*command, Facts(lines, code=True), cited))
