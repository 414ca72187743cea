"""Training's requests and replies inside Flower's records, and out again.

A message holds the model in the record ``arrays`` and the rest in the record ``logofair``: the site's name in both
directions, as in :mod:`logofair.engines.flower.records`, and what is requested, as JSON. A number passes through JSON
unchanged to the bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, ConfigRecordValues, Message, RecordDict

from logofair.columns.checks import Floats, Label
from logofair.engines.conductor import NoReply
from logofair.errors import InputError
from logofair.files.documents import label_out
from logofair_reproduction.training import Network, Schedule, build_network
from logofair_reproduction.training.messages import (
    Gradients,
    GradientsRequest,
    LabelCounts,
    LocalStepsRequest,
    Reply,
    Request,
    TrainedParameters,
    Vector,
)

__all__ = [
    "TrainingRequest",
    "checked_content",
    "model_record",
    "pack_reply",
    "pack_request",
    "read_counts",
    "read_model",
    "read_reply",
    "unpack_request",
]


ARRAYS, CONFIG, OURS = "arrays", "config", "logofair"
_MODEL = "parameters"
_REQUESTS: dict[str, type[Request]] = {"steps": LocalStepsRequest, "gradients": GradientsRequest}
# What a sender may add to the bytes of an array: numpy's header.
_HEADER = 1024


@dataclass(frozen=True, eq=False)
class TrainingRequest:
    """A request to one site about the model that comes with it."""

    site: str
    round: int
    random_state: int
    network: Network
    schedule: Schedule
    request: Request | None = None


def pack_request(sent: TrainingRequest, model: ArrayRecord, config: ConfigRecord | None = None) -> RecordDict:
    """Return a request as the content of a Flower message; ``config`` is for the apps of a caller's own."""
    network = sent.network
    kind = str(network.dtype).removeprefix("torch.")
    ours: dict[str, ConfigRecordValues] = {
        "site": sent.site,
        "round": sent.round,
        "random_state": sent.random_state,
        "network": json.dumps({"name": network.name, "shape": network.shape, "hidden": network.hidden, "dtype": kind}),
        "schedule": json.dumps(asdict(sent.schedule)),
        "request": json.dumps(_as_json(sent.request), allow_nan=False),
    }
    return RecordDict({ARRAYS: model, CONFIG: config or ConfigRecord(), OURS: ConfigRecord(ours)})


def unpack_request(content: RecordDict) -> tuple[TrainingRequest, Vector]:
    """Return the request in a message's content, and its model; raise where there is no sound one."""
    ours: Mapping[str, Any] = content.config_records[OURS]
    network = _network(str(ours["network"]))
    found = TrainingRequest(
        str(ours["site"]),
        int(ours["round"]),
        int(ours["random_state"]),
        network,
        Schedule(**json.loads(ours["schedule"])),
        _from_json(json.loads(ours["request"])),
    )
    return found, read_model(content.array_records[ARRAYS], network)


def pack_reply(site: str, reply: Reply | LabelCounts | None, groups: tuple[Label, ...] = ()) -> RecordDict:
    """Return a site's reply as the content of a Flower message; None is a refusal, which says no more than that."""
    ours = ConfigRecord({"site": site, "groups": _groups_text(groups)})
    if reply is None:
        return RecordDict({OURS: ours})
    arrays = {name: Array(np.asarray(array)) for name, array in vars(reply).items()}
    return RecordDict({OURS: ours, ARRAYS: ArrayRecord(arrays)})


def _arrays(content: RecordDict, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, npt.NDArray[Any]] | None:
    """Return a reply's arrays of floating numbers, or None unless there are exactly those of the shapes wanted."""
    record = content.array_records.get(ARRAYS)
    if record is None or record.keys() != wanted.keys():
        return None
    found = {name: _array_in(record[name], shape) for name, shape in wanted.items()}
    return None if any(array is None for array in found.values()) else found  # type: ignore[return-value]


def _groups_text(groups: tuple[Label, ...]) -> str:
    """Return the names of groups in their order, as text by which sites are compared."""
    return json.dumps([label_out(group, "group") for group in groups])


def _sender(content: RecordDict) -> tuple[str, str] | None:
    """Return the site that replies and the text of its groups, or None where the reply is not one of ours."""
    ours = content.config_records.get(OURS, ConfigRecord())
    site, groups = ours.get("site"), ours.get("groups")
    return (site, groups) if isinstance(site, str) and isinstance(groups, str) else None


def model_record(parameters: Vector) -> ArrayRecord:
    """Return a model as Flower's strategies pass it about."""
    return ArrayRecord({_MODEL: Array(np.asarray(parameters))})


def read_model(record: ArrayRecord, network: Network) -> Vector:
    """Return the model in a record, if it is one of this network."""
    found = _array_in(record[_MODEL], (network.size,)) if list(record) == [_MODEL] else None
    if found is None:
        raise InputError(
            f"arrays: expected one array {_MODEL!r} of {network.size:,} numbers for {network.name}; use model_record."
        )
    return found


def _array_in(array: Array, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """The numbers of an array, or None where they are not what was wanted; never unpacks more than that."""
    if len(array.data) > 8 * int(np.prod(shape)) + _HEADER:
        return None
    try:
        found = array.numpy()
    except Exception:  # whatever a stranger's bytes may cause
        return None
    if not isinstance(found, np.ndarray) or found.dtype not in (np.float32, np.float64):
        return None
    return found if found.shape == shape else None


def _as_json(request: Request | None) -> dict[str, Any] | None:
    if request is None:
        return None
    values = dict(vars(request))
    if values.get("weights") is not None:
        values["weights"] = values["weights"].tolist()
    return {"kind": "gradients" if isinstance(request, GradientsRequest) else "steps", **values}


def _from_json(values: dict[str, Any] | None) -> Request | None:
    if values is None:
        return None
    kind = _REQUESTS[values.pop("kind")]
    if values.get("weights") is not None:
        values["weights"] = np.asarray(values["weights"], dtype=np.float64)
    return kind(**{**values, "given": tuple(values["given"])})


@lru_cache(maxsize=4)  # a ResNet18 takes a while to build
def _network(text: str) -> Network:
    import torch

    values = json.loads(text)
    kinds = {"float32": torch.float32, "float64": torch.float64}
    return build_network(values["name"], tuple(values["shape"]), hidden=values["hidden"], dtype=kinds[values["dtype"]])


Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

_MOST_ROWS = 2.0**50  # of a cell: sums over all sites stay exact
_MOST_LOSS = 1e60  # logits in single precision reach 3e38, times rows


def checked_content(reply: Message, site: str, groups: tuple[Label, ...]) -> RecordDict | NoReply:
    """Return a reply's content if it is the site's and of these groups; no text from the site gets through."""
    if reply.has_error():
        return NoReply(f"Flower reports error code {reply.error.code}")
    sender = _sender(reply.content)
    if sender is None:
        return NoReply("its reply is not one of federated training")
    if sender[0] != site:
        return NoReply("its node answers for another site")
    if not reply.content.array_records:
        return NoReply("it could not answer; its own log says why")
    if sender[1] != _groups_text(groups):
        return NoReply("its groups, or their order, are not those of the run; pass known_groups to make_rows")
    return reply.content


def read_reply(content: RecordDict, request: Request, network: Network, n_groups: int) -> Reply | NoReply:
    """Return the reply to a request, or what is wrong with it."""
    if isinstance(request, LocalStepsRequest):
        trained = _arrays(content, {"parameters": (network.size,)})
        if trained is None:
            return NoReply("its parameters are not those of the network")
        parameters = _in_precision(trained["parameters"], network)
        if not np.isfinite(parameters).all():
            return NoReply("its parameters are not all finite")
        return TrainedParameters(parameters)
    functions = 1 + len(request.given) * (n_groups - 1)
    found = _arrays(content, {"values": (functions,), "gradients": (functions, network.size)})
    if found is None:
        return NoReply("its gradients are not those requested")
    loss, gaps = found["values"][0], found["values"][1:]
    if not 0.0 <= loss <= _MOST_LOSS or (gaps < 0.0).any() or (gaps > 1.0).any():  # NaN where a batch lacks a group
        return NoReply("its loss or a gap cannot be true")
    gradients = _in_precision(found["gradients"], network)
    if not np.isfinite(gradients).all():
        return NoReply("its gradients are not all finite")
    return Gradients(found["values"], gradients)


def _in_precision(numbers: npt.NDArray[Any], network: Network) -> npt.NDArray[Any]:
    """Numbers in the network's own precision; infinite where they are too large for it."""
    with np.errstate(over="ignore"):
        return numbers.astype(network.start(0).dtype)


def read_counts(content: RecordDict, n_groups: int, rows: Floats | None = None) -> LabelCounts | NoReply:
    """Return a site's counts, or what is wrong with them; ``rows`` are those of its first reply."""
    shape = (n_groups, 2)
    found = _arrays(content, {"rows": shape, "accepted": shape, "loss": shape})
    if found is None:
        return NoReply("its counts are not those requested")
    why = _unsound(found)
    if why is None and rows is not None and not np.array_equal(found["rows"], rows):
        why = "it has other numbers of rows than when the run began"
    return (
        LabelCounts(**{name: array.astype(np.float64) for name, array in found.items()})
        if why is None
        else NoReply(why)
    )


def _unsound(counts: Arrays) -> str | None:
    """Why counts cannot be true, if so."""
    rows, accepted, loss = counts["rows"], counts["accepted"], counts["loss"]
    if not all(np.isfinite(array).all() for array in counts.values()):
        return "its counts are not all finite"
    if (rows < 0).any() or (rows != np.rint(rows)).any() or (accepted != np.rint(accepted)).any():
        return "its counts of rows are not whole numbers of at least 0"
    if rows.max() > _MOST_ROWS or loss.max() > _MOST_LOSS:
        return "its numbers of rows or its losses are out of all range"
    if rows.sum() == 0:
        return "it has no rows"
    if (accepted < 0).any() or (accepted > rows).any():
        return "it accepts more rows than it has, or fewer than none"
    if (loss < 0).any() or (loss[rows == 0] != 0).any():
        return "its losses are negative, or of rows it does not have"
    return None
