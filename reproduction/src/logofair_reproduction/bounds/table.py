"""How often each client, group and label occur together: all that a bound for every model may know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from logofair.auditing.measure import tally_of
from logofair.columns.checks import Floats, Label, binary, not_empty, same_length, weights
from logofair.columns.labels import Codes, encode, encode_known, one_client
from logofair.errors import InputError

__all__ = ["LabelTable", "label_table", "probability_table"]

# Shares of all rows below this count as 0: they move a bound by no more than themselves, and would upset solvers.
_NOBODY = 1e-12
# Probabilities typed by hand or summed in floats are taken to sum to 1 within this.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The shares p(s, z, y) of all rows: client s, group z, label y; they sum to 1.

    Make one with :func:`label_table` from rows, or with :func:`probability_table` from numbers.

    ``mass`` is (clients, groups, 2), with the names ``groups`` and ``clients``: ``(None,)`` where there is one client.

    Examples
    --------
    >>> table = label_table([1, 0, 1, 1], groups=["F", "F", "M", "M"])
    >>> table.mass.tolist()
    [[[0.25, 0.25], [0.0, 0.5]]]
    >>> table.accuracy(np.array([[[0.0, 1.0], [0.0, 0.5]]]))
    0.75
    """

    mass: Floats
    groups: tuple[Label, ...]
    clients: tuple[Label | None, ...]

    def names(self) -> dict[str, list[str]]:
        """The names of groups and clients as text, ready for JSON."""
        clients = [] if self.clients == (None,) else list(map(str, self.clients))
        return {"groups": list(map(str, self.groups)), "clients": clients}

    def shares(self, chances: object, labels: object, *, groups: object, clients: object = None) -> Floats:
        """The share that some chances of acceptance accept of every client, group and label; 0 where there is nobody.

        Examples
        --------
        >>> table = label_table([1, 0, 1, 1], groups=["F", "F", "M", "M"])
        >>> table.shares([1.0, 0.0, 1.0, 0.5], [1, 0, 1, 1], groups=["F", "F", "M", "M"]).tolist()
        [[[0.0, 1.0], [0.0, 0.75]]]
        """
        label, chance = binary(labels), np.asarray(chances, dtype=np.float64)
        group = Codes(self.groups, encode_known(groups, self.groups, "groups"))
        client = one_client(label.size)
        if clients is not None:
            client = Codes(self.clients, encode_known(clients, self.clients, "clients"))
        counted = tally_of(chance, label, None, group, client)
        return np.divide(counted.accepted, counted.mass, out=np.zeros_like(self.mass), where=counted.mass > 0)

    def accuracy(self, shares: Floats) -> float:
        """Accuracy of accepting these shares of the entries, (clients, groups, 2)."""
        right = self.mass[..., 1] * shares[..., 1] + self.mass[..., 0] * (1.0 - shares[..., 0])
        return float(right.sum())

    def distribution(self, shares: Floats) -> Floats:
        """Q(s, z, y, yhat): the joint distribution with the decision, whose marginals are those of the table."""
        accepted = self.mass * shares
        return np.stack([self.mass - accepted, accepted], axis=-1)


def label_table(labels: object, *, groups: object, clients: object = None, sample_weight: object = None) -> LabelTable:
    """Count how often each client, group and label occur together.

    Parameters
    ----------
    labels : column of 0 and 1
        The true labels.
    groups, clients : columns of any hashable labels
        ``clients=None``: all rows belong to one client.
    sample_weight : column of numbers, none negative, optional
        How much each row counts.

    Examples
    --------
    >>> label_table([1, 0, 0], groups=["F", "M", "M"], clients=["a", "a", "b"]).clients
    ('a', 'b')
    """
    label = binary(labels)
    not_empty(label.size, "labels")
    group = encode(groups, "groups")
    client = one_client(label.size) if clients is None else encode(clients, "clients")
    same_length(label.size, groups=group, clients=client)
    mass = tally_of(np.zeros(label.size), label, weights(sample_weight, label.size), group, client).mass
    return _checked(mass / mass.max(), group.names, client.names)


def probability_table(
    probabilities: object, *, groups: Sequence[Label] | None = None, clients: Sequence[Label] | None = None
) -> LabelTable:
    """Take the shares of clients, groups and labels as given.

    Parameters
    ----------
    probabilities : array-like of shape (clients, groups, 2)
        Shares of all rows, which sum to 1; the last place counts label 0, then label 1.
    groups, clients : sequence, optional
        Their names; by default their numbers.

    Examples
    --------
    >>> probability_table([[[0.3, 0.2], [0.1, 0.4]]], groups=["F", "M"]).groups
    ('F', 'M')
    """
    try:
        mass: Floats = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("probabilities: expected numbers by client, group and label in a regular table.") from None
    if mass.ndim != 3 or mass.shape[2] != 2 or not mass.size:
        raise InputError(f"probabilities: got shape {mass.shape}; pass (clients, groups, 2), label 0 before label 1.")
    if not np.all(np.isfinite(mass)) or mass.min() < 0:
        raise InputError("probabilities: one is negative, missing or infinite; each must be a number of at least 0.")
    if abs(mass.sum() - 1.0) > _ROUNDING:
        raise InputError(f"probabilities: they sum to {mass.sum():.6g}, not to 1; divide all by their sum.")
    return _checked(mass, _names(groups, mass.shape[1], "groups"), _names(clients, mass.shape[0], "clients"))


def _checked(mass: Floats, groups: tuple[Label, ...], clients: tuple[Label | None, ...]) -> LabelTable:
    """Shares that sum to 1, of two groups or more."""
    mass = np.where(mass < _NOBODY * mass.sum(), 0.0, mass)
    if np.count_nonzero(mass.sum((0, 2))) < 2:
        raise InputError("groups: only one group has any weight; fairness compares two or more.")
    return LabelTable(mass / mass.sum(), groups, clients)


def _names(names: Sequence[Label] | None, n: int, where: str) -> tuple[Label, ...]:
    """Distinct names, or numbers."""
    if names is None:
        return tuple(range(n))
    if len(set(names)) != n or len(names) != n:
        raise InputError(f"{where}: got {len(set(names))} distinct names for {n} places in the table; pass one each.")
    return tuple(names)
