"""What a site's reply must be to count in a round of training; whatever it is not, the site is absent from that round.

Flower delivers numbers that are none, and arrays of any shape, as normal replies: only these checks catch them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flwr.app import Message, RecordDict

from logofair.engines.flower.training_records import arrays_in, groups_in, groups_text
from logofair.engines.transport import Absent
from logofair.inputs import Label
from logofair.training import Network
from logofair.training.messages import Answer, AskSlopes, Counts, LocalSteps, Slopes, Trained

__all__ = ["answer_in", "content_in", "counts_in"]

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


def content_in(reply: Message, site: str, groups: tuple[Label, ...]) -> RecordDict | Absent:
    """Return a reply's content if it is the site's and of these groups; no text from the site gets through."""
    if reply.has_error():
        return Absent(f"Flower reports error code {reply.error.code}")
    said = groups_in(reply.content)
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
        if not np.isfinite(trained["parameters"]).all():
            return Absent("its parameters are not all finite")
        return Trained(trained["parameters"])
    functions = 1 + len(task.given) * (n_groups - 1)
    found = arrays_in(content, {"values": (functions,), "gradients": (functions, network.size)})
    if found is None:
        return Absent("its slopes are not those asked for")
    # A disparity may be unknown, where the batch lacks a group; infinite it cannot be.
    if not np.isfinite(found["values"][0]) or np.isinf(found["values"]).any():
        return Absent("its loss and disparities are not all numbers")
    if not np.isfinite(found["gradients"]).all():
        return Absent("its gradients are not all finite")
    return Slopes(found["values"], found["gradients"])


def counts_in(content: RecordDict, n_groups: int) -> Counts | Absent:
    """Return a site's counts, or what is wrong with them.

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
    return Counts(**{name: array.astype(np.float64) for name, array in found.items()}) if why is None else Absent(why)


def _unsound(counts: Arrays) -> str | None:
    """Why counts cannot be true, if so."""
    rows, accepted, loss = counts["rows"], counts["accepted"], counts["loss"]
    if not all(np.isfinite(array).all() for array in counts.values()):
        return "its counts are not all finite"
    if (rows < 0).any() or (rows != np.rint(rows)).any() or (accepted != np.rint(accepted)).any():
        return "its counts of rows are not whole numbers of at least 0"
    if rows.sum() == 0:
        return "it has no rows"
    if (accepted < 0).any() or (accepted > rows).any():
        return "it accepts more rows than it has, or fewer than none"
    if (loss < 0).any() or (loss[rows == 0] != 0).any():
        return "its losses are negative, or of rows it does not have"
    return None
