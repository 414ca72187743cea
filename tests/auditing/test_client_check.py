"""How many clients are shown above or within a tolerance, and how many have rows enough to be checked."""

from __future__ import annotations

import numpy as np

import logofair


def _audit(rates: dict[str, tuple[float, float]], rows: int) -> logofair.auditing.Audit:
    """Two groups of so many rows at every client, accepted at these rates."""
    columns = [
        (client, group, float(i < round(rate * rows)))
        for client, both in rates.items()
        for group, rate in zip("ab", both, strict=True)
        for i in range(rows)
    ]
    client, group, decision = (np.array(column) for column in zip(*columns, strict=True))
    return logofair.audit(decision.astype(float), None, groups=group, clients=client)


def test_two_people_who_differ_cannot_be_checked():
    """The upper limit of a gap of 1 is 1: that says nothing of what these rows could show."""
    check = _audit({"one": (1.0, 0.0), "two": (0.5, 0.5)}, rows=2).check_clients(0.05)
    assert check.checkable == 0
    assert check.wider is None


def test_rows_enough_can_be_checked_whatever_their_gap():
    check = _audit({"far": (0.9, 0.1), "near": (0.5, 0.5)}, rows=4000).check_clients(0.05)
    assert (check.checkable, check.above, check.within) == (2, ("far",), 1)


def test_each_client_is_held_to_its_tolerance_and_those_without_are_not_counted():
    audit = _audit({"far": (0.7, 0.5), "free": (0.9, 0.1), "near": (0.5, 0.5)}, rows=4000)
    check = audit.check_clients(np.array([[0.3, np.inf, 0.05]]))
    assert (check.tolerance, check.clients, check.above, check.within) == (None, 2, (), 2)
    assert str(check) == "A gap above its tolerance is shown at 0 of 2 clients; 2 are shown to be within."
    assert audit.check_clients(np.array([[0.1, np.inf, 0.05]])).above == ("far",)
    assert audit.check_clients(np.array([[0.1, np.inf, 0.1]])).tolerance == 0.1
