"""Training's requests and replies inside Flower's records, and out again.

A message holds arrays in the record ``arrays`` and the rest in the record ``logofair``: the site's name in both
directions, so that what reaches or comes from the wrong site is never taken for another's, and what is requested, as
JSON. A number passes through JSON unchanged to the bit. Trainers are a study's own processes, so readers check shapes
and that numbers are finite, not that they are true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from logofair.columns.checks import Label
from logofair.errors import InputError
from logofair.records import plain, read
from logofair_reproduction.training import Network
from logofair_reproduction.training.messages import (
    Gradients,
    LabelCounts,
    LocalStepsRequest,
    Reply,
    Request,
    TrainedParameters,
    Vector,
)

ARRAYS, OURS = "arrays", "logofair"
_MODEL = "parameters"


def pack_request(site: str, number: int, random_state: int, request: Request | None, model: ArrayRecord) -> RecordDict:
    """Return a request of a round as the content of a Flower message; without a ``request`` it asks for counts."""
    text = json.dumps(plain(request), allow_nan=False)
    ours = ConfigRecord({"site": site, "round": number, "random_state": random_state, "request": text})
    return RecordDict({ARRAYS: model, OURS: ours})


def unpack_request(content: RecordDict) -> tuple[tuple[int, int], Request | None]:
    """Return a request's random state and round, and what is requested."""
    ours: Mapping[str, Any] = content.config_records[OURS]
    values = json.loads(ours["request"])
    return (int(ours["random_state"]), int(ours["round"])), None if values is None else read(values, Request)


def pack_reply(site: str, reply: Reply | LabelCounts | None, groups: tuple[Label, ...] = ()) -> RecordDict:
    """Return a site's reply as the content of a Flower message; None is a refusal, which says no more than that."""
    content = RecordDict({OURS: ConfigRecord({"site": site, "groups": json.dumps(plain(groups))})})
    if reply is not None:
        content[ARRAYS] = ArrayRecord({name: Array(np.asarray(array)) for name, array in vars(reply).items()})
    return content


def check_sender(content: RecordDict, site: str, groups: tuple[Label, ...]) -> None:
    """Raise unless a reply is the site's and of these groups."""
    ours = content.config_records.get(OURS, ConfigRecord())
    if ours.get("site") != site:
        raise InputError("its node answers for another site")
    if not content.array_records:
        raise InputError("it could not answer; its own log says why")
    if ours.get("groups") != json.dumps(plain(groups)):
        raise InputError("its groups, or their order, are not those of the run; pass known_groups to make_rows")


def model_record(parameters: Vector) -> ArrayRecord:
    """Return a model as Flower's strategies pass it about."""
    return ArrayRecord({_MODEL: Array(np.asarray(parameters))})


def read_model(content: RecordDict, network: Network) -> Vector:
    """Return the model in a message, if it is one of this network."""
    return read_arrays(content, {_MODEL: (network.size,)})[_MODEL]


def read_reply(content: RecordDict, request: Request, network: Network, n_groups: int) -> Reply:
    """Return the reply to a request."""
    if isinstance(request, LocalStepsRequest):
        return TrainedParameters(read_model(content, network))
    functions = 1 + len(request.given) * (n_groups - 1)
    found = read_arrays(content, {"values": (functions,), "gradients": (functions, network.size)})
    return Gradients(**found)


def read_counts(content: RecordDict, n_groups: int) -> LabelCounts:
    """Return a site's counts."""
    return LabelCounts(**read_arrays(content, dict.fromkeys(("rows", "accepted", "loss"), (n_groups, 2))))


def read_arrays(content: RecordDict, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, npt.NDArray[Any]]:
    """Return a message's arrays; raise unless they are those wanted and finite (a gap may be NaN: it has no rows)."""
    found = {name: array.numpy() for name, array in content.array_records[ARRAYS].items()}
    if {name: array.shape for name, array in found.items()} != wanted:
        raise InputError(f"its arrays are not those requested: {', '.join(wanted)}")
    for name, array in found.items():
        if not np.isfinite(array[:1] if name == "values" else array).all():
            raise InputError(f"its {name}: not all numbers are finite")
    return found
