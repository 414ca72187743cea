"""The heading of a report: what it is called, what it is for, who made it and when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportHeading:
    """What a report says of itself, all of it optional.

    Parameters
    ----------
    title : str, optional
        By default the name of the data.
    purpose, author, made : str, optional
        What the decisions are for, who made the report, and on which day, as they should be written.
    accepted : str
        The word for a positive decision, such as "flagged" or "invited".

    Examples
    --------
    >>> ReportHeading(title="Loans 2024", accepted="granted").accepted
    'granted'
    """

    title: str | None = None
    purpose: str | None = None
    author: str | None = None
    made: str | None = None
    accepted: str = "accepted"
