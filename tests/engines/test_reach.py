"""What a site says when it cannot talk to its server: real sockets and certificates, in one process."""

from __future__ import annotations

import contextlib
import http.server
import ssl
import threading
import time

import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from logofair.engines.flower.deployment.keys import make_authority
from logofair.engines.flower.deployment.reach import clock_trouble, trouble_with
from logofair.engines.flower.deployment.supervision import free_port


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


def test_a_server_that_is_there_and_the_right_one_gives_no_trouble(keys):
    with listening(keys[0]) as server:
        assert trouble_with(server, keys[0] / "ca.crt") is None
    with listening() as server:
        assert trouble_with(server, None) is None


def test_a_server_that_is_not_there_is_tried_again():
    server = f"127.0.0.1:{free_port()}"
    found = trouble_with(server, None)
    assert found.sentence == f"Cannot reach {server} (Connection refused), trying again."
    assert not found.lasting


def test_another_authority_is_said_with_its_fingerprint_and_without_the_advice_to_try_again(keys):
    with listening(keys[0]) as server:
        found = trouble_with(server, keys[1] / "ca.crt")
    assert found.lasting
    assert found.sentence.startswith("Your certificate authority is not the server's: ")
    assert "SHA-256 " in found.sentence
    assert "tries again" not in found.sentence


def test_a_certificate_for_another_name_is_said(keys, monkeypatch):
    import socket

    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: look_up("127.0.0.1", *rest, **more))
    with listening(keys[0]) as server:
        found = trouble_with(f"fair.example.org:{server.rpartition(':')[2]}", keys[0] / "ca.crt")
    assert found.lasting
    assert "is not for the name 'fair.example.org'" in found.sentence
    assert "keys server --host fair.example.org" in found.sentence


def test_encryption_on_one_side_alone_is_said(keys):
    with listening() as server:
        assert "does not encrypt" in trouble_with(server, keys[0] / "ca.crt").sentence
    with listening(keys[0]) as server:
        assert "pass --keys in place of --insecure" in trouble_with(server, None).sentence


def test_a_file_that_is_no_certificate_is_said(tmp_path):
    (tmp_path / "ca.crt").write_text("nonsense")
    assert "is no certificate" in trouble_with("127.0.0.1:9", tmp_path / "ca.crt").sentence


def test_clocks_that_differ_are_said(keys):
    with listening(keys[0]) as server:
        for seconds, words in ((12.0, "12 s ahead of the server's: Flower refuses more than 5"), (-400.0, "behind")):
            found = trouble_with(server, keys[0] / "ca.crt", now=lambda shift=seconds: time.time() + shift)
            assert found.lasting
            assert words in found.sentence.replace("11 s", "12 s").replace("13 s", "12 s")
    assert clock_trouble(None, 0.0) is None
    assert clock_trouble("yesterday", 0.0) is None
