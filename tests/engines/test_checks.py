"""What is looked at before anything runs: real sockets and certificates, in one process."""

from __future__ import annotations

import contextlib
import http.server
import os
import ssl
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from logofair.engines.flower import keys as key_files
from logofair.engines.flower import node
from logofair.engines.flower.keys import check_certificate, check_site_key, make_authority, make_site_key
from logofair.engines.flower.node import _check_clock, _check_server
from logofair.engines.flower.processes import free_port
from logofair.errors import InputError, RunError


class Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(403)
        self.end_headers()

    def log_message(self, *words):
        pass


class Server(http.server.HTTPServer):
    def handle_error(self, *about):
        pass


@contextlib.contextmanager
def listening(keys=None):
    """The address of a server, with the certificate in a folder or without encryption."""
    server = Server(("127.0.0.1", 0), Quiet)
    if keys is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / "server.crt", keys / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two authorities, each with the certificate of a server."""
    made = [tmp_path_factory.mktemp(name) for name in ("ours", "others")]
    for folder in made:
        make_authority(folder)
    return made


def trouble(server, authority, **more):
    """Why a site does not begin, as its people read it."""
    with pytest.raises(RunError) as caught:
        _check_server(server, authority, **more)
    return str(caught.value)


def test_a_server_that_is_there_and_the_right_one_gives_no_trouble(keys):
    with listening(keys[0]) as server:
        _check_server(server, keys[0] / "ca.crt")
    with listening() as server:
        _check_server(server, None)


def test_a_server_that_is_not_there_is_said(keys):
    server = f"127.0.0.1:{free_port()}"
    for authority in (None, keys[0] / "ca.crt"):
        said = trouble(server, authority)
        assert said.startswith(f"No server at {server} (Connection refused): check the address")


def test_another_authority_is_said_with_its_fingerprint(keys):
    with listening(keys[0]) as server:
        said = trouble(server, keys[1] / "ca.crt")
    assert said.startswith("Your certificate authority is not the server's: ")
    assert "SHA-256 " in said


def test_a_certificate_for_another_name_is_said(keys, monkeypatch):
    import socket

    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: look_up("127.0.0.1", *rest, **more))
    with listening(keys[0]) as server:
        said = trouble(f"fair.example.org:{server.rpartition(':')[2]}", keys[0] / "ca.crt")
    assert "is not for the name 'fair.example.org'" in said
    assert "keys server --host fair.example.org" in said


def test_encryption_on_one_side_alone_is_said(keys):
    with listening() as server:
        assert "does not encrypt" in trouble(server, keys[0] / "ca.crt")
    with listening(keys[0]) as server:
        assert "pass --keys in place of --insecure" in trouble(server, None)


def test_a_file_that_is_no_certificate_is_said(tmp_path):
    (tmp_path / "ca.crt").write_text("nonsense")
    with pytest.raises(InputError, match="is no certificate"):
        _check_server("127.0.0.1:9", tmp_path / "ca.crt")


def test_an_expired_certificate_is_called_expired_at_both_ends(keys, tmp_path, monkeypatch):
    make_authority(tmp_path, days=0)  # from five minutes ago to five minutes ago
    for name in ("ca.crt", "server.crt"):
        with pytest.raises(InputError, match=r"has expired, on \d{4}-\d\d-\d\d; make a new one"):
            check_certificate(tmp_path / name)
    with pytest.raises(InputError, match=r"ca\.crt has expired"):
        _check_server("127.0.0.1:9", tmp_path / "ca.crt")
    monkeypatch.setattr(node, "check_certificate", lambda path: None)  # as if the server's alone had expired
    with listening(tmp_path) as server:
        said = trouble(server, tmp_path / "ca.crt")
    assert f"The certificate of {server} has expired, by your clock" in said


def test_a_certificate_that_is_not_valid_yet_is_said(keys, monkeypatch):
    import datetime

    class Earlier(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) - datetime.timedelta(days=1)

    monkeypatch.setattr(key_files, "datetime", SimpleNamespace(datetime=Earlier, UTC=datetime.UTC))
    with pytest.raises(InputError, match=r"is not valid before .* check this machine's clock"):
        check_certificate(keys[0] / "ca.crt")


def test_clocks_that_differ_are_said(keys):
    with listening(keys[0]) as server:
        for seconds, words in ((12.0, "12 s ahead of the server's: Flower refuses more than 5"), (-400.0, "behind")):
            said = trouble(server, keys[0] / "ca.crt", now=lambda shift=seconds: time.time() + shift)
            assert words in said.replace("11 s", "12 s").replace("13 s", "12 s")
    _check_clock(None, 0.0)
    _check_clock("yesterday", 0.0)


def test_a_sites_key_is_checked_with_its_public_half(tmp_path):
    private, public = make_site_key(tmp_path, "north")
    other, _ = make_site_key(tmp_path, "south")
    check_site_key(private)
    check_site_key(make_site_key(tmp_path, "north.1")[0])  # whose public half is north.1.pub, not north.pub
    public.write_bytes(other.with_suffix(".pub").read_bytes())
    with pytest.raises(InputError, match=r"north is not the private key of .*north\.pub, which the server has"):
        check_site_key(private)
    if os.name == "posix":
        private.chmod(0o640)
        with pytest.raises(InputError, match=r"others may read .*north, a private key: chmod 600 .*north"):
            check_site_key(private)
    for text in (b"nonsense", b""):
        (tmp_path / "odd").write_bytes(text)
        os.chmod(tmp_path / "odd", 0o600)
        with pytest.raises(InputError, match=r"odd is no elliptic-curve key in OpenSSH format"):
            check_site_key(tmp_path / "odd")


def test_every_check_comes_before_flowers_node_is_started(keys, tmp_path, monkeypatch):
    private, _ = make_site_key(tmp_path, "north")

    def started(*_):
        pytest.fail("the node was started")

    monkeypatch.setattr(node, "child", started)
    place = {"site": "north", "home": tmp_path / "flower", "tell": lambda event: None}
    server = f"127.0.0.1:{free_port()}"
    for authority, key, error, words in (
        (private, private, InputError, "is no certificate"),
        (keys[0] / "ca.crt", private, RunError, "No server at"),
    ):
        with pytest.raises(error, match=words):
            node.take_part(tmp_path / "s", server=server, credentials=node.SiteCredentials(authority, key), **place)
    with pytest.raises(RunError, match="No server at"):
        node.take_part(tmp_path / "s", server=server, credentials=None, **place)
    assert not (tmp_path / "flower").exists()
