"""What a site's reply must be to count in a round of training; whatever it is not, the site is absent from that round.

Flower delivers numbers that are none, and arrays of any shape, as normal replies: only these checks catch them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flwr.app import Message, RecordDict

from logofair.engines.flower.training_records import arrays_in, groups_text, sender_in
from logofair.engines.transport import Absent
from logofair.inputs import Floats, Label
from logofair.training import Network
from logofair.training.messages import Answer, AskSlopes, Counts, LocalSteps, Slopes, Trained

__all__ = ["answer_in", "content_in", "counts_in"]

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]

_MOST_ROWS = 2.0**50  # of a cell: sums over all sites stay exact
_MOST_LOSS = 1e60  # logits in single precision reach 3e38, times rows


def content_in(reply: Message, site: str, groups: tuple[Label, ...]) -> RecordDict | Absent:
    """Return a reply's content if it is the site's and of these groups; no text from the site gets through."""
    if reply.has_error():
        return Absent(f"Flower reports error code {reply.error.code}")
    said = sender_in(reply.content)
    if said is None:
        return Absent("its reply is not one of federated training")
    if said[0] != site:
        return Absent("its node answers for another site")
    if not reply.content.array_records:
        return Absent("it could not answer; its own log says why")
    if said[1] != groups_text(groups):
        return Absent("its groups, or their order, are not those of the run; pass known_groups to make_rows")
    return reply.content


def answer_in(content: RecordDict, task: LocalSteps | AskSlopes, network: Network, n_groups: int) -> Answer | Absent:
    """Return an answer to a task, or what is wrong with it.

    Examples
    --------
    >>> from logofair.engines.flower.training_records import told
    >>> from logofair.training import build_network
    >>> network = build_network("logistic", (1,))
    >>> answer_in(told("north", Trained(np.array([1.0, np.nan]))), LocalSteps(), network, 2)
    Absent(reason='its parameters are not all finite', late=False)
    """
    if isinstance(task, LocalSteps):
        trained = arrays_in(content, {"parameters": (network.size,)})
        if trained is None:
            return Absent("its parameters are not those of the network")
        parameters = _as_trained(trained["parameters"], network)
        if not np.isfinite(parameters).all():
            return Absent("its parameters are not all finite")
        return Trained(parameters)
    functions = 1 + len(task.given) * (n_groups - 1)
    found = arrays_in(content, {"values": (functions,), "gradients": (functions, network.size)})
    if found is None:
        return Absent("its slopes are not those asked for")
    loss, disparities = found["values"][0], found["values"][1:]
    if not 0.0 <= loss <= _MOST_LOSS or (disparities < 0.0).any() or (disparities > 1.0).any():
        return Absent("its loss or a disparity cannot be true")  # unknown it may be, where the batch lacks a group
    gradients = _as_trained(found["gradients"], network)
    if not np.isfinite(gradients).all():
        return Absent("its gradients are not all finite")
    return Slopes(found["values"], gradients)


def _as_trained(numbers: npt.NDArray[Any], network: Network) -> npt.NDArray[Any]:
    """Numbers in the network's own precision; infinite where they are too large for it."""
    with np.errstate(over="ignore"):
        return numbers.astype(network.start(0).dtype)


def counts_in(content: RecordDict, n_groups: int, rows: Floats | None = None) -> Counts | Absent:
    """Return a site's counts, or what is wrong with them; ``rows`` are those it told at first.

    Examples
    --------
    >>> from logofair.engines.flower.training_records import told
    >>> two = np.full((2, 2), 2.0)
    >>> counts_in(told("north", Counts(rows=two, accepted=two + 1.0, loss=two)), 2)
    Absent(reason='it accepts more rows than it has, or fewer than none', late=False)
    """
    shape = (n_groups, 2)
    found = arrays_in(content, {"rows": shape, "accepted": shape, "loss": shape})
    if found is None:
        return Absent("its counts are not those asked for")
    why = _unsound(found)
    if why is None and rows is not None and not np.array_equal(found["rows"], rows):
        why = "it has other numbers of rows than when the run began"
    return Counts(**{name: array.astype(np.float64) for name, array in found.items()}) if why is None else Absent(why)


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
