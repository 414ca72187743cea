"""What a site, and a server, look at before anything runs: keys, certificates, names, dates and clocks.

Flower's node tries for ever and in silence, or ends with an error of its own. So a site looks for itself, once, with a
request that asks for nothing: is the server there, is it the right one, do the clocks agree? Each check raises with one
sentence for the people who can do something about it.
"""

from __future__ import annotations

import datetime
import email.utils
import hashlib
import os
import shlex
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from logofair.errors import InputError, RunError

_AHEAD, _BEHIND = 5.0, 305.0  # seconds by which Flower (1.41) lets a site's clock be off
_PATIENCE = 10.0  # seconds for an answer
_OTHER_NAME, _EXPIRED, _TOO_EARLY = (62, 64), 10, 9  # what OpenSSL says of a certificate


def check_private(key: Path) -> None:
    """Raise where others may read a private key."""
    if os.name == "posix" and key.stat().st_mode & 0o077:
        raise InputError(
            f"--keys: others may read {key}, a private key: chmod 600 {shlex.quote(str(key))}, or make a new one if "
            "others have read it."
        )


def check_site_key(key: Path) -> None:
    """Raise unless a file holds a site's private key, and that of the NAME.pub beside it, where there is one."""
    check_private(key)
    try:
        found = load_ssh_private_key(key.read_bytes(), password=None)
    except (ValueError, TypeError, OSError):
        found = None
    if not isinstance(found, EllipticCurvePrivateKey):
        raise InputError(
            f"--key: {key} is no elliptic-curve key in OpenSSH format without a passphrase; make one with logofair "
            "federate keys site."
        )
    public, beside = found.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH), key.with_suffix(".pub")
    if beside.is_file() and beside.read_bytes().split()[:2] != public.split():
        raise InputError(f"--key: {key} is not the private key of {beside}, which the server has; find the right one.")


def check_certificate(path: Path) -> None:
    """Raise unless a file holds a certificate that is valid now, by this machine's clock."""
    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise InputError(f"--keys: {path} is no certificate; make one with logofair federate keys server.") from None
    now = datetime.datetime.now(datetime.UTC)
    if now > found.not_valid_after_utc:
        raise InputError(
            f"--keys: the certificate {path} has expired, on {found.not_valid_after_utc:%Y-%m-%d}; make a new one with "
            "logofair federate keys server, and give ca.crt to every site."
        )
    if now < found.not_valid_before_utc:
        raise InputError(
            f"--keys: the certificate {path} is not valid before {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; "
            "check this machine's clock."
        )


def check_server(server: str, authority: Path | None, *, now: Callable[[], float] = time.time) -> None:
    """Ask the server at HOST:PORT for nothing; raise where it is not there, not the right one, or of another time.

    ``authority`` is the site's ca.crt, None for a server without encryption.
    """
    if authority is not None:
        check_certificate(authority)
    verify = False if authority is None else ssl.create_default_context(cafile=str(authority))
    address = f"{'http' if authority is None else 'https'}://{server}/"
    proxies = not server.startswith(("127.", "localhost:"))  # as in the environment of Flower's own commands
    try:
        with httpx.Client(verify=verify, timeout=_PATIENCE, trust_env=proxies) as client:
            answer = client.get(address)
    except httpx.HTTPError as error:
        raise RunError(_trouble_of(error, server, authority)) from None
    check_clock(answer.headers.get("date"), now())


def check_clock(date: str | None, now: float) -> None:
    """Compare this machine's clock with the server's, which has told its time in whole seconds.

    Examples
    --------
    >>> check_clock("Thu, 01 Jan 1970 00:01:00 GMT", 62.0)
    >>> check_clock("Thu, 01 Jan 1970 00:01:00 GMT", 72.5)
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


def _trouble_of(error: httpx.HTTPError, server: str, authority: Path | None) -> str:
    """What an error of the connection means, and what to do."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            assert authority is not None
            return _bad_certificate(cause.verify_code, server, authority)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return (
            f"{server} does not encrypt: it is a server started with --insecure, or another program. Check the address "
            "with the server's people."
        )
    if authority is None and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return f"{server} wants encryption, or is no federation's server; pass --keys in place of --insecure."
    why = next((cause.strerror for cause in reversed(causes) if isinstance(cause, OSError) and cause.strerror), None)
    silent = f"no answer within {_PATIENCE:.0f} s" if isinstance(error, httpx.TimeoutException) else str(error)
    reason = " ".join((why or silent).split())[:120]
    return f"No server at {server} ({reason}): check the address, and start this command once the server runs."


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
