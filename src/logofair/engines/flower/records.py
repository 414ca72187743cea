"""Our bytes inside Flower's records, and out again.

One record named ``logofair`` travels in each message. The site's name goes along in both directions, so
that a message that reaches the wrong site, or a reply that comes from it, is never taken for another's.
"""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict

MESSAGE_QUERY = "query.message"
NAME_QUERY = "query.name"
_RECORD = "logofair"


@dataclass(frozen=True)
class Envelope:
    """What one Flower message holds for us.

    ``site`` is the site that a request is for, or that a reply is from; ``body`` is the message of the federation, or
    None in the query for a name and in a refusal, where a site says no more than that it could not answer.
    """

    site: str
    body: bytes | None = None


def pack(envelope: Envelope) -> RecordDict:
    """Return the envelope as the content of a Flower message."""
    body = {} if envelope.body is None else {"body": envelope.body}
    return RecordDict({_RECORD: ConfigRecord({"site": envelope.site, **body})})


def unpack(content: RecordDict) -> Envelope | None:
    """Return the envelope inside a message's content, or None where there is no sound one."""
    record = content.config_records.get(_RECORD, ConfigRecord())
    site, body = record.get("site"), record.get("body")
    return Envelope(site, body) if isinstance(site, str) and isinstance(body, bytes | None) else None
