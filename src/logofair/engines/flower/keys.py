"""Keys and certificates for a deployment: an authority with the server's certificate, and one key per site.

The server proves itself with a certificate that the consortium's own authority signed; sites check it against
``ca.crt``, the one file of the authority they need. A site proves itself with an elliptic-curve key in OpenSSH's
format, whose public half ``NAME.pub`` the server registers under the site's name. Private files can be read by
their owner alone, and nothing is ever overwritten. Both sides check their own files before anything runs.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_ssh_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from logofair.errors import InputError
from logofair.federation.secure.primitives import new_signing_key, private_text, public_line

_DAYS = 365
_LOOPBACK = ("localhost", "127.0.0.1")
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def checked_site_name(name: str) -> str:
    """Return the name of a site if it can also name its key; names are shown to the server."""
    if not _SITE_NAME.fullmatch(name) or name.lower().endswith(".pub"):  # NAME is secret, and people hand out *.pub
        raise InputError(
            f"site: the name is {name[:80]!r}; use up to 64 letters, digits, '-', '_' and '.', "
            "starting with a letter or digit and not ending in .pub."
        )
    return name


def make_authority(folder: Path, hosts: Iterable[str] = (), *, days: int = _DAYS) -> tuple[Path, Path, Path, Path]:
    """Make the consortium's authority and the certificate of its server.

    Parameters
    ----------
    folder : path
        Where ``ca.crt``, ``ca.key``, ``server.crt`` and ``server.key`` go. ``ca.crt`` is for everybody; ``ca.key`` is
        needed again only to sign another server certificate and is best kept off the server.
    hosts : iterable of str
        Names and addresses under which sites reach the server; this machine's own (localhost) is always one.
    days : int
        How long the certificates are valid.
    """
    authority_file, authority_secret, server_file, server_secret = paths = (
        folder / "ca.crt",
        folder / "ca.key",
        folder / "server.crt",
        folder / "server.key",
    )
    names = x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys((*_LOOPBACK, *hosts))])
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    signs_handshakes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    _write(
        {
            authority_file: _certificate("authority", authority, authority, days),
            authority_secret: authority.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            server_file: _certificate("server", server, authority, days, names, signs_handshakes, issuer),
            server_secret: server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        },
        secret=(authority_secret, server_secret),
    )
    return paths


def make_site_key(folder: Path, name: str) -> tuple[Path, Path]:
    """Make the key of one site: ``NAME`` stays at the site, ``NAME.pub`` goes to the server."""
    private, public = folder / checked_site_name(name), folder / f"{name}.pub"
    key = new_signing_key()
    line = f"{public_line(key)} {name}\n"
    _write({private: private_text(key).encode(), public: line.encode()}, secret=(private,))
    return private, public


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
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise InputError(
            f"--key: {key} is no elliptic-curve key in OpenSSH format without a passphrase; make one with logofair "
            "federate keys site."
        )
    beside = key.with_name(f"{key.name}.pub")
    if (
        beside.is_file()
        and beside.read_text(encoding="utf-8", errors="replace").split()[:2] != public_line(found).split()
    ):
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


def _certificate(
    who: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
    *extensions: x509.ExtensionType,
) -> bytes:
    """The certificate of a key, signed by the authority: its own, which signs certificates, or another's."""
    subject, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"LoGoFair federation {name}")])
        for name in (who, "authority")
    )
    authority = key is signer
    usage = x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)  # clocks differ
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA384()).public_bytes(Encoding.PEM)


def _general_name(host: str) -> x509.GeneralName:
    """A host as an address where it is one, else as a name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host.encode("idna").decode())
    except (UnicodeError, ValueError):
        raise InputError(f"hosts: got {host[:80]!r}, which is neither a host name nor an address.") from None


def _write(contents: dict[Path, bytes], secret: tuple[Path, ...]) -> None:
    """Write new files in one folder, none where one is there already; secret ones are never readable by others."""
    for path in contents:
        if path.exists():
            raise InputError(f"keys: {path} exists already; move it away or choose another folder.")
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if path in secret else 0o644)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
