"""Keys and certificates for a deployment: an authority with the server's certificate, and one key per site.

The server proves itself with a certificate that the consortium's own authority signed; sites check it against
``ca.crt``, the one file of the authority they need. A site proves itself with an elliptic-curve key in OpenSSH's
format, whose public half ``NAME.pub`` the server registers under the site's name. Private files can be read by
their owner alone, and nothing is ever overwritten.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from logofair.errors import InputError

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
    paths = tuple(Path(folder) / name for name in ("ca.crt", "ca.key", "server.crt", "server.key"))
    _refuse_existing(paths)
    names = [_general_name(host) for host in dict.fromkeys((*_LOOPBACK, *hosts))]
    authority_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)  # clocks differ
    validity = (start, start + datetime.timedelta(days=days))
    authority = _authority_certificate(authority_key, validity)
    server = _server_certificate(server_key, authority, authority_key, names, validity)
    Path(folder).mkdir(parents=True, exist_ok=True)
    _write(paths[0], authority.public_bytes(Encoding.PEM), secret=False)
    _write(paths[1], _pem(authority_key), secret=True)
    _write(paths[2], server.public_bytes(Encoding.PEM), secret=False)
    _write(paths[3], _pem(server_key), secret=True)
    return paths[0], paths[1], paths[2], paths[3]


def make_site_key(folder: Path, name: str) -> tuple[Path, Path]:
    """Make the key of one site: ``NAME`` stays at the site, ``NAME.pub`` goes to the server."""
    private, public = Path(folder) / checked_site_name(name), Path(folder) / f"{name}.pub"
    _refuse_existing((private, public))
    key = ec.generate_private_key(ec.SECP384R1())
    Path(folder).mkdir(parents=True, exist_ok=True)
    _write(private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), secret=True)
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    _write(public, line + b" " + name.encode() + b"\n", secret=False)
    return private, public


def _authority_certificate(
    key: ec.EllipticCurvePrivateKey, validity: tuple[datetime.datetime, datetime.datetime]
) -> x509.Certificate:
    """Return the self-signed certificate of the authority."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "LoGoFair federation authority")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _certificate(name, name, key.public_key(), validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA384())
    )


def _server_certificate(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    names: list[x509.GeneralName],
    validity: tuple[datetime.datetime, datetime.datetime],
) -> x509.Certificate:
    """Return the server's certificate, signed by the authority, for all its names."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "LoGoFair federation server")])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        _certificate(name, authority.subject, key.public_key(), validity)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer_key, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA384())
    )


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    validity: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    """Return a certificate without extensions, to be signed."""
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(validity[0]).not_valid_after(validity[1])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return what a key may be used for: an authority's signs certificates, a server's signs handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    """Return a host as an address where it is one, else as a name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host.encode("idna").decode())
    except (UnicodeError, ValueError):
        raise InputError(f"hosts: got {host[:80]!r}, which is neither a host name nor an address.") from None


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM without a passphrase; Flower can ask for none."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _refuse_existing(paths: Iterable[Path]) -> None:
    """Raise if any of the files is there already, before any of them is written."""
    for path in paths:
        if path.exists():
            raise InputError(f"keys: {path} exists already; move it away or choose another folder.")


def _write(path: Path, content: bytes, *, secret: bool) -> None:
    """Write a new file, never readable by others where it is secret."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
