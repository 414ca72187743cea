"""Training's questions and answers inside Flower's records, and out again.

A message holds the model in the record ``arrays`` and the rest in the record ``logofair``: the site's name in both
directions, as in :mod:`logofair.engines.flower.records`, and in a question what is asked, as JSON. A number passes
through JSON unchanged to the bit.
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
from logofair.training import Network, Schedule, build_network
from logofair.training.messages import (
    Answer,
    Gradients,
    GradientsRequest,
    LabelCounts,
    LocalSteps,
    TrainedParameters,
    Vector,
)

__all__ = [
    "TrainingRequest",
    "answer_in",
    "arrays_in",
    "asked",
    "content_in",
    "counts_in",
    "groups_text",
    "model_in",
    "model_out",
    "sender_in",
    "told",
    "understood",
]


ARRAYS, CONFIG, OURS = "arrays", "config", "logofair"
_MODEL = "parameters"
_TASKS: dict[str, type[LocalSteps] | type[GradientsRequest]] = {"steps": LocalSteps, "slopes": GradientsRequest}
# What a sender may add to the bytes of an array: numpy's header.
_HEADER = 1024


@dataclass(frozen=True, eq=False)
class TrainingRequest:
    """What one site is asked about the model that comes with it.

    Parameters
    ----------
    site : str
        The site asked.
    round, seed : int
        The round's number, 0 before the first, and the run's seed.
    network : Network
        How to read the model.
    schedule : Schedule
        How to take local steps.
    task : LocalSteps, AskSlopes or None
        What to do; None asks for counts.

    Examples
    --------
    >>> network = build_network("logistic", (2,))
    >>> question = TrainingRequest("north", 3, 0, network, Schedule(), LocalSteps(debias="reweighing"))
    >>> found, model = understood(asked(question, model_out(network.start(0))))
    >>> found.site, found.round, found.task.debias, model
    ('north', 3, 'reweighing', array([0., 0., 0.], dtype=float32))
    """

    site: str
    round: int
    seed: int
    network: Network
    schedule: Schedule
    task: LocalSteps | GradientsRequest | None = None


def asked(question: TrainingRequest, model: ArrayRecord, config: ConfigRecord | None = None) -> RecordDict:
    """Return a question as the content of a Flower message; ``config`` goes along for whoever reads it.

    Examples
    --------
    >>> network = build_network("mlp", (2,), hidden=4)
    >>> content = asked(TrainingRequest("north", 1, 0, network, Schedule()), model_out(network.start(0)))
    >>> content["logofair"]["network"]
    '{"name": "mlp", "shape": [2], "hidden": 4, "dtype": "float32"}'
    """
    network = question.network
    kind = str(network.dtype).removeprefix("torch.")
    ours: dict[str, ConfigRecordValues] = {
        "site": question.site,
        "round": question.round,
        "seed": question.seed,
        "network": json.dumps({"name": network.name, "shape": network.shape, "hidden": network.hidden, "dtype": kind}),
        "schedule": json.dumps(asdict(question.schedule)),
        "task": json.dumps(_task_out(question.task), allow_nan=False),
    }
    return RecordDict({ARRAYS: model, CONFIG: config or ConfigRecord(), OURS: ConfigRecord(ours)})


def understood(content: RecordDict) -> tuple[TrainingRequest, Vector]:
    """Return the question inside a message's content, and its model; raise where there is no sound one.

    Examples
    --------
    >>> understood(RecordDict())
    Traceback (most recent call last):
    KeyError: 'logofair'
    """
    ours: Mapping[str, Any] = content.config_records[OURS]
    network = _network(str(ours["network"]))
    question = TrainingRequest(
        str(ours["site"]),
        int(ours["round"]),
        int(ours["seed"]),
        network,
        Schedule(**json.loads(ours["schedule"])),
        _task_in(json.loads(ours["task"])),
    )
    return question, model_in(content.array_records[ARRAYS], network)


def told(site: str, answer: Answer | LabelCounts | None, groups: tuple[Label, ...] = ()) -> RecordDict:
    """Return a site's answer as the content of a Flower message; None is a refusal, which says no more than that.

    Examples
    --------
    >>> from logofair.training.messages import TrainedParameters
    >>> content = told("north", TrainedParameters(np.zeros(2, np.float32)))
    >>> content["logofair"]["site"], content["arrays"]["parameters"].numpy()
    ('north', array([0., 0.], dtype=float32))
    >>> sorted(told("north", None))
    ['logofair']
    """
    ours = ConfigRecord({"site": site, "groups": groups_text(groups)})
    if answer is None:
        return RecordDict({OURS: ours})
    arrays = {name: Array(np.asarray(array)) for name, array in vars(answer).items()}
    return RecordDict({OURS: ours, ARRAYS: ArrayRecord(arrays)})


def arrays_in(content: RecordDict, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, npt.NDArray[Any]] | None:
    """Return an answer's arrays of floating numbers, or None unless there are exactly those of the shapes wanted.

    Examples
    --------
    >>> from logofair.training.messages import TrainedParameters
    >>> content = told("north", TrainedParameters(np.zeros(2)))
    >>> arrays_in(content, {"parameters": (2,)})
    {'parameters': array([0., 0.])}
    >>> arrays_in(content, {"parameters": (3,)}) is None, arrays_in(content, {"values": (2,)}) is None
    (True, True)
    """
    record = content.array_records.get(ARRAYS)
    if record is None or record.keys() != wanted.keys():
        return None
    found = {name: _array_in(record[name], shape) for name, shape in wanted.items()}
    return None if any(array is None for array in found.values()) else found  # type: ignore[return-value]


def groups_text(groups: tuple[Label, ...]) -> str:
    """Return the names of groups in their order, as text two sites can be compared by.

    Examples
    --------
    >>> groups_text(("F", "M"))
    '["F", "M"]'
    """
    return json.dumps([label_out(group, "group") for group in groups])


def sender_in(content: RecordDict) -> tuple[str, str] | None:
    """Return the site that answers and the text of its groups, or None where the answer is not one of ours.

    Examples
    --------
    >>> sender_in(told("north", None, ("F", "M")))
    ('north', '["F", "M"]')
    >>> sender_in(RecordDict()) is None
    True
    """
    ours = content.config_records.get(OURS, ConfigRecord())
    site, groups = ours.get("site"), ours.get("groups")
    return (site, groups) if isinstance(site, str) and isinstance(groups, str) else None


def model_out(parameters: Vector) -> ArrayRecord:
    """Return a model as Flower's strategies pass it about.

    Examples
    --------
    >>> model_out(np.zeros(3))["parameters"].shape
    (3,)
    """
    return ArrayRecord({_MODEL: Array(np.asarray(parameters))})


def model_in(record: ArrayRecord, network: Network) -> Vector:
    """Return the model in a record, if it is one of this network.

    Examples
    --------
    >>> model_in(model_out(np.zeros(3)), build_network("logistic", (7,)))
    Traceback (most recent call last):
    logofair.errors.InputError: arrays: expected one array 'parameters' of 8 numbers for logistic; use model_out(...).
    """
    found = _array_in(record[_MODEL], (network.size,)) if list(record) == [_MODEL] else None
    if found is None:
        raise InputError(
            f"arrays: expected one array {_MODEL!r} of {network.size:,} numbers for {network.name}; use model_out(...)."
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


def _task_out(task: LocalSteps | GradientsRequest | None) -> dict[str, Any] | None:
    if task is None:
        return None
    values = dict(vars(task))
    if values.get("weights") is not None:
        values["weights"] = values["weights"].tolist()
    return {"kind": "slopes" if isinstance(task, GradientsRequest) else "steps", **values}


def _task_in(values: dict[str, Any] | None) -> LocalSteps | GradientsRequest | None:
    if values is None:
        return None
    kind = _TASKS[values.pop("kind")]
    if values.get("weights") is not None:
        values["weights"] = np.asarray(values["weights"], dtype=np.float64)
    return kind(**{**values, "given": tuple(values["given"])})


@lru_cache(maxsize=4)  # a ResNet18 takes a while to build
def _network(text: str) -> Network:
    import torch

    said = json.loads(text)
    kinds = {"float32": torch.float32, "float64": torch.float64}
    return build_network(said["name"], tuple(said["shape"]), hidden=said["hidden"], dtype=kinds[said["dtype"]])


Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

_MOST_ROWS = 2.0**50  # of a cell: sums over all sites stay exact
_MOST_LOSS = 1e60  # logits in single precision reach 3e38, times rows


def content_in(reply: Message, site: str, groups: tuple[Label, ...]) -> RecordDict | NoReply:
    """Return a reply's content if it is the site's and of these groups; no text from the site gets through."""
    if reply.has_error():
        return NoReply(f"Flower reports error code {reply.error.code}")
    said = sender_in(reply.content)
    if said is None:
        return NoReply("its reply is not one of federated training")
    if said[0] != site:
        return NoReply("its node answers for another site")
    if not reply.content.array_records:
        return NoReply("it could not answer; its own log says why")
    if said[1] != groups_text(groups):
        return NoReply("its groups, or their order, are not those of the run; pass known_groups to make_rows")
    return reply.content


def answer_in(
    content: RecordDict, task: LocalSteps | GradientsRequest, network: Network, n_groups: int
) -> Answer | NoReply:
    """Return an answer to a task, or what is wrong with it.

    Examples
    --------
    >>> from logofair.engines.flower.training.records import told
    >>> from logofair.training import build_network
    >>> network = build_network("logistic", (1,))
    >>> answer_in(told("north", TrainedParameters(np.array([1.0, np.nan]))), LocalSteps(), network, 2)
    NoReply(reason='its parameters are not all finite', late=False)
    """
    if isinstance(task, LocalSteps):
        trained = arrays_in(content, {"parameters": (network.size,)})
        if trained is None:
            return NoReply("its parameters are not those of the network")
        parameters = _as_trained(trained["parameters"], network)
        if not np.isfinite(parameters).all():
            return NoReply("its parameters are not all finite")
        return TrainedParameters(parameters)
    functions = 1 + len(task.given) * (n_groups - 1)
    found = arrays_in(content, {"values": (functions,), "gradients": (functions, network.size)})
    if found is None:
        return NoReply("its slopes are not those asked for")
    loss, disparities = found["values"][0], found["values"][1:]
    if not 0.0 <= loss <= _MOST_LOSS or (disparities < 0.0).any() or (disparities > 1.0).any():
        return NoReply("its loss or a disparity cannot be true")  # unknown it may be, where the batch lacks a group
    gradients = _as_trained(found["gradients"], network)
    if not np.isfinite(gradients).all():
        return NoReply("its gradients are not all finite")
    return Gradients(found["values"], gradients)


def _as_trained(numbers: npt.NDArray[Any], network: Network) -> npt.NDArray[Any]:
    """Numbers in the network's own precision; infinite where they are too large for it."""
    with np.errstate(over="ignore"):
        return numbers.astype(network.start(0).dtype)


def counts_in(content: RecordDict, n_groups: int, rows: Floats | None = None) -> LabelCounts | NoReply:
    """Return a site's counts, or what is wrong with them; ``rows`` are those it told at first.

    Examples
    --------
    >>> from logofair.engines.flower.training.records import told
    >>> two = np.full((2, 2), 2.0)
    >>> counts_in(told("north", LabelCounts(rows=two, accepted=two + 1.0, loss=two)), 2)
    NoReply(reason='it accepts more rows than it has, or fewer than none', late=False)
    """
    shape = (n_groups, 2)
    found = arrays_in(content, {"rows": shape, "accepted": shape, "loss": shape})
    if found is None:
        return NoReply("its counts are not those asked for")
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
