"""Policies on disk: the tables of a policy as a document (see `documents`), and back, each checked for shape and range.

The checks of the document itself come first, so that a file cut short, edited by hand or written by a newer version
says so instead of deciding wrongly.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from logofair.calibration import Calibrator
from logofair.errors import InputError
from logofair.files.documents import (
    label_out,
    labels_in,
    numbers_in,
    numbers_out,
    of_type,
    or_damaged,
    read_document,
    write_document,
)
from logofair.policy.info import PolicyInfo
from logofair.policy.mixtures import Mixtures

FORMAT = "logofair policy"
VERSION = 1


def write_policy(parts: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the parts of a policy, by field name; an existing file is replaced at once or not at all."""
    merged = parts["merged"]
    body = {
        "groups": [label_out(name, "group") for name in parts["groups"]],
        "clients": [label_out(name, "client") for name in parts["clients"]],
        "key": parts["key"],
        "mixtures": _mixtures_out(parts["mixtures"]),
        "merged": None if merged is None else _mixtures_out(merged),
        "calibrator": parts["calibrator"].as_json(),
        "info": parts["info"].as_dict(),
    }
    write_document(path, FORMAT, VERSION, body, what="policy")


def read_policy(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check the parts of a policy, by field name."""
    body = read_document(path, FORMAT, VERSION, what="policy")
    return or_damaged(lambda: _parts(body), Path(path), what="policy")


def _parts(body: dict[str, Any]) -> dict[str, Any]:
    groups, clients = labels_in(body["groups"]), labels_in(body["clients"])
    calibrator = Calibrator.from_json(body["calibrator"])
    if (calibrator.n_groups, calibrator.n_clients) != (len(groups), len(clients)):
        raise InputError("its calibrator is for other groups or clients; save the policy again.")
    merged, info = body["merged"], PolicyInfo.from_dict(body["info"])
    if info.site is not None and len(clients) > 1:
        raise ValueError("clients")
    return {
        "groups": groups,
        "clients": clients,
        "mixtures": _mixtures_in(body["mixtures"], len(groups) * len(clients)),
        "calibrator": calibrator,
        "merged": None if merged is None else _mixtures_in(merged, len(groups)),
        "key": of_type(body["key"], int),
        "info": info,
    }


def _mixtures_out(mixtures: Mixtures) -> dict[str, Any]:
    # JSON has no infinity; null stands for "reject all"
    single = [None if np.isinf(t) else t for t in mixtures.single.tolist()]
    return {
        "weight": numbers_out(mixtures.weight),
        "threshold": numbers_out(mixtures.threshold),
        "above": mixtures.above.tolist(),
        "single": single,
    }


def _mixtures_in(data: dict[str, Any], cells: int) -> Mixtures:
    weight = numbers_in(data["weight"], (cells, 3), low=0, high=1)
    threshold = numbers_in(data["threshold"], (cells, 3), low=0, high=1)
    above, single = np.array(data["above"]), of_type(data["single"], list)
    rejects = np.array([limit is None for limit in single])
    limits = numbers_in([0.0 if limit is None else limit for limit in single], (cells,), low=0, high=1)
    if above.shape != (cells, 3) or above.dtype != bool or weight.sum(axis=1).max() > 1.0 + 1e-9:
        raise ValueError("above or weights")
    return Mixtures(weight, threshold, above, np.where(rejects, np.inf, limits))
