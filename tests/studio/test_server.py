"""The server: for this machine and this page alone, the newest wish first, and nothing left behind."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
import uvicorn

from logofair.errors import InputError
from logofair.studio import server
from logofair.studio.session import Session
from support.studio import START, session

TOKEN = "a-token-of-this-start"


class Reply(NamedTuple):
    """What was answered."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self):
        return json.loads(self.text)


@pytest.fixture(scope="module")
def port():
    """A server of a session in a thread of its own, by its port."""
    with socket.socket() as listening:
        listening.bind((server.HOST, 0))
        listening.listen()
        config = uvicorn.Config(server.make_app(session(), TOKEN), log_config=None, lifespan="off", ws="none")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        yield listening.getsockname()[1]
        running.should_exit = True
        thread.join(30)


@pytest.fixture
def request_of(port):
    """Send a request as any program could."""

    def sent(method, path, body=None, **headers):
        own = {"host": f"127.0.0.1:{port}"} | {name.replace("_", "-"): text for name, text in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(server.HOST, port, timeout=60)
        connection.putrequest(method, path, skip_host=True)
        for name, text in own.items():
            connection.putheader(name, text)
        if data is not None:
            connection.putheader("content-length", str(len(data)))
        connection.endheaders(data)
        reply = connection.getresponse()
        found = Reply(reply.status, {name.lower(): text for name, text in reply.getheaders()}, reply.read().decode())
        connection.close()
        return found

    return sent


@pytest.fixture
def get(request_of):
    return lambda path, token=TOKEN, **headers: request_of(
        "GET", path if token is None else f"{path}?{urlencode({'token': token})}", **headers
    )


@pytest.fixture
def ask(request_of):
    return lambda body, **headers: request_of("POST", "/answer", body, **{"x_logofair_token": TOKEN, **headers})


def test_the_page_its_files_and_its_answers_are_served(get, ask):
    page = get("/")
    assert page.status == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for name in re.findall(r'(?:src|href)="/([a-z.]+)"', page.text):
        assert get(f"/{name}").status == 200
    assert ask({"what": "start"}).json["people"] == "3,000 people, 4 sites"
    solved = ask({"what": "solve", "setting": asdict(START)}).json
    assert solved["verdict"]["word"] in ("MET", "UNCLEAR", "EXCEEDED")


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], "ä"])
def test_a_wrong_token_is_refused_in_a_sentence(get, request_of, token):
    page = get("/", token)
    assert page.status == 403
    assert page.text.count("\n") == 1
    sent = {} if token is None else {"x_logofair_token": token}
    found = request_of("POST", "/answer", {"what": "start"}, **sent)
    assert found.status == 403
    assert "token" in found.json["trouble"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil:80", "[::1"])
def test_another_host_is_refused(get, host):
    assert get("/", host=host).status == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:9"])
def test_another_origin_is_refused(ask, port, origin):
    assert ask({"what": "start"}, origin=origin).status == 403
    assert ask({"what": "start"}, origin=f"http://127.0.0.1:{port}").status == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[1, 2", b'{"what": "rows"}', b"\xff", b"0" * (2 << 20)])
def test_a_bad_request_gets_one_sentence(ask, body):
    found = ask(body)
    assert found.status == 400
    assert found.json["trouble"].startswith("studio: ")


def test_other_addresses_and_methods_hold_nothing(get):
    assert get("/rows").status == 404
    assert get("/../session.py").status == 404
    assert get("/answer").status == 405


def test_of_one_page_only_the_newest_wish_is_answered_and_another_page_waits_its_turn(ask, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    solved = Session.solved

    def slowly(self, setting):
        begun.set()
        assert go_on.wait(20)
        return solved(self, setting)

    monkeypatch.setattr(Session, "solved", slowly)
    found = {}

    def asked(name, tab, turn):
        found[name] = ask({"what": "solve", "tab": tab, "turn": turn, "setting": asdict(START)}).status

    def thread(*own):
        started = threading.Thread(target=asked, args=own)
        started.start()
        return started

    waiting = [thread("old", "one", 1)]
    assert begun.wait(20)
    waiting += [thread("new", "one", 2), thread("other", "two", 1)]
    go_on.set()
    for each in waiting:
        each.join(60)
    assert found["new"] == found["other"] == 200
    assert ask({"what": "solve", "tab": "one", "turn": 1, "setting": asdict(START)}).status == 204
    assert ask({"what": "frontier", "tab": "two", "turn": 0, "setting": asdict(START)}).status == 204


def test_a_port_that_is_taken_is_one_sentence():
    with socket.socket() as taken:
        taken.bind((server.HOST, 0))
        taken.listen()
        with pytest.raises(InputError, match=r"^--port: \d+ cannot be used"):
            server.serve(session(), taken.getsockname()[1], print)


@pytest.mark.tool
def test_ctrl_c_ends_the_command_and_leaves_nothing_behind(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    words = [sys.executable, "-m", "logofair", "studio", "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as running:
        first, second = running.stdout.readline(), running.stdout.readline()
        assert re.search(r"http://127\.0\.0\.1:\d+/\?token=\S{20,}", first), first
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
    assert running.returncode == 0
    assert "Ctrl-C ends it" in second
    assert errors == ""
    assert list(tmp_path.iterdir()) == []
