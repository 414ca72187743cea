"""Our bytes inside Flower's records, and out again.

One record named ``logofair`` travels in each message. The site's name goes along in both directions, so
that a message that reaches the wrong site, or a reply that comes from it, is never taken for another's.
"""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict

__all__ = ["CARRY", "WHO", "Envelope", "opened", "sealed"]

CARRY = "query.carry"
WHO = "query.who"
_RECORD = "logofair"


@dataclass(frozen=True)
class Envelope:
    """What one Flower message holds for us.

    ``site`` is the site asked, or the site that answers; ``body`` is the message of the federation, or None in
    the query for a name and in a refusal, where a site says no more than that it could not answer.

    Examples
    --------
    >>> opened(sealed(Envelope("north", b"sums")))
    Envelope(site='north', body=b'sums')
    """

    site: str
    body: bytes | None = None


def sealed(envelope: Envelope) -> RecordDict:
    """Return the envelope as the content of a Flower message.

    Examples
    --------
    >>> dict(sealed(Envelope("north", b"sums"))["logofair"])
    {'site': 'north', 'body': b'sums'}
    """
    body = {} if envelope.body is None else {"body": envelope.body}
    return RecordDict({_RECORD: ConfigRecord({"site": envelope.site, **body})})


def opened(content: RecordDict) -> Envelope | None:
    """Return the envelope inside a message's content, or None where there is no sound one.

    Examples
    --------
    >>> opened(RecordDict()) is None
    True
    """
    record = content.config_records.get(_RECORD)
    if record is None:
        return None
    site, body = record.get("site"), record.get("body")
    if not isinstance(site, str) or not isinstance(body, bytes | None):
        return None
    return Envelope(site, body)
