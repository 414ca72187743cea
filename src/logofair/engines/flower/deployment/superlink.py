"""``flower-superlink``, which accepts operators' requests from this machine alone.

Flower answers three kinds of requests on one port: those of the sites' nodes, which node authentication guards;
those that start and list runs; and those of the running server app. The latter two are not
authenticated, and whoever may start a run has the server and every site execute code of his choice. So everything
but the nodes' requests is answered only to this machine.

Run as ``python -m logofair.engines.flower.deployment.superlink`` with the options of ``flower-superlink``.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_NODES = "/v1/fleet/"


def admitted(path: str, peer: str | None, own: str | None) -> bool:
    """Return whether a request may pass: it is a node's, or comes from this machine."""
    if path.startswith(_NODES):
        return True
    if peer is None:
        return False
    try:
        return peer == own or ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False


class _LocalOperatorsOnly:
    """ASGI middleware that answers 403 to operators' requests from other machines."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it without reading it."""
        peer, own = scope.get("client"), scope.get("server")
        path = scope.get("path", "")
        if scope["type"] == "lifespan" or admitted(path, peer[0] if peer else None, own[0] if own else None):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})


def main() -> None:
    """Start the SuperLink, with our middleware as the outermost."""
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    # Flower (1.41, 1.42) has no option to add one.
    inherited = extensions.get_middleware
    extensions.get_middleware = lambda: (Middleware(_LocalOperatorsOnly), *inherited())
    flower_superlink()


if __name__ == "__main__":
    main()
