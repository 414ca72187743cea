"""The transport over a grid that is a few lists: no process, no network, a clock that is a number."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.engines.conductor import NoReply
from logofair.errors import InputError

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from logofair.engines.flower.client_app import (
    MESSAGE_QUERY,
    NAME_QUERY,
    Envelope,
    pack,
    unpack,
)
from logofair.engines.flower.server_app import _FlowerTransport, nodes_by_site
from support.examples import examples

Reply = Callable[[Message], Message | None]
TEN = "2026-01-01T10:00:00+00:00"


@pytest.fixture(autouse=True)
def a_run(monkeypatch):
    """Messages can be made only inside a run."""
    monkeypatch.setattr(TaskIdentity, "_run_id", 1)
    monkeypatch.setattr(TaskIdentity, "_node_id", 1)
    monkeypatch.setattr(TaskIdentity, "_task_id", 1)


@dataclass
class FakeGrid:
    """Nodes with a reply function each; a reply is out ``delay`` seconds after its message came in."""

    nodes: dict[int, NodeInfo] = field(default_factory=dict)
    replies: dict[int, Reply] = field(default_factory=dict)
    delay: dict[int, float] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    now: float = 0.0
    sent: list[Message] = field(default_factory=list)
    out: dict[str, tuple[float, Message]] = field(default_factory=dict)

    def add(self, node: int, reply: Reply, *, name: str = "", delay: float = 0.0, started: str = "") -> None:
        self.nodes[node] = NodeInfo(node_id=node, name=name, last_activated_at=started)
        self.replies[node] = reply
        self.delay[node] = delay

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def get_nodes(self) -> Iterable[NodeInfo]:
        return list(self.nodes.values())

    def push_messages(self, messages: Iterable[Message]) -> list[str | None]:
        return [self._take(message) for message in messages]

    def _take(self, message: Message) -> str | None:
        node = message.metadata.dst_node_id
        if node in self.refused:
            return None
        message.metadata.__dict__["_message_id"] = identifier = f"message-{len(self.sent)}"
        self.sent.append(message)
        reply = self.replies[node](message)
        if reply is not None:
            self.out[identifier] = (self.now + self.delay[node], reply)
        return identifier

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        ready = [one for one in message_ids if one in self.out and self.out[one][0] <= self.now]
        return [self.out.pop(one)[1] for one in ready]

    def kinds(self) -> list[str]:
        return [message.metadata.message_type for message in self.sent]


def echo(name: str) -> Reply:
    def reply(message: Message) -> Message:
        if message.metadata.message_type == NAME_QUERY:
            return Message(pack(Envelope(name)), reply_to=message)
        request = unpack(message.content)
        assert request is not None
        assert request.body is not None
        return Message(pack(Envelope(name, request.body + b" from " + name.encode())), reply_to=message)

    return reply


def from_the_server(code: int, reason: str = "") -> Reply:
    """An error made by the server itself: its source is node 1."""

    def reply(message: Message) -> Message:
        made = Message(Error(code, reason), reply_to=message)
        made.metadata.__dict__["_src_node_id"] = 1
        return made

    return reply


@pytest.fixture
def grid():
    return FakeGrid()


def transport(grid: FakeGrid) -> _FlowerTransport:
    return _FlowerTransport(grid, name_timeout=10.0, clock=lambda: grid.now, sleep=grid.sleep)


def test_every_site_gets_its_own_message_and_its_reply_comes_back_under_its_name(grid):
    grid.add(7, echo("north"), delay=0.5)
    grid.add(8, echo("south"), delay=0.1)
    carrier = transport(grid)
    assert carrier.present() == ("north", "south")
    assert carrier.exchange({"north": b"a", "south": b"b"}, 5.0) == {"north": b"a from north", "south": b"b from south"}


@examples(30)
@given(bodies=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=50), min_size=1))
def test_bytes_pass_unchanged(bodies):
    TaskIdentity._run_id = TaskIdentity._node_id = TaskIdentity._task_id = 1
    grid = FakeGrid()
    for node, site in enumerate(bodies, start=2):
        grid.add(node, lambda message: Message(message.content, reply_to=message), name=site)
    assert transport(grid).exchange(bodies, 5.0) == bodies


def test_a_node_is_asked_for_its_name_once(grid):
    grid.add(7, echo("north"))
    carrier = transport(grid)
    carrier.present()
    carrier.present()
    carrier.exchange({"north": b"a"}, 5.0)
    assert grid.kinds() == [NAME_QUERY, MESSAGE_QUERY]


def test_a_name_registered_with_a_key_is_believed_over_what_the_node_says(grid):
    grid.add(7, echo("south"), name="north")
    carrier = transport(grid)
    assert carrier.present() == ("north",)
    assert grid.sent == []
    assert carrier.exchange({"north": b"a"}, 5.0) == {
        "north": NoReply("its node answers for another site; check the name in its settings")
    }


def test_a_site_that_is_not_connected_is_absent_and_nobody_gets_its_message(grid):
    grid.add(7, echo("north"))
    replies = transport(grid).exchange({"north": b"a", "west": b"b"}, 5.0)
    assert replies == {"north": b"a from north", "west": NoReply("it is not connected")}


def test_a_straggler_is_absent_at_the_timeout_and_its_late_reply_is_never_taken_for_the_next_one(grid):
    grid.add(7, echo("north"), name="north", delay=8.0)
    carrier = transport(grid)
    assert carrier.exchange({"north": b"first"}, 5.0) == {"north": NoReply("no reply within 5 seconds", late=True)}
    assert grid.now == pytest.approx(5.0)
    grid.now = 9.0
    grid.delay[7] = 0.0
    assert carrier.exchange({"north": b"second"}, 5.0) == {"north": b"second from north"}


def test_those_in_time_are_kept_when_others_are_late(grid):
    grid.add(7, echo("north"), name="north")
    grid.add(8, echo("south"), name="south", delay=60.0)
    replies = transport(grid).exchange({"north": b"a", "south": b"b"}, 5.0)
    assert replies == {"north": b"a from north", "south": NoReply("no reply within 5 seconds", late=True)}


def test_a_dead_node_is_absent_though_the_error_comes_from_the_server(grid):
    grid.add(7, from_the_server(5), name="north")
    grid.add(8, echo("south"), name="south")
    replies = transport(grid).exchange({"north": b"a", "south": b"b"}, 60.0)
    assert replies == {"north": NoReply("its node stopped reporting to the server"), "south": b"b from south"}
    assert grid.now == pytest.approx(60.0)  # it might have come back


def test_a_site_that_is_away_gets_its_message_when_it_is_back_in_time(grid):
    grid.add(8, echo("south"), name="south")
    carrier, sleep = transport(grid), grid.sleep

    def comes_back(seconds):
        sleep(seconds)
        if grid.now > 20.0 and 7 not in grid.nodes:
            grid.add(7, echo("north"), name="north")

    carrier._sleep = comes_back
    assert carrier.exchange({"north": b"a", "south": b"b"}, 60.0) == {
        "north": b"a from north",
        "south": b"b from south",
    }
    assert grid.now < 35.0
    assert grid.kinds() == [MESSAGE_QUERY, MESSAGE_QUERY]


def test_a_site_started_anew_before_it_replied_gets_the_same_message_again(grid):
    grid.add(7, lambda message: None, name="north")
    grid.nodes[7].last_activated_at = TEN
    carrier, sleep = transport(grid), grid.sleep

    def killed_and_started(seconds):
        sleep(seconds)
        if grid.now > 30.0:
            grid.replies[7] = echo("north")
            grid.nodes[7].last_activated_at = "2026-01-01T10:00:30+00:00"

    carrier._sleep = killed_and_started
    assert carrier.exchange({"north": b"a"}, 60.0) == {"north": b"a from north"}
    assert grid.now < 35.0
    assert grid.kinds() == [MESSAGE_QUERY, MESSAGE_QUERY]


def test_a_site_whose_heartbeats_stop_is_given_up_long_before_the_timeout_and_named(grid):
    said = []
    grid.add(7, lambda message: None, name="north")
    grid.add(8, echo("south"), name="south")
    carrier, sleep = _FlowerTransport(grid, tell=said.append, clock=lambda: grid.now, sleep=grid.sleep), grid.sleep

    def killed(seconds):
        sleep(seconds)
        if grid.now > 60.0:  # Flower takes a node for connected until its heartbeats are missed
            grid.nodes.pop(7, None)

    carrier._sleep = killed
    replies = carrier.exchange({"north": b"a", "south": b"b"}, 600.0)
    assert replies == {"north": NoReply("it is not connected"), "south": b"b from south"}
    assert 90.0 <= grid.now < 95.0
    lost = next(event for event in said if event.kind == "lost")
    assert lost.sentence.startswith("north is not connected; it has 30 s to come back (start its command again)")
    waiting = [event for event in said if event.kind == "waiting"]
    assert waiting[0].sentence == "awaiting north (connected) for 30 s of 600; south answered"
    before = grid.now
    assert carrier.exchange({"north": b"a"}, 600.0)["north"].reason == "it is not connected"
    assert grid.now == before  # it had its time; secure sums ask thrice


def test_a_site_that_was_back_has_its_time_again_when_it_is_lost_once_more(grid):
    said = []
    carrier, sleep = _FlowerTransport(grid, tell=said.append, clock=lambda: grid.now, sleep=grid.sleep), grid.sleep

    def comes_and_goes(seconds):
        sleep(seconds)
        if 10.0 < grid.now < 20.0:
            grid.add(7, lambda message: None, name="north")
        else:
            grid.nodes.pop(7, None)

    carrier._sleep = comes_and_goes
    assert carrier.exchange({"north": b"a"}, 600.0)["north"].reason == "it is not connected"
    assert [event.kind for event in said if event.kind == "lost"] == ["lost", "lost"]
    assert 50.0 <= grid.now < 55.0


@pytest.mark.parametrize("code", range(12))
def test_no_text_of_a_sites_error_gets_through(grid, code):
    grid.add(7, from_the_server(code, "patient 4711"), name="north")
    absent = transport(grid).exchange({"north": b"a"}, 5.0)["north"]
    assert isinstance(absent, NoReply)
    assert "4711" not in absent.reason


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"logofair": ConfigRecord({"site": "north", "body": "text"})}),
        RecordDict({"logofair": ConfigRecord({"body": b"a"})}),
        RecordDict({"other": ConfigRecord({"site": "north", "body": b"a"})}),
    ],
)
def test_a_reply_that_is_none_of_ours_makes_the_site_absent(grid, content):
    grid.add(7, lambda message: Message(content, reply_to=message), name="north")
    assert transport(grid).exchange({"north": b"a"}, 5.0) == {"north": NoReply("its reply is not one of this protocol")}


def test_a_refusal_makes_the_site_absent(grid):
    grid.add(7, lambda message: Message(pack(Envelope("north")), reply_to=message), name="north")
    replies = transport(grid).exchange({"north": b"a"}, 5.0)
    assert replies == {"north": NoReply("it could not answer; its own log says why")}


def test_a_message_the_server_does_not_take_makes_the_site_absent_at_once():
    grid = FakeGrid(refused={7})
    grid.add(7, echo("north"), name="north")
    grid.add(8, echo("south"), name="south")
    replies = transport(grid).exchange({"north": b"a", "south": b"b"}, 5.0)
    assert replies == {"north": NoReply("the server did not accept the message for it"), "south": b"b from south"}


def test_a_node_without_a_name_takes_part_in_nothing(grid):
    grid.add(7, echo(""))
    grid.add(8, echo("south"))
    carrier = transport(grid)
    assert carrier.present() == ("south",)
    assert carrier.exchange({"south": b"a"}, 5.0) == {"south": b"a from south"}
    assert [
        message.metadata.dst_node_id for message in grid.sent if message.metadata.message_type == MESSAGE_QUERY
    ] == [8]


def test_a_node_slow_to_say_its_name_is_found_at_a_later_look_without_being_asked_again(grid):
    grid.add(7, echo("north"), delay=15.0)
    carrier = transport(grid)
    assert carrier.present() == ()
    assert grid.now == pytest.approx(10.0)
    assert carrier.present() == ()
    assert grid.now == pytest.approx(10.0)
    grid.now = 16.0
    assert carrier.present() == ("north",)
    assert grid.kinds() == [NAME_QUERY]


def test_a_node_whose_first_answer_was_an_error_is_asked_again(grid):
    grid.add(7, from_the_server(8))
    carrier = transport(grid)
    assert carrier.present() == ()
    grid.replies[7] = echo("north")
    assert carrier.present() == ("north",)


def test_a_site_back_under_another_node_id_is_found_again(grid):
    grid.add(7, echo("north"))
    carrier = transport(grid)
    assert carrier.present() == ("north",)
    del grid.nodes[7]
    assert carrier.present() == ()
    grid.add(9, echo("north"))
    assert carrier.exchange({"north": b"a"}, 5.0) == {"north": b"a from north"}
    assert grid.sent[-1].metadata.dst_node_id == 9


def test_two_nodes_of_one_name_are_an_error(grid):
    grid.add(7, echo("north"))
    grid.add(8, echo("north"))
    with pytest.raises(InputError, match="2 connected nodes are called 'north'"):
        transport(grid).present()


def a_node(identifier, started, alive):
    """A node, with the seconds at which it connected and gave its last sign of life, two heartbeats before its end."""
    at = datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat()
    return NodeInfo(node_id=identifier, last_activated_at=at, online_until=alive + 60.0, heartbeat_interval=30.0)


def test_a_killed_node_still_counted_as_online_is_not_taken_for_a_second_site():
    old, new = a_node(7, started=0.0, alive=40.0), a_node(9, started=50.0, alive=70.0)
    assert nodes_by_site([old, new], {7: "north", 9: "north"}) == {}
    assert nodes_by_site([new], {7: "north", 9: "north"}) == {"north": new}


def test_an_older_node_that_lives_on_beside_a_newer_one_of_its_name_is_an_error():
    old, new = a_node(7, started=0.0, alive=60.0), a_node(9, started=50.0, alive=50.0)
    with pytest.raises(InputError, match="called 'north'"):
        nodes_by_site([old, new], {7: "north", 9: "north"})


def test_the_name_that_a_key_was_registered_under_comes_before_the_one_a_node_claims():
    node = NodeInfo(node_id=7, name="north")
    assert nodes_by_site([node], {7: "south"}) == {"north": node}
