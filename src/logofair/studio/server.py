"""The page on this machine: a server that nobody else can reach, and that leaves nothing behind."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections.abc import Callable
from contextlib import nullcontext
from importlib.resources import files
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from logofair.errors import InputError
from logofair.studio.answers import Wish, answers
from logofair.studio.session import Session

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
_LARGEST = 1 << 20  # bytes of a request
_TABS = 1000  # whose newest wishes are remembered
_STALE = 204  # a newer wish of the same page came meanwhile: there is nothing to say
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_KINDS = {"studio.js": "text/javascript", "studio.css": "text/css", "page.js": "text/javascript"}


class _OnlyFromHere:
    """Lets requests through that this machine's own browser makes of this very page."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse in a sentence."""
        sentence = _foreign(Request(scope))
        app: ASGIApp = self.app if sentence is None else _refusal(sentence)
        await app(scope, receive, send)


def _foreign(request: Request) -> str | None:
    """Why a request is none of this page's; None: it is one.

    A page elsewhere whose name was made to point here has another host, and a page that sends requests here has another
    origin.
    """
    host = request.headers.get("host", "")
    if host.partition(":")[0] not in _NAMES:
        return f"studio: asked for {host[:80]!r}; open the page at the address that the command printed."
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "studio: another page may not ask this one; open the address that the command printed."
    return None


def _refusal(sentence: str) -> Response:
    return PlainTextResponse(f"{sentence}\n", 403, _HEADERS)


def _json(values: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(values), status, _HEADERS, "application/json")


def make_app(session: Session, token: str) -> Starlette:
    """Return the application: the page, its two files, and one address that answers wishes."""
    one_at_a_time, newest = asyncio.Lock(), dict[str, dict[str, int]]()

    def known(given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), token.encode())

    async def page(request: Request) -> Response:
        if not known(request.query_params.get("token")):
            return _refusal("studio: the token is wrong or missing; open the address that the command printed.")
        return Response(_asset("page.html"), 200, _HEADERS, "text/html")

    async def asset(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return Response(_asset(name), 200, _HEADERS, _KINDS[name])

    async def answer(request: Request) -> Response:
        if not known(request.headers.get("x-logofair-token")):
            return _json({"trouble": "studio: the token is wrong or missing; reload from the address printed."}, 403)
        try:
            wish = Wish.read(await _body(request))
        except InputError as error:
            return _json({"trouble": str(error)}, 400)
        turns = newest.setdefault(wish.tab, {})
        turns[wish.what] = max(turns.get(wish.what, 0), wish.turn)
        while len(newest) > _TABS:
            del newest[next(iter(newest))]
        found: dict[str, Any] | None = {}
        steps, last = answers(session, wish), dict[str, Any]()
        while found is not None:
            last = found or last
            async with nullcontext() if wish.is_long else one_at_a_time:
                if wish.is_stale(turns):
                    return Response(None, _STALE, _HEADERS)
                found = await asyncio.to_thread(next, steps, None)
        return _json(last)

    routes = [
        Route("/", page),
        *(Route(f"/{name}", asset) for name in _KINDS),
        Route("/answer", answer, methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_OnlyFromHere)])


async def _body(request: Request) -> Any:
    """What a request holds, as far as it may be that long."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _LARGEST:
            raise InputError(f"studio: this request has more than {_LARGEST:,} bytes; ask for less.")
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise InputError(f"studio: this request is no JSON ({error}); reload the page.") from None


def _asset(name: str) -> bytes:
    return files("logofair.studio").joinpath("static", name).read_bytes()


def serve(session: Session, port: int, ready: Callable[[str], object]) -> None:
    """Serve the page on this machine alone until somebody presses Ctrl-C; ``ready`` gets its address."""
    token = secrets.token_urlsafe(24)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise InputError(
                f"--port: {port} cannot be used ({error.strerror}); leave it out for a free one."
            ) from None
        address = f"http://{HOST}:{listening.getsockname()[1]}/?token={token}"
        config = uvicorn.Config(
            make_app(session, token), log_config=None, lifespan="off", timeout_graceful_shutdown=1, ws="none"
        )
        listening.listen()

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                ready(address)  # once Ctrl-C is listened to

        try:
            Server(config).run(sockets=[listening])
        except KeyboardInterrupt:
            return
