"""All sentences, pages and pictures: results become one tree of sections, shown in a terminal, a browser, a notebook.

Nothing below this room returns prose. :func:`page_of` makes the page of any result; a page has ``text()``, ``html()``,
``plot()``, ``save()`` and ``values``. :mod:`~logofair.words.forms` writes the same figures in the forms that auditors
ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logofair.words.about import About, in_memory
from logofair.words.charts import Svg
from logofair.words.forms import form_text
from logofair.words.sections import Page

__all__ = ["About", "Page", "Svg", "form_text", "in_memory", "page_of"]


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
    from logofair.words.audited import audit_page, comparison_page, ratios_page
    from logofair.words.explained import policy_page
    from logofair.words.federated import run_page
    from logofair.words.fitted import fit_page
    from logofair.words.tradeoffs import frontier_page, recommend_page

    alone: dict[type, Callable[[Any], Page]] = {Policy: policy_page, RunResult: run_page, ImpactRatios: ratios_page}
    if type(result) in alone:
        return alone[type(result)](result)
    pages: dict[type, Callable[[Any, About | None], Page]] = {
        Solution: fit_page,
        Audit: audit_page,
        Comparison: comparison_page,
        Frontier: frontier_page,
        Recommendation: recommend_page,
    }
    return pages[type(result)](result, about)
