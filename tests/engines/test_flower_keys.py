"""Keys and certificates: what Flower and TLS accept, and who may read what."""

from __future__ import annotations

import ipaddress
import ssl
import stat

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from logofair.engines.flower.keys import checked_site_name, make_authority, make_site_key
from logofair.errors import InputError


def handshake(folder, authority, host):
    """A TLS handshake in memory: the server's files on one side, the authority's certificate on the other."""
    server_side, client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=authority)
    server_side.load_cert_chain(folder / "server.crt", folder / "server.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    done = {client: False, server: False}
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
                done[side] = True
            except ssl.SSLWantReadError:
                continue
    return all(done.values())


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "fair.example.org", "10.1.2.3"])
def test_a_site_that_trusts_the_authority_accepts_the_server_under_all_its_names(tmp_path, host):
    make_authority(tmp_path, ["fair.example.org", "10.1.2.3"])
    assert handshake(tmp_path, tmp_path / "ca.crt", host)


def test_a_server_of_another_name_is_refused(tmp_path):
    make_authority(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, tmp_path / "ca.crt", "evil.example.org")


def test_a_server_of_another_authority_is_refused(tmp_path):
    make_authority(tmp_path / "ours")
    make_authority(tmp_path / "theirs")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path / "ours", tmp_path / "theirs" / "ca.crt", "localhost")


def test_the_certificates_are_valid_for_a_year_and_only_the_authority_may_sign_others(tmp_path):
    make_authority(tmp_path, ["localhost", "localhost"])
    authority, server = (
        x509.load_pem_x509_certificate((tmp_path / name).read_bytes()) for name in ("ca.crt", "server.crt")
    )
    for certificate, signs in ((authority, True), (server, False)):
        assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 365
        assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is signs
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]


def test_private_files_are_for_their_owner_alone(tmp_path):
    make_authority(tmp_path)
    make_site_key(tmp_path, "north")
    for name in ("ca.key", "server.key", "north"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_sites_two_files_hold_one_key_in_the_formats_flower_reads(tmp_path):
    private, public = make_site_key(tmp_path, "north")
    key = load_ssh_private_key(private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP384R1)
    assert load_ssh_public_key(public.read_bytes()) == key.public_key()


def test_flower_reads_the_public_key(tmp_path):
    register = pytest.importorskip("flwr.cli.supernode.register")
    _, public = make_site_key(tmp_path, "north")
    assert register.try_load_public_key(public).startswith(b"-----BEGIN PUBLIC KEY-----")


@pytest.mark.parametrize("taken", ["ca.crt", "ca.key", "server.crt", "server.key"])
def test_an_authority_is_never_overwritten_not_even_in_part(tmp_path, taken):
    (tmp_path / taken).write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        make_authority(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == "precious"


@pytest.mark.parametrize("taken", ["north", "north.pub"])
def test_a_sites_key_is_never_overwritten(tmp_path, taken):
    (tmp_path / taken).write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        make_site_key(tmp_path, "north")
    assert [path.name for path in tmp_path.iterdir()] == [taken]


@pytest.mark.parametrize(
    "name", ["", "../north", "a/b", ".hidden", "-x", "a b", "a'b", "x" * 65, "nörd", "a\n", "north.pub", "a.PUB"]
)
def test_a_name_that_could_leave_its_folder_or_its_quotes_is_refused(name):
    with pytest.raises(InputError, match=r"^site: the name is"):
        checked_site_name(name)


def test_a_host_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"^hosts: got"):
        make_authority(tmp_path, ["a" * 70 + ".example.org"])
