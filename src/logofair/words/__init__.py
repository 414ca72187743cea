"""All sentences, pages and pictures: results become one tree of sections, shown in a terminal, a browser, a notebook.

Nothing below this room returns prose. :func:`page_of` makes the page of any result; a page has ``text()``, ``html()``
and ``values``. :mod:`~logofair.words.forms` writes the same figures in the forms that auditors ask for.
"""

from __future__ import annotations

import os
from typing import Any

from logofair.files.writing import put_whole
from logofair.words.about import About, in_memory
from logofair.words.charts import Svg
from logofair.words.forms import annex_iv_text, ll144_text, model_card_text
from logofair.words.sections import Page

__all__ = [
    "About",
    "Page",
    "Svg",
    "annex_iv_text",
    "in_memory",
    "ll144_text",
    "model_card_text",
    "page_of",
    "plot_of",
    "write_report",
]


def page_of(result: Any, about: About | None = None) -> Page:
    """Return the page of a solution, an audit, a comparison, a policy, a frontier, a recommendation or a federated run.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "b", "a", "b"], calibration="none")
    >>> page_of(solution).title
    'These decisions: 4 people, a and b.'
    """
    from logofair.auditing import Audit, Comparison, ImpactRatios
    from logofair.federation.result import RunResult
    from logofair.fitting.solution import Solution
    from logofair.policy.policy import Policy
    from logofair.tradeoff import Frontier, Recommendation
    from logofair.words.audited import audit_page, comparison_page, of_audit, ratios_page
    from logofair.words.explained import policy_page
    from logofair.words.federated import run_page
    from logofair.words.fitted import fit_page
    from logofair.words.recommended import recommend_page
    from logofair.words.tradeoffs import frontier_page

    if isinstance(result, Solution):
        return fit_page(result, about)
    if isinstance(result, Comparison):
        return comparison_page(result, about)
    if isinstance(result, Policy):
        return policy_page(result)
    if isinstance(result, Frontier):
        return frontier_page(result, about)
    if isinstance(result, Recommendation):
        return recommend_page(result, about)
    if isinstance(result, RunResult):
        return run_page(result)
    if isinstance(result, ImpactRatios):
        return ratios_page(result)
    assert isinstance(result, Audit)
    return audit_page(of_audit(result), about)


def plot_of(result: Any) -> Svg:
    """Return the picture of a result.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "a", "b", "b"], calibration="none")
    >>> plot_of(solution).label.split(":")[0]
    'Gap in selection rate in points'
    """
    picture = page_of(result).picture
    return Svg.empty("Nothing to draw: no requirement, or nobody to measure it on.") if picture is None else picture.svg


def write_report(path: str | os.PathLike[str], result: Any, about: About | None = None) -> None:
    """Write the report of a result: one HTML file that opens offline, in any browser, on a phone and on paper.

    It holds figures, rules and the names of sites and groups, never rows. An existing file is replaced at once or not
    at all. A page may be passed as it is.

    Examples
    --------
    >>> import tempfile, logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "a", "b", "b"], calibration="none")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/report.html", solution, About(title="Four rows"))
    ...     os.listdir(folder)
    ['report.html']
    """
    page = result if isinstance(result, Page) else page_of(result, about)
    put_whole(path, page.html().encode("utf-8", "backslashreplace"))
