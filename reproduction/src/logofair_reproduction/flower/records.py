"""Training's requests and replies inside Flower's records, and out again.

A message holds arrays in the record ``arrays`` and the rest in the record ``logofair``: the site's name in both
directions, so that what reaches or comes from the wrong site is never taken for another's, and what is requested, as
JSON. A number passes through JSON unchanged to the bit. Readers raise ``InputError`` on what cannot be true.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from logofair.columns.checks import Floats, Label
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
_HEADER = 1024  # what a sender may add to the bytes of an array: numpy's header
_MOST_ROWS = 2.0**50  # of a cell: sums over all sites stay exact
_MOST_LOSS = 1e60  # logits in single precision reach 3e38, times rows


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
    content = RecordDict({OURS: ConfigRecord({"site": site, "groups": _groups_text(groups)})})
    if reply is not None:
        content[ARRAYS] = ArrayRecord({name: Array(np.asarray(array)) for name, array in vars(reply).items()})
    return content


def _groups_text(groups: tuple[Label, ...]) -> str:
    """The names of groups in their order, as text by which sites are compared."""
    return json.dumps(plain(groups))


def check_sender(content: RecordDict, site: str, groups: tuple[Label, ...]) -> None:
    """Raise unless a reply is the site's and of these groups; no text from the site gets through."""
    ours = content.config_records.get(OURS, ConfigRecord())
    if not isinstance(ours.get("site"), str) or not isinstance(ours.get("groups"), str):
        raise InputError("its reply is not one of federated training")
    if ours["site"] != site:
        raise InputError("its node answers for another site")
    if not content.array_records:
        raise InputError("it could not answer; its own log says why")
    if ours["groups"] != _groups_text(groups):
        raise InputError("its groups, or their order, are not those of the run; pass known_groups to make_rows")


def model_record(parameters: Vector) -> ArrayRecord:
    """Return a model as Flower's strategies pass it about."""
    return ArrayRecord({_MODEL: Array(np.asarray(parameters))})


def read_model(content: RecordDict, network: Network) -> Vector:
    """Return the model in a message, if it is one of this network."""
    return _arrays(content, {_MODEL: (network.size,)}, f"a model of {network.name}")[_MODEL]


def read_reply(content: RecordDict, request: Request, network: Network, n_groups: int) -> Reply:
    """Return the reply to a request."""
    kind = network.start(0).dtype
    if isinstance(request, LocalStepsRequest):
        found = _arrays(content, {_MODEL: (network.size,)}, "parameters of the network")
        return TrainedParameters(_finite(found[_MODEL], "parameters", kind))
    functions = 1 + len(request.given) * (n_groups - 1)
    shapes = {"values": (functions,), "gradients": (functions, network.size)}
    found = _arrays(content, shapes, "the gradients requested")
    loss, gaps = found["values"][0], found["values"][1:]
    if not 0.0 <= loss <= _MOST_LOSS or (gaps < 0.0).any() or (gaps > 1.0).any():  # NaN where a batch lacks a group
        raise InputError("its loss or a gap cannot be true")
    return Gradients(found["values"], _finite(found["gradients"], "gradients", kind))


def read_counts(content: RecordDict, n_groups: int, known: Floats | None = None) -> LabelCounts:
    """Return a site's counts; ``known`` are the rows of its first reply."""
    shape = (n_groups, 2)
    found = _arrays(content, {"rows": shape, "accepted": shape, "loss": shape}, "the counts requested")
    rows, accepted, loss = (_finite(found[name], "counts", np.float64) for name in ("rows", "accepted", "loss"))
    counted = (rows == np.rint(rows)).all() and (accepted == np.rint(accepted)).all()
    if not counted or (rows < 0).any() or rows.max() > _MOST_ROWS or rows.sum() == 0:
        raise InputError("its counts of rows are not whole numbers, or there are none")
    if (accepted < 0).any() or (accepted > rows).any():
        raise InputError("it accepts more rows than it has, or fewer than none")
    if (loss < 0).any() or loss.max() > _MOST_LOSS or (loss[rows == 0] != 0).any():
        raise InputError("its losses are negative, out of all range, or of rows it does not have")
    if known is not None and not np.array_equal(rows, known):
        raise InputError("it has other numbers of rows than when the run began")
    return LabelCounts(rows, accepted, loss)


def _arrays(content: RecordDict, wanted: Mapping[str, tuple[int, ...]], what: str) -> dict[str, npt.NDArray[Any]]:
    """A message's arrays of floating numbers, which must be exactly those wanted; never unpacks more than that."""
    record = content.array_records.get(ARRAYS, ArrayRecord())
    found = {}
    for name, shape in wanted.items():
        array = None
        if name in record and len(record) == len(wanted) and len(record[name].data) <= 8 * np.prod(shape) + _HEADER:
            try:
                array = record[name].numpy()
            except Exception:  # whatever a stranger's bytes may cause
                array = None
        floating = isinstance(array, np.ndarray) and array.dtype in (np.float32, np.float64)
        if array is None or not floating or array.shape != shape:
            raise InputError(f"its arrays are not {what}")
        found[name] = array
    return found


def _finite(numbers: npt.NDArray[Any], what: str, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Numbers in a precision, none of which is too large for it."""
    with np.errstate(over="ignore"):
        found = numbers.astype(kind)
    if not np.isfinite(found).all():
        raise InputError(f"its {what} are not all finite")
    return found
