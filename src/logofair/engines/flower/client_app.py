"""The client app: takes a request out of a Flower message, lets the site answer it, and packs the reply.

One record named ``logofair`` travels in each message, with the site's name in both directions: a message that reaches
the wrong site, or a reply that comes from it, is never taken for another's. Flower would send the text of an exception
to the server. Here every exception ends in the same empty refusal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

# From the context of a node to the function with which its site answers the bytes of a request.
_Handler = Callable[[Context], Callable[[bytes], bytes]]
# What the server addresses the two queries of the client app by.
MESSAGE_QUERY = "query.message"
NAME_QUERY = "query.name"
_RECORD = "logofair"


@dataclass(frozen=True)
class Envelope:
    """What one Flower message holds for us.

    ``site`` is the site that a request is for, or that a reply is from. ``body`` is the encoded message of the
    federation; it is None where a name is asked for or told, and in a refusal.
    """

    site: str
    body: bytes | None = None


def pack(envelope: Envelope) -> RecordDict:
    """Return the envelope as the content of a Flower message."""
    body = {} if envelope.body is None else {"body": envelope.body}
    return RecordDict({_RECORD: ConfigRecord({"site": envelope.site, **body})})


def unpack(content: RecordDict) -> Envelope | None:
    """Return the envelope inside a message's content, or None where it is missing or malformed."""
    record = content.config_records.get(_RECORD, ConfigRecord())
    site, body = record.get("site"), record.get("body")
    return Envelope(site, body) if isinstance(site, str) and isinstance(body, bytes | None) else None


def _site_of(context: Context) -> tuple[str, str]:
    """Return the name of the site at a node, and the path of its settings.

    A deployed node has both in its own configuration (``--node-config "site='north' settings='north.toml'"``). A
    simulated node has only a number: the run's ``sites`` names a JSON file with one ``{"site": ..., "settings": ...}``
    per number. The server chooses the run's configuration, so a deployed node must never read it.
    """
    node = context.node_config
    if "site" in node or "settings" in node or "partition-id" not in node:
        return str(node.get("site", "")), str(node.get("settings", ""))
    sites = json.loads(Path(str(context.run_config["sites"])).read_text(encoding="utf-8"))
    own = sites[int(node["partition-id"])]
    return str(own["site"]), str(own["settings"])


def _handler_on_disk(context: Context) -> Callable[[bytes], bytes]:
    """Return the function with which a site answers that keeps its state on disk between two messages."""
    from logofair.engines.site import answer_on_disk  # slow to import, and not needed for the name

    return partial(answer_on_disk, _site_of(context)[1])


def client_app(handler: _Handler = _handler_on_disk) -> ClientApp:
    """Return a client app that answers a request's bytes with ``handler(context)(bytes)``."""
    flower_app = ClientApp()

    @flower_app.query("name")
    def name(message: Message, context: Context) -> Message:
        return Message(pack(_answer(message, context, None)), reply_to=message)

    @flower_app.query("message")
    def message_for_site(message: Message, context: Context) -> Message:
        return Message(pack(_answer(message, context, handler)), reply_to=message)

    return flower_app


def _answer(message: Message, context: Context, handler: _Handler | None) -> Envelope:
    """The site's reply; its name alone where there is no handler, and whatever goes wrong."""
    site = ""
    try:
        site = _site_of(context)[0]
        request = unpack(message.content) if site and handler else None
        if handler is None or request is None or request.body is None or request.site != site:
            return Envelope(site)  # a message for another site is never decoded
        return Envelope(site, handler(context)(request.body))
    except Exception:  # its text may hold data
        return Envelope(site)


app = client_app()
