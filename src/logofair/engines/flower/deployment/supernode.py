"""Flower's SuperNode that runs the installed package and nothing else.

An ordinary SuperNode executes whatever app the server sends it, so that a site would have to trust the server
with its data. This one keeps Flower's connection, authentication and heartbeats, but has the app run outside of it
(``--isolation process``), in a thread of this very process, which answers each task with the client app of the
installed package. Code that came with the run is never loaded. With no process to start per message, and Flower's
waits shortened, a message takes tenths of a second instead of several seconds.

This needs Flower's internals (1.41): the imports from ``flwr.supercore`` and ``flwr.supernode``, and what
:func:`_adapt_flower` replaces.

Run as ``python -m logofair.engines.flower.deployment.supernode`` with the options of ``flower-supernode``.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, pull_objects
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from logofair.engines.flower.client_app import app
from logofair.engines.flower.deployment.supervision import exit_with_parent

__all__ = ["answer_tasks", "option", "pull_complete", "reply_to"]


_POLL = 0.1  # seconds between two looks for a task, on this machine
_FASTER = 6  # Flower waits 3 s between two looks for a message, and 0.5 s between two for its reply
_INCOMPLETE = 5.0  # seconds to wait for the rest of a message; a server that died while sending never completes it
_FAILED = 2  # Flower's code for a client app that raised


def reply_to(client_app: ClientApp, message: Message, context: Context) -> Message:
    """Return the app's reply; a message it does not know, or a failure, gets an error without any text."""
    try:
        return client_app(message, context)
    except Exception:  # its text may hold data
        return Message(Error(_FAILED, ""), reply_to=message)


def answer_tasks(connect: Callable[[str | None], RuntimeHttpClient], client_app: ClientApp) -> None:
    """Answer the node's tasks one after the other, without end."""
    with connect(None) as node:
        while True:
            claim = node.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
            if claim.HasField("task") and claim.token:
                with connect(claim.token) as task:
                    _answer(task, client_app)
            else:
                time.sleep(_POLL)


def pull_complete(parts: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
    """Pull the parts of a message; raise where it stays incomplete, or its run has ended.

    Flower would wait two hours for the parts that a server killed while sending never sent. Where the run has ended
    it would drop the message and keep its task.
    """
    try:
        return pull_objects(parts, pull_object_fn, max_time=_INCOMPLETE)
    except RunNotRunningException:
        raise ObjectPullError(parts[0], "the run has ended") from None


def option(arguments: list[str], name: str) -> str:
    """Return the value of an option on a command line."""
    return arguments[arguments.index(name) + 1]


def _answer(task: RuntimeHttpClient, client_app: ClientApp) -> None:
    """Answer one task, with heartbeats meanwhile."""
    # Flower's own function would end the node at a refused heartbeat
    heartbeat = HeartbeatSender(lambda: task.SendTaskHeartbeat(SendTaskHeartbeatRequest()) is not None)
    heartbeat.start()
    try:
        pulled = _pulled(task)
        if pulled is not None:
            message, context = pulled
            push_message(task, reply_to(client_app, message, context), context)
            push_task_output(task, context, "completed", "")
    finally:
        heartbeat.stop()


def _pulled(task: RuntimeHttpClient) -> tuple[Message, Context] | None:
    """Return the message of a task; None where it has been dropped meanwhile."""
    try:
        message, context, _, _ = pull_task_input(task)  # the last is the code that came with the run: not looked at
    except Exception:
        return None
    return message, context


def _connect(address: str, token: str | None) -> RuntimeHttpClient:
    """Return a client of the node's own interface, which listens on loopback alone."""
    identity = [] if token is None else [RuntimeTokenHttpInterceptor(token)]
    version = RuntimeVersionHttpInterceptor(component_name="flwr-clientapp")
    return RuntimeHttpClient.from_server_address(
        server_address=address, insecure=True, root_certificates=None, interceptors=[version, *identity]
    )


def _work(address: str) -> None:
    """Answer tasks; where that fails, end the node, which its supervisor notices at once."""
    deadline = time.monotonic() + 60.0
    while True:
        try:
            answer_tasks(lambda token: _connect(address, token), app)
        except Exception as error:
            if time.monotonic() > deadline:
                sys.stderr.write(f"The node's tasks cannot be answered: {type(error).__name__}.\n")
                os._exit(1)
            time.sleep(_POLL)


def _adapt_flower() -> None:
    """Shorten Flower's waits between two looks for a message, and for the parts of one that stays incomplete."""
    internals = vars(start_client_internal)
    internals["time"] = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / _FASTER))
    internals["pull_objects"] = pull_complete


def main() -> None:
    """Start the node; Flower's own handlers need the main thread."""
    exit_with_parent()
    sys.argv += ["--isolation", "process"]
    _adapt_flower()
    address = f"{option(sys.argv, '--host')}:{option(sys.argv, '--port')}"
    threading.Thread(target=_work, args=(address,), daemon=True).start()
    flower_supernode()


if __name__ == "__main__":
    main()
