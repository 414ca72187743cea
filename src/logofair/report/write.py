"""The door of the report: measure, render, and put one whole file in place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from logofair.documents import put_whole
from logofair.report.facts import gather
from logofair.report.figures import NewRows
from logofair.report.page import render_page
from logofair.report.provenance import Provenance
from logofair.solution import Solution
from logofair.tables import DataSource

if TYPE_CHECKING:
    from logofair.frontier import Frontier

__all__ = ["report_html", "write_report"]


def report_html(
    solution: Solution,
    *,
    data: DataSource,
    command: str,
    new_rows: NewRows | None = None,
    frontier: Frontier | None = None,
    made: str | None = None,
) -> str:
    """Return a solution's report as one HTML document that needs nothing else; arguments as for `write_report`.

    Examples
    --------
    >>> import logofair
    >>> from logofair.report import in_memory
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> report_html(solution, data=in_memory("four rows", solution), command="logofair fit rows.csv")[:15]
    '<!DOCTYPE html>'
    """
    return render_page(gather(solution, Provenance(data, command, made), new_rows, frontier))


def write_report(
    path: str | os.PathLike[str],
    solution: Solution,
    *,
    data: DataSource,
    command: str,
    new_rows: NewRows | None = None,
    frontier: Frontier | None = None,
    made: str | None = None,
) -> None:
    """Write a solution's report: one HTML file that opens offline, in any browser, on a phone and on paper.

    It holds figures, rules and the names of clients and groups, never rows.

    Parameters
    ----------
    path : path
        Where to write; an existing file is replaced at once or not at all.
    solution : Solution
        What :func:`logofair.fit` returned.
    data : DataSource
        The data's name and fingerprint; :func:`in_memory` makes one for rows that came from no file.
    command : str
        What makes the same again, as it would be typed.
    new_rows : NewRows, optional
        Rows that took no part in the fit, to measure the policy on.
    frontier : Frontier, optional
        The trade-off that :func:`logofair.frontier.frontier` found, shown with the chosen point.
    made : str, optional
        The day it was made, as it should be written.

    Raises
    ------
    InputError
        If the file cannot be written, or the new rows cannot be used.

    Examples
    --------
    >>> import tempfile, logofair
    >>> from logofair.report import in_memory
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "a", "b", "b"], calibration="none")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/report.html"
    ...     write_report(path, solution, data=in_memory("four rows", solution), command="logofair fit rows.csv")
    ...     os.listdir(folder)
    ['report.html']
    """
    page = report_html(solution, data=data, command=command, new_rows=new_rows, frontier=frontier, made=made)
    put_whole(path, page.encode("utf-8"))
