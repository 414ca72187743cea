"""Whether a site can talk to its server, and if not why, in words for the people at the site.

Flower's node tries for ever and in silence, or ends with an error of its own. So a site looks for itself, with a
request that asks for nothing: is the server there, is it the right one, do the clocks agree?
"""

from __future__ import annotations

import email.utils
import hashlib
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

__all__ = ["Trouble", "clock_trouble", "trouble_with"]

_AHEAD, _BEHIND = 5.0, 305.0  # seconds by which Flower (1.41) lets a site's clock be off
_PATIENCE = 5.0  # seconds for an answer
_OTHER_NAME, _EXPIRED, _TOO_EARLY = (62, 64), 10, 9  # what OpenSSL says of a certificate


@dataclass(frozen=True)
class Trouble:
    """Why a site cannot talk to its server; ``lasting``: trying again is of no use before somebody does something."""

    sentence: str
    lasting: bool = False


def trouble_with(server: str, authority: Path | None, *, now: Callable[[], float] = time.time) -> Trouble | None:
    """Ask the server at HOST:PORT for nothing; return what is wrong, None where all is well.

    ``authority`` is the site's ca.crt, None for a server without encryption.
    """
    try:
        verify = ssl.create_default_context(cafile=str(authority)) if authority is not None else False
    except (OSError, ssl.SSLError):
        return Trouble(f"{authority} is no certificate; get ca.crt again from the server's people.", lasting=True)
    address = f"{'http' if authority is None else 'https'}://{server}/"
    proxies = not server.startswith(("127.", "localhost:"))  # as in the environment of Flower's own processes
    try:
        with httpx.Client(verify=verify, timeout=_PATIENCE, trust_env=proxies) as client:
            answer = client.get(address)
    except httpx.HTTPError as error:
        return _trouble_of(error, server, authority)
    return clock_trouble(answer.headers.get("date"), now())


def clock_trouble(date: str | None, now: float) -> Trouble | None:
    """Compare this machine's clock with the server's, which has told its time in whole seconds.

    Examples
    --------
    >>> clock_trouble("Thu, 01 Jan 1970 00:01:00 GMT", 62.0)
    >>> print(clock_trouble("Thu, 01 Jan 1970 00:01:00 GMT", 72.5).sentence)
    Your clock is 12 s ahead of the server's: Flower refuses more than 5. Set it, and start the same command again.
    """
    try:
        ahead = now - (email.utils.parsedate_to_datetime(date or "").timestamp() + 0.5)
    except ValueError:
        return None
    if ahead > _AHEAD:
        off = f"{ahead:.0f} s ahead of the server's: Flower refuses more than {_AHEAD:.0f}"
    elif ahead < -_BEHIND:
        off = f"{-ahead:.0f} s behind the server's: Flower refuses more than {_BEHIND:.0f}"
    else:
        return None
    return Trouble(f"Your clock is {off}. Set it, and start the same command again.", lasting=True)


def _trouble_of(error: httpx.HTTPError, server: str, authority: Path | None) -> Trouble:
    """What an error of the connection means."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            assert authority is not None
            return Trouble(_bad_certificate(cause.verify_code, server, authority), lasting=True)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return Trouble(
            f"{server} does not encrypt: it is a server started with --insecure, or another program. Check the address "
            "with the server's people.",
            lasting=True,
        )
    if authority is None and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return Trouble(
            f"{server} wants encryption, or is no federation's server; pass --keys in place of --insecure.",
            lasting=True,
        )
    why = next((cause.strerror for cause in reversed(causes) if isinstance(cause, OSError) and cause.strerror), None)
    silent = f"no answer within {_PATIENCE:.0f} s" if isinstance(error, httpx.TimeoutException) else str(error)
    return Trouble(f"Cannot reach {server} ({' '.join((why or silent).split())[:120]}), trying again.")


def _bad_certificate(code: int, server: str, authority: Path) -> str:
    """What is wrong with the server's certificate, and what to do."""
    host = server.rpartition(":")[0]
    if code in _OTHER_NAME:
        return (
            f"The certificate of {server} is not for the name {host!r}: use a name that it is for, or have the "
            f"server's people make one with logofair federate keys server --host {host}."
        )
    if code in (_EXPIRED, _TOO_EARLY):
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return f"The certificate of {server} {when}, by your clock: check your clock, or have a new one made."
    return (
        f"Your certificate authority is not the server's: {authority} ({_fingerprint(authority)}) has not signed the "
        f"certificate of {server}. Get ca.crt from the server's people, and compare its fingerprint with theirs; if it "
        "is theirs, somebody else answers at this address."
    )


def _fingerprint(certificate: Path) -> str:
    """The first certificate's SHA-256, as people read it to each other."""
    text = certificate.read_text(encoding="utf-8", errors="replace")
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN") :].strip())).hexdigest().upper()
    return "SHA-256 " + ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those behind it."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
