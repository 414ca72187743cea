"""The rows each client trains on, as tensors on one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from logofair.columns.checks import Floats, Label, binary, matrix, not_empty, same_length
from logofair.columns.labels import Codes, encode, encode_known
from logofair.errors import InputError


@dataclass(frozen=True, eq=False)
class ClientRows:
    """One client's rows; ``cells`` numbers a row's (group, label) as ``2 * group + label``.

    Examples
    --------
    >>> rows = make_rows([[0.1], [0.9], [0.4]], [0, 1, 1], groups=["b", "a", "b"])[0]
    >>> rows.groups, rows.counts.tolist()
    (('a', 'b'), [[0.0, 1.0], [1.0, 1.0]])
    """

    client: Label
    groups: tuple[Label, ...]
    features: Tensor
    labels: Tensor
    cells: Tensor

    def __len__(self) -> int:
        return int(self.labels.numel())

    @cached_property
    def counts(self) -> Floats:
        """Rows of every (group, label)."""
        return self.sums(torch.ones_like(self.cells, dtype=torch.float64))

    @cached_property
    def _cells(self) -> npt.NDArray[np.int64]:
        cells: npt.NDArray[np.int64] = self.cells.cpu().numpy()
        return cells

    def sums(self, values: Tensor) -> Floats:
        """Sum of some values of the rows in every (group, label), in doubles."""
        # In numpy: bincount of doubles on a GPU adds in an order that changes from run to run.
        found = np.bincount(self._cells, values.double().cpu().numpy(), minlength=2 * len(self.groups))
        return found.astype(np.float64).reshape(-1, 2)


def device_named(name: str) -> torch.device:
    """Return a device by name; ``auto`` is the first GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise InputError(f"device: got {name!r}; use auto, cpu or cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device: got 'cuda', but PyTorch finds no GPU here; use cpu or auto.")
    return torch.device(name)


def make_rows(
    features: object,
    labels: object,
    *,
    groups: object,
    sites: object = None,
    known_groups: Sequence[Label] | None = None,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> list[ClientRows]:
    """Sort rows by site, in the order of the sites' names.

    Parameters
    ----------
    features : array of shape (n_rows, n_features), or uint8 images of shape (n_rows, 3, height, width)
        What the model sees.
    labels, groups, sites : columns
        Labels of 0 and 1, both of which must occur, though not at every site; the sensitive group and the site of
        each row, None for a single site.
    known_groups : sequence of labels, optional
        All groups in the order of every table, where these rows may lack some.
    device, dtype
        Where the tensors lie, and in which precision.
    """
    kind, outcomes = dtype, binary(labels, "labels")
    if getattr(features, "ndim", 2) == 4:
        table, kind = np.asarray(features), torch.uint8
        if table.dtype != np.uint8 or table.shape[1] != 3:
            got = f"images of type {table.dtype} and shape {table.shape}"
            raise InputError(f"features: got {got}; pass uint8 of shape (rows, 3, height, width).")
    else:
        table = matrix(features, "features")
        largest = float(np.abs(table).max(initial=0.0))
        if largest > torch.finfo(dtype).max:
            raise InputError(f"features: a value of size {largest:g} is too large for {dtype}; scale the features.")
    not_empty(len(table), "features")
    group = encode(groups, "groups")
    if known_groups is not None:
        group = Codes(tuple(known_groups), encode_known(groups, known_groups, "groups"))
        if (group.codes < 0).any():
            known, row = ", ".join(map(repr, known_groups)), int(np.argmin(group.codes))
            raise InputError(
                f"groups: row {row} is of a group that is not known ({known}); drop such rows, or name its group in "
                "known_groups=."
            )
    site = Codes((0,), np.zeros(len(table), np.int32)) if sites is None else encode(sites, "sites")
    same_length(len(table), labels=outcomes, groups=group, sites=site)
    if len(group.names) < 2:
        raise InputError(f"groups: all rows are of group {group.names[0]!r}; fairness compares two or more.")
    if known_groups is None and outcomes.min() == outcomes.max():
        raise InputError(f"labels: all {len(table):,} rows have label {outcomes[0]:g}; training needs both labels.")
    cells = 2 * group.codes.astype(np.int64) + outcomes.astype(np.int64)
    place = device_named(device) if isinstance(device, str) else device

    def on_device(array: npt.NDArray[np.generic], kind: torch.dtype) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device=place, dtype=kind)

    return [
        ClientRows(
            name,
            group.names,
            on_device(table[rows], kind),
            on_device(outcomes[rows], dtype),
            on_device(cells[rows], torch.int64),
        )
        for name, rows in site.by_name()
    ]
