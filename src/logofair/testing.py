"""Fairness as a test among others: an assertion that says what failed in the words of every other page."""

from __future__ import annotations

from typing import Any

from logofair.auditing import audit
from logofair.errors import InputError
from logofair.words.gate import failing_lines

__all__ = ["assert_requirements"]


def assert_requirements(
    decisions: object,
    labels: object,
    *,
    sensitive_features: object,
    sites: object = None,
    fail_on: str = "exceeded",
    **required: Any,
) -> None:
    """Raise where decisions are shown not to meet what is required of them.

    Parameters
    ----------
    decisions, labels, sensitive_features, sites
        As for :func:`logofair.audit`: of people who chose neither the model nor the rule.
    fail_on : str
        ``"exceeded"``: only what chance does not explain fails. ``"unclear"``: whatever these people do not show to be
        met fails too. Sites too small to judge never fail by themselves.
    **required
        What else :func:`logofair.audit` takes: ``require=[...]`` or ``local_tolerance=`` and ``global_tolerance=``, or
        with ``decisions=None`` the ``policy=`` and its ``scores=``, whose own requirements then hold.

    Raises
    ------
    AssertionError
        With a line for each requirement and site that fails.
    InputError
        If a column cannot be used, or nothing is required.

    Examples
    --------
    >>> sex = ["women", "men"] * 200
    >>> assert_requirements([1, 1, 0, 0] * 100, None, sensitive_features=sex, global_tolerance=0.1)
    >>> at_least = ["selection rate ratio >= 0.8 overall"]
    >>> assert_requirements([1, 1, 0, 1] * 100, None, sensitive_features=sex, require=at_least)
    Traceback (most recent call last):
        ...
    AssertionError: EXCEEDED  selection rate ratio >= 0.8 overall: 0.5, could be 0.429 to 0.591 (limit >= 0.8)
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    outcomes = audit(decisions, labels, sensitive_features=sensitive_features, sites=sites, **required).outcomes
    if not len(outcomes):
        raise InputError("require: nothing is required; pass require=, local_tolerance= or global_tolerance=.")
    if lines := failing_lines(outcomes, fail_on):
        raise AssertionError("\n".join(lines))
