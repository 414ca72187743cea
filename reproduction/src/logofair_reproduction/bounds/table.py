"""How often each site, group and label occur together: all that a bound for every model may know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logofair.auditing.measure import tally_of
from logofair.columns.checks import Floats, Label, binary, not_empty, same_length, weights
from logofair.columns.labels import Codes, encode, encode_known, one_site
from logofair.errors import InputError

# Shares of all rows below this count as 0: they move a bound by no more than themselves, and would upset solvers.
_NOBODY = 1e-12


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The shares p(s, z, y) of all rows: site s, group z, label y; they sum to 1.

    ``mass`` is (sites, groups, 2), with the names ``groups`` and ``sites``: ``(None,)`` where there is one site.
    """

    mass: Floats
    groups: tuple[Label, ...]
    sites: tuple[Label | None, ...]

    def shares(self, chances: object, labels: object, *, sensitive_features: object, sites: object = None) -> Floats:
        """The share that some chances of acceptance accept of every site, group and label; 0 where there is nobody."""
        label, chance = binary(labels), np.asarray(chances, dtype=np.float64)
        group = Codes(self.groups, encode_known(sensitive_features, self.groups, "sensitive_features"))
        site = one_site(label.size)
        if sites is not None:
            site = Codes(self.sites, encode_known(sites, self.sites, "sites"))
        counted = tally_of(chance, label, None, group, site)
        return np.divide(counted.accepted, counted.mass, out=np.zeros_like(self.mass), where=counted.mass > 0)

    def accuracy(self, shares: Floats) -> float:
        """Accuracy of accepting these shares of the entries, (sites, groups, 2) or flat."""
        shares = shares.reshape(self.mass.shape)
        right = self.mass[..., 1] * shares[..., 1] + self.mass[..., 0] * (1.0 - shares[..., 0])
        return float(right.sum())


def label_table(
    labels: object, *, sensitive_features: object, sites: object = None, sample_weight: object = None
) -> LabelTable:
    """Count how often each site, group and label occur together.

    ``sites=None``: all rows belong to one site; ``sample_weight`` is how much each row counts.
    """
    label = binary(labels)
    not_empty(label.size, "labels")
    group = encode(sensitive_features, "sensitive_features")
    site = one_site(label.size) if sites is None else encode(sites, "sites")
    same_length(label.size, sensitive_features=group, sites=site)
    mass = tally_of(np.zeros(label.size), label, weights(sample_weight, label.size), group, site).mass
    mass = mass / mass.max()
    mass = np.where(mass < _NOBODY * mass.sum(), 0.0, mass)
    if np.count_nonzero(mass.sum((0, 2))) < 2:
        raise InputError("sensitive_features: only one group has any weight; fairness compares two or more.")
    return LabelTable(mass / mass.sum(), group.names, site.names)
