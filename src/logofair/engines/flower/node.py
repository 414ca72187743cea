"""A site's part in Flower: ``flower-supernode`` as a child process, while this process gives the answers.

An ordinary SuperNode executes whatever app the server sends it, so that a site would have to trust the server with its
data. Flower can have the app run outside of the node (``--isolation process``): here, by the client app of the
installed package. Code that came with the run is never loaded.

Where Flower's node cannot connect, it tries again in silence, or ends with an error that says little. So a site sends
an empty request of its own first: is the server there, is it the right one, do the clocks agree?

What is imported from ``flwr.supercore`` and ``flwr.supernode`` is Flower's own side of that option (1.41, 1.42).
"""

from __future__ import annotations

import email.utils
import hashlib
import os
import ssl
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
from logofair.engines.flower.keys import check_certificate
from logofair.engines.flower.processes import Child, child, environment, executable, free_port, node_config
from logofair.engines.site import answer_on_disk
from logofair.errors import RunError

_POLL = 0.2  # seconds between two looks for a task, on this machine
_START = 120.0  # seconds a node gets to be ready
_LINGER = 5.0  # seconds for the node to send the last reply, which it gets after the policy is written
_MAX_WAIT = 600  # seconds without its server after which Flower's node gives up
_DOWNLOAD = 30.0  # seconds to wait for the content of a message that was announced
_STALE = 90.0  # seconds for which Flower takes a node that was killed for connected, with some to spare
_RETRY = 5.0  # seconds between two tries to be let in
_FAILED = 2  # Flower's code for a client app that raised
_AHEAD, _BEHIND = 5.0, 305.0  # seconds by which Flower (1.41) lets a site's clock be off
_TIMEOUT = 10.0  # seconds for the server's answer to the empty request
_OTHER_NAME, _EXPIRED, _TOO_EARLY = (62, 64), 10, 9  # what OpenSSL says of a certificate
# What Flower's node writes in its log when that happens.
_READY, _REFUSED, _GAVE_UP = "Uvicorn running on", "Failed to activate SuperNode", "Giving up reconnection"
_NOT_LET_IN = (
    "The server does not let this site in: its key is not registered there, or a node with the same key counts as "
    "connected (one that was killed does for a minute)."
)


@dataclass(frozen=True)
class SiteCredentials:
    """What a site needs to recognise its server and to prove who it is: the path of ca.crt and of its private key."""

    authority: Path
    key: Path


def take_part(
    settings: Path, *, site: str, server: str, credentials: SiteCredentials | None, home: Path, tell: Tell
) -> None:
    """Answer the server at HOST:PORT as a site until its policy is written; ``home`` holds Flower's files and logs.

    Without ``credentials`` nothing is encrypted. Raises where the server is not the right one, where Flower's node
    ends, and where the site refuses the published result. ``tell`` is told what happens at the site.
    """
    _check_server(server, None if credentials is None else credentials.authority)
    final: list[Event] = []

    def tell_and_keep(event: Event) -> None:
        tell(event)
        if event.kind in ("policy", "forged"):
            final.append(event)

    app = client_app(lambda context: partial(answer_on_disk, str(settings), tell=tell_and_keep))
    variables, port = environment(home, os.environ), free_port()
    command = [executable("flower-supernode", variables), "--superlink", server, "--isolation", "process"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-wait-time", str(_MAX_WAIT)]
    command += ["--node-config", node_config({"site": site, "settings": str(settings.resolve())})]
    if credentials is None:
        command.append("--insecure")
    else:
        command += ["--root-certificates", str(credentials.authority.resolve())]
        command += ["--auth-supernode-private-key", str(credentials.key.resolve())]
    # A node that was killed and comes back is refused until Flower forgets the old one: so it tries that long.
    until, announced = time.monotonic() + _STALE, False
    while not final:
        with child("supernode", command, home, variables) as node:
            try:
                _answer_tasks(node, f"127.0.0.1:{port}", app, lambda: bool(final))
                time.sleep(_LINGER)
            except RunError:
                if _REFUSED not in node.text() or time.monotonic() > until:
                    raise
                if not announced:
                    tell(Event("refused", f"{_NOT_LET_IN} It is tried again for {_STALE:.0f} s."))
                announced = True
                time.sleep(_RETRY)
    if final[0].kind == "forged":
        raise RunError(final[0].sentence)


def _check_server(server: str, authority: Path | None, *, now: Callable[[], float] = time.time) -> None:
    """Send the server at HOST:PORT an empty request; raise if nobody answers, it is not ours, or clocks differ.

    ``authority`` is the site's ca.crt, None for a server without encryption.
    """
    if authority is not None:
        check_certificate(authority)
    verify = False if authority is None else ssl.create_default_context(cafile=str(authority))
    address = f"{'http' if authority is None else 'https'}://{server}/"
    proxies = not server.startswith(("127.", "localhost:"))  # as in the environment of Flower's own commands
    try:
        with httpx.Client(verify=verify, timeout=_TIMEOUT, trust_env=proxies) as client:
            answer = client.get(address)
    except httpx.HTTPError as error:
        raise RunError(_why_unreachable(error, server, authority)) from None
    _check_clock(answer.headers.get("date"), now())


def _check_clock(date: str | None, now: float) -> None:
    """Compare this machine's clock with the server's, which has told its time in whole seconds.

    Examples
    --------
    >>> _check_clock("Thu, 01 Jan 1970 00:01:00 GMT", 62.0)
    >>> _check_clock("Thu, 01 Jan 1970 00:01:00 GMT", 72.5)
    Traceback (most recent call last):
    logofair.errors.RunError: Your clock is 12 s ahead of the server's: Flower refuses more than 5. Set it, ...
    """
    try:
        ahead = now - (email.utils.parsedate_to_datetime(date or "").timestamp() + 0.5)
    except ValueError:
        return
    if ahead > _AHEAD:
        off = f"{ahead:.0f} s ahead of the server's: Flower refuses more than {_AHEAD:.0f}"
    elif ahead < -_BEHIND:
        off = f"{-ahead:.0f} s behind the server's: Flower refuses more than {_BEHIND:.0f}"
    else:
        return
    raise RunError(f"Your clock is {off}. Set it, and start the same command again.")


def _why_unreachable(error: httpx.HTTPError, server: str, authority: Path | None) -> str:
    """A sentence on what a failed connection means, and what to do."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    for each in causes:
        if isinstance(each, ssl.SSLCertVerificationError):
            assert authority is not None
            return _bad_certificate(each.verify_code, server, authority)
    if any(isinstance(each, ssl.SSLError) for each in causes):
        return (
            f"{server} does not encrypt: it is a server started with --insecure, or another program. Check the address "
            "with the server's people."
        )
    if authority is None and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return f"{server} wants encryption, or is no federation's server; pass --keys in place of --insecure."
    why = next((each.strerror for each in reversed(causes) if isinstance(each, OSError) and each.strerror), None)
    silent = f"no answer within {_TIMEOUT:.0f} s" if isinstance(error, httpx.TimeoutException) else str(error)
    reason = " ".join((why or silent).split())[:120]
    return f"No server at {server} ({reason}): check the address, and start this command once the server runs."


def _bad_certificate(code: int, server: str, authority: Path) -> str:
    """A sentence on what is wrong with the server's certificate, and what to do."""
    host = server.rpartition(":")[0]
    if code in _OTHER_NAME:
        return (
            f"The certificate of {server} is not for the name {host!r}: use a name that it is for, or have the "
            f"server's people make one with logofair federate keys server --host {host}."
        )
    if code in (_EXPIRED, _TOO_EARLY):
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return f"The certificate of {server} {when}, by your clock: check your clock, or have a new one made."
    text = authority.read_text(encoding="utf-8", errors="replace")
    first = ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN") :].strip())
    fingerprint = hashlib.sha256(first).digest().hex(":").upper()  # as other tools show it, to be compared aloud
    return (
        f"Your certificate authority is not the server's: {authority} (SHA-256 {fingerprint}) has not signed the "
        f"certificate of {server}. Get ca.crt from the server's people, and compare its fingerprint with theirs; if it "
        "is theirs, somebody else answers at this address."
    )


def _answer_tasks(node: Child, address: str, app: ClientApp, done: Callable[[], bool]) -> None:
    """Answer the node's tasks one after the other until ``done()``; where the node ends, raise with what to do."""
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
        text = node.text()
        if _REFUSED in text:
            words = f"{_NOT_LET_IN} Have the server's people check NAME.pub; then start the same command again."
        elif _GAVE_UP in text:
            words = (
                f"The server has not answered for {_MAX_WAIT} s, and Flower's node gave up. If the run goes on, start "
                "the same command again; if it has ended without this site, ask the server's people for result.json "
                "and make the policy with logofair federate join."
            )
        else:
            words = f"{error} Start the same command again when that is mended."
        raise RunError(words) from None


def _answer(task: RuntimeHttpClient, app: ClientApp) -> None:
    """Answer one task, with heartbeats meanwhile."""
    # Flower's own heartbeat function would end this process when one is refused.
    heartbeat = HeartbeatSender(lambda: task.SendTaskHeartbeat(SendTaskHeartbeatRequest()) is not None)
    heartbeat.start()
    pull, until = task.PullObject, time.monotonic() + _DOWNLOAD

    def in_time(request: PullObjectRequest) -> PullObjectResponse:
        # If the server was killed while it sent, nothing follows the announcement: Flower would wait for hours.
        if time.monotonic() > until:
            raise ObjectPullError(request.object_id, f"it is not here after {_DOWNLOAD:g} s")
        return pull(request)

    task.PullObject = in_time  # type: ignore[method-assign]
    try:
        message, context, _, _ = pull_task_input(task)  # the last is the code that came with the run, never loaded
        push_message(task, _reply_to(app, message, context), context)
        push_task_output(task, context, "completed", "")
    except (httpx.HTTPStatusError, ObjectPullError, ObjectPushError, RuntimeError):  # the node has dropped the task
        time.sleep(_POLL)
    finally:
        heartbeat.stop()


def _reply_to(app: ClientApp, message: Message, context: Context) -> Message:
    """Return the app's reply; where it fails or does not know the message, an error without any text."""
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
