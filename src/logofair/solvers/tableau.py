"""State of a batch of small linear programs between pivots (see :mod:`logofair.solvers.simplex` for their form)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from logofair.inputs import Floats
from logofair.segments import Booleans, Indices


@dataclass
class Tableau:
    """State of a batch of programs: basis inverse, basic variables and what they are.

    A basic variable is numbered by what it is: a corner of block b by b, the slack of rate i by ``blocks + i``, the
    floor of family f by ``blocks + rates + f``.
    """

    inverse: Floats  # (programs, rows, rows)
    solution: Floats  # (programs, rows)
    gain: Floats  # (programs, rows)
    kind: Indices  # (programs, rows)
    u: Floats  # (programs, rows), of basic corners
    v: Floats
    rates: Floats  # (programs, rows, rates a block touches), of basic corners
    at_upper: Booleans  # (programs, rates), of slacks out of the basis
    floor: Floats  # (programs, families): value of floors out of the basis
    tolerance: Floats  # (programs, rates); inf: free
    done: Booleans  # (programs,)
    family: Indices  # (rates,): the family of each rate
    touched: Indices  # (blocks, rates a block touches): which rates they are

    @property
    def blocks(self) -> int:
        """Number of blocks of a program."""
        return int(self.touched.shape[0])

    def take(self, programs: Indices) -> Tableau:
        """Copy some of the programs."""
        return replace(self, **{name: getattr(self, name)[programs] for name in _PER_PROGRAM})

    def put(self, programs: Indices, part: Tableau) -> None:
        """Write some of the programs back."""
        for name in _PER_PROGRAM:
            getattr(self, name)[programs] = getattr(part, name)

    def multipliers(self) -> tuple[Floats, Floats]:
        """Dual values of the blocks (programs, blocks) and of the rates (programs, rates)."""
        dual = np.einsum("ni,nij->nj", self.gain, self.inverse)
        return dual[:, : self.blocks], dual[:, self.blocks :]

    def mixture(self) -> tuple[Floats, Floats, Floats]:
        """The mixed u and v of every block and the sum of its weights, each (programs, blocks)."""
        belongs = self.kind[:, :, None] == np.arange(self.blocks)
        weight = np.where(belongs, self.solution[:, :, None], 0.0)
        return (
            np.einsum("nib,ni->nb", weight, self.u),
            np.einsum("nib,ni->nb", weight, self.v),
            weight.sum(axis=1),
        )


_PER_PROGRAM = [field.name for field in fields(Tableau) if field.name not in ("family", "touched")]


def start(tolerance: Floats, family: Indices, touched: Indices) -> Tableau:
    """Every block rejects everybody: rates 0, slacks in the middle of their range, floors just below."""
    programs, rates = tolerance.shape
    blocks, own = touched.shape
    rows, families = blocks + rates, int(family.max(initial=-1)) + 1
    sign = np.concatenate([np.ones(blocks), -np.ones(rates)])
    half = np.where(np.isfinite(tolerance), tolerance / 2, 0.0)
    floor = np.zeros((programs, families))
    for i, f in enumerate(family):
        floor[:, f] = np.maximum(floor[:, f], half[:, i])
    zeros = np.zeros((programs, rows))
    return Tableau(
        inverse=np.broadcast_to(np.diag(sign), (programs, rows, rows)).copy(),
        solution=np.concatenate([np.ones((programs, blocks)), floor[:, family]], axis=1),
        gain=zeros.copy(),
        kind=np.broadcast_to(np.arange(rows), (programs, rows)).copy(),
        u=zeros.copy(),
        v=zeros.copy(),
        rates=np.zeros((programs, rows, own)),
        at_upper=np.zeros((programs, rates), dtype=bool),
        floor=-floor,
        tolerance=tolerance,
        done=np.zeros(programs, dtype=bool),
        family=family,
        touched=touched,
    )


def refactorise(tableau: Tableau) -> bool:
    """Recompute the inverse and the solution from the basis itself, in place: pivots accumulate rounding errors.

    False, and nothing changed, where some basis has become singular.
    """
    programs, rows = tableau.solution.shape
    blocks, rates = tableau.blocks, tableau.tolerance.shape[1]
    basis = np.zeros((programs, rows, rows))
    kind = tableau.kind
    for b in range(blocks):
        basis[:, b, :] = kind == b
    for b in range(blocks):
        own = np.swapaxes(np.where((kind == b)[:, :, None], tableau.rates, 0.0), 1, 2)
        basis[:, blocks + tableau.touched[b], :] += own
    for i in range(rates):
        basis[:, blocks + i, :] -= (kind == blocks + i) | (kind == blocks + rates + tableau.family[i])
    try:
        tableau.inverse = np.asarray(np.linalg.inv(basis), dtype=np.float64)
    except np.linalg.LinAlgError:
        return False
    tableau.solution = np.einsum("nij,nj->ni", tableau.inverse, _right_hand_side(tableau))
    return True


def _right_hand_side(tableau: Tableau) -> Floats:
    """Right-hand side once the variables out of the basis stand at their values."""
    programs = tableau.solution.shape[0]
    blocks, rates = tableau.blocks, tableau.tolerance.shape[1]
    families = tableau.floor.shape[1]
    basic = np.zeros((programs, blocks + rates + families), dtype=bool)
    basic[np.arange(programs)[:, None], tableau.kind] = True
    slack = np.where(tableau.at_upper & ~basic[:, blocks : blocks + rates], tableau.tolerance, 0.0)
    floor = np.where(basic[:, blocks + rates :], 0.0, tableau.floor)
    return np.concatenate([np.ones((programs, blocks)), slack + floor[:, tableau.family]], axis=1)
