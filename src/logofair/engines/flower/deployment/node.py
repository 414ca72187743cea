"""A site's part in Flower: ``flower-supernode`` as a child, and the answers, which are given in this very process.

An ordinary SuperNode executes whatever app the server sends it, so that a site would have to trust the server with its
data. Flower can have the app run outside of the node (``--isolation process``): here, by the client app of the
installed package. Code that came with the run is never loaded.

What is imported from ``flwr.supercore`` and ``flwr.supernode`` is Flower's own side of that option (1.41, 1.42).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectPushError
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from logofair.engines.events import Event, Tell
from logofair.engines.flower.client_app import client_app
from logofair.engines.flower.deployment.checks import check_server
from logofair.engines.flower.deployment.children import Child, child, environment, executable, free_port, node_config
from logofair.engines.site import answer_on_disk
from logofair.errors import RunError

_POLL = 0.2  # seconds between two looks for a task, on this machine
_START = 120.0  # seconds a node gets to be ready
_LINGER = 5.0  # seconds in which the node sends the last reply, which is given after the policy is written
_AWAY = 600  # seconds without its server after which Flower's node gives up
_ARRIVES = 30.0  # seconds that a message which was announced may take
_COUNTED = 90.0  # seconds for which Flower counts a node that was killed as connected, with some to spare
_AGAIN = 5.0  # seconds between two tries to be let in
_FAILED = 2  # Flower's code for a client app that raised
_READY, _REFUSED, _GAVE_UP = "Uvicorn running on", "Failed to activate SuperNode", "Giving up reconnection"
_NOT_LET_IN = (
    "The server does not let this site in: its key is not registered there, or a node with the same key counts as "
    "connected (one that was killed does for a minute)."
)


@dataclass(frozen=True)
class SiteCredentials:
    """What a site needs to know its server and to prove itself: ca.crt and its own private key."""

    authority: Path
    key: Path


def take_part(
    settings: Path, *, site: str, server: str, credentials: SiteCredentials | None, home: Path, tell: Tell
) -> None:
    """Answer the server at HOST:PORT as a site until its policy is written; ``home`` holds Flower's files and logs.

    Without ``credentials`` nothing is encrypted. Raises where the server is not the right one, where Flower's node
    ends, and where the published result is not believed. ``tell`` is told what happens at the site.
    """
    check_server(server, None if credentials is None else credentials.authority)
    ends: list[Event] = []

    def note(event: Event) -> None:
        tell(event)
        if event.kind in ("policy", "forged"):
            ends.append(event)

    app = client_app(lambda context: partial(answer_on_disk, str(settings), tell=note))
    variables, port = environment(home, os.environ), free_port()
    command = [executable("flower-supernode", variables), "--superlink", server, "--isolation", "process"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-wait-time", str(_AWAY)]
    command += ["--node-config", node_config({"site": site, "settings": str(settings.resolve())})]
    if credentials is None:
        command.append("--insecure")
    else:
        command += ["--root-certificates", str(credentials.authority.resolve())]
        command += ["--auth-supernode-private-key", str(credentials.key.resolve())]
    until, said = time.monotonic() + _COUNTED, False
    while not ends:
        with child("supernode", command, home, variables) as node:
            try:
                _answer_tasks(node, f"127.0.0.1:{port}", app, lambda: bool(ends))
                time.sleep(_LINGER)
            except RunError:
                if _REFUSED not in node.text() or time.monotonic() > until:
                    raise
                if not said:
                    tell(Event("refused", f"{_NOT_LET_IN} It is tried again for {_COUNTED:.0f} s."))
                said = True
                time.sleep(_AGAIN)
    if ends[0].kind == "forged":
        raise RunError(ends[0].sentence)


def _answer_tasks(node: Child, address: str, app: ClientApp, done: Callable[[], bool]) -> None:
    """Answer the node's tasks one after the other until all is done."""
    try:
        node.wait_for(_READY, _START)
        with _connection(address, None) as runtime:
            while not done():
                node.check()
                claim = runtime.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
                if not (claim.HasField("task") and claim.token):
                    time.sleep(_POLL)
                    continue
                with _connection(address, claim.token) as task:
                    _answer(task, app)
    except (RunError, httpx.HTTPError) as error:
        raise RunError(_node_failure(node, error)) from None


def _answer(task: RuntimeHttpClient, app: ClientApp) -> None:
    """Answer one task, with heartbeats meanwhile."""
    # Flower's own function would end the process at a refused heartbeat
    heartbeat = HeartbeatSender(lambda: task.SendTaskHeartbeat(SendTaskHeartbeatRequest()) is not None)
    heartbeat.start()
    pull, until = task.PullObject, time.monotonic() + _ARRIVES

    def in_time(request: PullObjectRequest) -> PullObjectResponse:
        # Where the server was killed while it sent, the announcement is all there is: Flower awaits the rest for hours.
        if time.monotonic() > until:
            raise ObjectPullError(request.object_id, f"it is not here after {_ARRIVES:g} s")
        return pull(request)

    task.PullObject = in_time  # type: ignore[method-assign]
    try:
        message, context, _, _ = pull_task_input(task)  # the last is the code that came with the run: not looked at
        push_message(task, reply_to(app, message, context), context)
        push_task_output(task, context, "completed", "")
    except (httpx.HTTPStatusError, ObjectPullError, ObjectPushError, RuntimeError):  # the node has dropped the task
        time.sleep(_POLL)
    finally:
        heartbeat.stop()


def reply_to(app: ClientApp, message: Message, context: Context) -> Message:
    """Return the app's reply; a message it does not know, or a failure, gets an error without any text."""
    try:
        return app(message, context)
    except Exception:  # its text may hold data
        return Message(Error(_FAILED, ""), reply_to=message)


def _connection(address: str, token: str | None) -> RuntimeHttpClient:
    """Return a client of the node's own interface, which listens on loopback alone."""
    identity = [] if token is None else [RuntimeTokenHttpInterceptor(token)]
    version = RuntimeVersionHttpInterceptor(component_name="flwr-clientapp")
    return RuntimeHttpClient.from_server_address(
        server_address=address, insecure=True, root_certificates=None, interceptors=[version, *identity]
    )


def _node_failure(node: Child, error: Exception) -> str:
    """Return why a node ended, for the people at its site, and what to do."""
    text = node.text()
    if _REFUSED in text:
        return f"{_NOT_LET_IN} Have the server's people check NAME.pub; then start the same command again."
    if _GAVE_UP in text:
        return (
            f"The server has not answered for {_AWAY} s, and Flower's node gave up. If the run goes on, start the same "
            "command again; if it has ended without this site, ask the server's people for result.json and make the "
            "policy with logofair federate join."
        )
    return f"{error} Start the same command again when that is mended."
