"""Small training problems that the tests share: rows with a known bias, awkward clients, one thread."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from logofair_reproduction.training import ClientRows, TrainingState, make_rows

torch.set_num_threads(1)


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def biased(n: int = 400, n_clients: int = 3, seed: int = 0, *, dtype: torch.dtype = torch.float32) -> list[ClientRows]:
    """Rows whose first column gives the group away, which shifts the labels, more at later clients."""
    rng = np.random.default_rng(seed)
    group, client = rng.integers(2, size=n), rng.integers(n_clients, size=n)
    merit = rng.normal(size=n)
    labels = merit + (0.6 + 0.4 * client) * (2 * group - 1) + 0.5 * rng.normal(size=n) > 0
    features = np.column_stack([group + 0.2 * rng.normal(size=n), merit, rng.normal(size=n)])
    return make_rows(features, labels, groups=group, sites=client, dtype=dtype)


def awkward(seed: int = 0, *, dtype: torch.dtype = torch.float32) -> list[ClientRows]:
    """Clients of every awkward kind: without a group, with one label only, with a single row; and a plain one."""
    rng = np.random.default_rng(seed)
    client = np.repeat(["one group", "one label", "one row", "plain"], [20, 15, 1, 30])
    group, labels = rng.integers(3, size=66), rng.integers(2, size=66)
    group[client == "one group"] = 1
    labels[client == "one label"] = 1
    features = rng.normal(size=(66, 2)) + np.column_stack([group, labels])
    return make_rows(features, labels, groups=group, sites=client, dtype=dtype)


def last(states: Iterable[TrainingState]) -> TrainingState:
    *_, final = states
    return final


def same_bits(a: TrainingState, b: TrainingState) -> bool:
    """Whether two states are equal to the bit, kept states and counts included."""
    pairs = [(a.parameters, b.parameters), *((a.method_state[name], b.method_state[name]) for name in a.method_state)]
    pairs += [(getattr(a.measured, name), getattr(b.measured, name)) for name in ("rows", "accepted", "loss")]
    pairs += [(x, y) for x, y in zip(a.client_states, b.client_states, strict=True) if x is not None and y is not None]
    known = [kept is None for kept in a.client_states] == [kept is None for kept in b.client_states]
    numbers = (a.round, a.measured_at, set(a.method_state)) == (b.round, b.measured_at, set(b.method_state))
    return known and numbers and all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in pairs)
