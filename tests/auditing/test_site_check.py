"""How many sites are shown above or within a tolerance, and how many have rows enough to be checked."""

from __future__ import annotations

import numpy as np

import logofair
from logofair.auditing import audit


def test_a_gap_of_1_on_few_rows_does_not_make_a_site_checkable() -> None:
    # Site by site two groups of five, all of one accepted and none of the other: no margin is left above a gap of 1.
    group = np.tile(["a"] * 5 + ["b"] * 5, 40)
    check = audit(group == "a", None, groups=group, sites=np.repeat(np.arange(40), 10)).check_sites(0.05)
    assert (check.checkable, check.wider) == (0, None)  # ten rows show nothing at any tolerance up to 0.5


def test_a_site_is_checkable_from_the_rows_on_that_a_gap_of_0_needs() -> None:
    rows, group = np.tile([0, 1], 20_000), np.repeat(["a", "b"], 20_000)
    found = audit(rows, None, groups=group, sites=["x"] * 40_000)
    # 0.5 of 20,000 people is known to 1.96 * 0.5 / sqrt(20,000) = 0.0069, the difference of two to 0.0098
    assert found.check_sites(0.0099).checkable == 1
    assert found.check_sites(0.0097).checkable == 0
    assert audit(rows * 0, None, groups=group).check_sites(0.001).checkable == 1  # 3.7 / 20,000 twice, as squares


def test_a_site_shown_to_be_within_can_be_checked() -> None:
    rng = np.random.default_rng(1)
    group, site = rng.choice(["a", "b", "c"], 30_000), rng.choice(20, 30_000, p=np.arange(1, 21) / 210)
    found = audit(rng.random(30_000) < 0.1, None, groups=group, sites=site)
    for tolerance in (0.02, 0.05, 0.1, 0.2):
        assert (found.local.checkable(tolerance) >= found.local.within(tolerance)).all()


def _audit(rates: dict[str, tuple[float, float]], rows: int) -> logofair.auditing.Audit:
    """Two groups of so many rows at every site, accepted at these rates."""
    columns = [
        (site, group, float(i < round(rate * rows)))
        for site, both in rates.items()
        for group, rate in zip("ab", both, strict=True)
        for i in range(rows)
    ]
    site, group, decision = (np.array(column) for column in zip(*columns, strict=True))
    return logofair.audit(decision.astype(float), None, groups=group, sites=site)


def test_two_people_who_differ_cannot_be_checked():
    """The upper limit of a gap of 1 is 1: that says nothing of what these rows could show."""
    check = _audit({"one": (1.0, 0.0), "two": (0.5, 0.5)}, rows=2).check_sites(0.05)
    assert check.checkable == 0
    assert check.wider is None


def test_rows_enough_can_be_checked_whatever_their_gap():
    check = _audit({"far": (0.9, 0.1), "near": (0.5, 0.5)}, rows=4000).check_sites(0.05)
    assert (check.checkable, check.above, check.within) == (2, ("far",), 1)


def test_each_site_is_held_to_its_tolerance_and_those_without_are_not_counted():
    found = _audit({"far": (0.7, 0.5), "free": (0.9, 0.1), "near": (0.5, 0.5)}, rows=4000)
    check = found.check_sites(np.array([[0.3, np.inf, 0.05]]))
    assert (check.tolerance, check.sites, check.above, check.within) == (None, 2, (), 2)
    assert str(check) == "A gap above its tolerance is shown at 0 of 2 sites; 2 are shown to be within."
    assert found.check_sites(np.array([[0.1, np.inf, 0.05]])).above == ("far",)
    assert found.check_sites(np.array([[0.1, np.inf, 0.1]])).tolerance == 0.1
