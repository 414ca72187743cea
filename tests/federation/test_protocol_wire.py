"""Bytes and sums: what is said comes back as it was, rubbish is refused, and nothing grows with the rows of a site."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.federation import ClientBatch, Server, SiteColumns, make_plan
from logofair.federation.exchange import Body, Request, Sums, reply_form
from logofair.federation.exchanges.rounds import TotalsRequest
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.plan import Plan
from logofair.records import decode, encode
from logofair.solvers.algorithm1 import Algorithm1
from support.examples import examples
from support.sites import Tampered, clients, federation, go, plan_of, rows

pytestmark = pytest.mark.federation

REPLIES = [kind for kind in Body.classes.values() if is_dataclass(kind) and issubclass(kind, Sums)]

KINDS = {"f": np.float64, "i": np.int64, "u": np.uint64, "b": np.bool_}


def an_array(kind):
    """Arrays of one type, some of them empty."""
    shape, seed = st.lists(st.integers(0, 3), max_size=3), st.integers(0, 2**32 - 1)
    return st.tuples(shape, seed).map(
        lambda made: np.random.default_rng(made[1]).integers(0, 2**62, made[0]).astype(KINDS[kind])
    )


@dataclass(frozen=True)
class Everything:
    """A record with all that a record may hold."""

    text: str
    number: float
    whole: int
    known: bool
    raw: bytes
    label: Hashable
    floats: npt.NDArray[np.float64]
    places: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]
    marks: npt.NDArray[np.bool_]
    several: tuple[Everything, ...] = ()
    by_name: Mapping[str, float | None] = field(default_factory=dict)


finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(codec="utf-8"))
labels = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | names,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
values = st.recursive(
    st.builds(
        Everything,
        names,
        finite,
        st.integers(),
        st.booleans(),
        st.binary(max_size=9),
        labels,
        *map(an_array, "fiub"),
        st.just(()),
        st.dictionaries(names, finite | st.none(), max_size=3),
    ),
    lambda inner: st.builds(replace, inner, several=st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)


def same(one, other):
    """Equality to the bit, arrays and types included."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, float):
        return type(other) is float and math.copysign(1.0, one) == math.copysign(1.0, other) and one == other
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if is_dataclass(one):
        return type(one) is type(other) and all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return type(one) is type(other) and one == other


@examples(150)
@given(values)
def test_values_come_back_to_the_bit(value):
    assert same(decode(encode(value), Everything), value)


def some_messages():
    """Real messages of all sorts."""
    heard = []
    for options in ({"calibration": "platt"}, {"solver": Algorithm1(rounds=1)}, {"notion": "equalized_odds"}):
        transport = Tampered(clients(federation((20, 15))))
        go(plan_of(**options), transport)
        heard += [m for _, m in transport.heard] + [m for _, m in transport.sent]
    return heard


@examples(300)
@given(st.sampled_from(some_messages()), st.data())
def test_damaged_messages_raise_nothing_but_input_errors(message, data):
    cut = data.draw(st.integers(0, len(message)))
    broken = bytearray(message[:cut] if data.draw(st.booleans()) else message)
    for _ in range(data.draw(st.integers(0, 4))):
        if broken:
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    for kind in (RequestMessage, ReplyMessage):
        with contextlib.suppress(InputError):
            encode(decode(bytes(broken), kind))  # whatever can be read can be written again


@examples(200)
@given(st.binary(max_size=60))
def test_random_bytes_raise_nothing_but_input_errors(data):
    for message in (data, len(data).to_bytes(4, "big") + data):
        with contextlib.suppress(InputError):
            encode(decode(message, RequestMessage))


def headed(head, blobs=b""):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(text).to_bytes(4, "big") + text + blobs


@pytest.mark.parametrize(
    "message",
    [
        headed({"#": "f", "shape": [2**40, 2**40]}),
        headed({"#": "f", "shape": [2**61]}, b"12345678"),
        headed({"#": "f", "shape": [-1, -8]}, b"12345678"),
        headed({"#": "f", "shape": [1.0]}, b"12345678"),
        headed({"#": "f", "shape": [True]}, b"12345678"),
        headed({"#": "f", "shape": "x"}, b"12345678"),
        headed({"#": "f", "shape": [1] * 100}, b"12345678"),
        headed({"#": "O", "shape": [1]}, b"12345678"),
        headed({"#": "bytes", "shape": []}),
        headed({"#": "bytes", "shape": [10**12]}),
        headed({"#": ["f"], "shape": [1]}),
        headed(b'{"is":"Steps"' + b"[" * 50_000),
        headed(b"[" * 200_000),
        headed(b"NaN"),
        headed(b"[1e999]"),
        headed(b"[-Infinity]"),
        headed(b'["\\ud800"]'),
        headed(b'{"text":"\\udfff"}'),
        headed(b"1" * 5000),
        headed(b'"\xff"'),
        headed([1], b"left over"),
        b"\xff\xff\xff\xff[]",
        b"",
        b"abc",
        "text",
        None,
    ],
)
def test_hostile_heads_are_refused(message):
    with pytest.raises(InputError, match="message"):
        decode(message, Everything)
    with pytest.raises(InputError, match="message"):
        decode(message, ReplyMessage)


def test_a_text_that_would_fill_the_memory_is_not_read():
    with pytest.raises(InputError, match="longer than it is, or than any"):
        decode(headed(b"[" + b" " * (1 << 24) + b"]"), Everything)


@pytest.mark.parametrize("place", [{"run": 5}, {"roster": "1"}, {"roster": True}, {"number": 1.0}, {"step": None}])
def test_an_ask_without_a_proper_place_cannot_be_read(place):
    message = {"run": "r", "roster": 1, "number": 1, "request": None}
    assert isinstance(decode(headed(message), RequestMessage), RequestMessage)
    with pytest.raises(InputError):
        decode(headed(message | place), RequestMessage)


@pytest.mark.parametrize(
    "request_",
    [
        {"is": "Popen"},
        {"is": ["TotalsRequest"]},
        {"is": "Request"},
        {"is": "Totals"},
        {"is": "StepsRequest", "mass": 1},
        {"is": "TotalsRequest", "more": 1},
        {"maps": None},
        [],
        "TotalsRequest",
    ],
    ids=str,
)
def test_a_request_of_a_class_that_is_none_cannot_be_read(request_):
    message = {"run": "r", "roster": 1, "number": 1, "request": {"is": "TotalsRequest"}}
    assert isinstance(decode(headed(message), RequestMessage).request, TotalsRequest)
    with pytest.raises(InputError):
        decode(headed(message | {"request": request_}), RequestMessage)


def test_a_name_that_stands_twice_is_refused_wherever_it_stands():
    with pytest.raises(InputError):
        decode(headed(b'{"run":"r","roster":1,"number":1,"number":1,"request":null}'), RequestMessage)


def changed_plan(**fields_):
    """A plan's bytes with other fields, as a hostile server might make them."""
    data = encode(plan_of())
    size = int.from_bytes(data[:4], "big")
    return headed(json.loads(data[4 : 4 + size]) | fields_, data[4 + size :])


@pytest.mark.parametrize(
    "fields_",
    [
        {"folds": 10**9},
        {"folds": 1},
        {"groups": [0]},
        {"groups": [0, 0]},
        {"groups": [0, {"#": "f", "shape": [0]}]},
        {"groups": "FM"},
        {"run": "../../etc"},
        {"run": ""},
        {"calibration": "isotonic"},
        {"calibration": ["beta"]},
        {"secure": 1},
        {"require": ["selection rate gap <= 2 overall"]},
        {"require": ["selection rate  gap <= 0.1 overall"]},
        {"require": ["benefit gap <= 0.1 overall"]},
        {"require": [1]},
        {"looked_at": [["selection rate"]]},
        {"looked_at": [["benefit"], []]},
        {"solver": 3},
        {"training": None},
        {"privacy": {}},
        {"optimality_gap": 0},
        {"rounds": 0},
        {"rounds": 10**9},
        {"trials": 10**9},
        {"trials": -1},
        {"quorum": 0},
        {"seed": -1},
    ],
    ids=str,
)
def test_a_plan_that_could_not_have_been_made_cannot_arrive_either(fields_):
    decode(changed_plan(), Plan)
    with pytest.raises(InputError):
        decode(changed_plan(**fields_), Plan)


def test_a_plan_that_would_keep_its_sites_at_work_for_ever_is_refused():
    with pytest.raises(InputError, match="Algorithm1: rounds: got 1000000000"):
        plan_of(solver=Algorithm1(rounds=10**9))
    with pytest.raises(InputError, match="a federation runs Algorithm 1 corrected; as printed"):
        plan_of(solver=Algorithm1(form="printed"))


@pytest.mark.parametrize("value", [None, "no", [], {}, 0, float("nan")], ids=repr)
def test_no_plan_leaves_secure_sums_out_by_a_value_that_is_no_truth(value):
    with pytest.raises(InputError, match=r"^secure: got .*; pass True or False"):
        make_plan(groups=["F", "M"], secure=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("calibration", np.array([1, 2])),
        ("pooling", np.array([1, 2])),
        ("optimality_gap", 10**400),
        ("rounds", "x" * 5000),
    ],
    ids=["calibration", "pooling", "optimality_gap", "rounds"],
)
def test_whatever_a_plan_is_given_it_refuses_in_a_short_sentence(name, value):
    with pytest.raises(InputError, match=f"^{name}: ") as error:
        make_plan(groups=["F", "M"], **{name: value})
    assert len(str(error.value)) < 300


def test_a_plan_trains_no_model_and_every_site_brings_scores():
    with pytest.raises(InputError, match=r"damaged or of another version of logofair\.$"):
        decode(changed_plan(training=None), Plan)
    with pytest.raises(TypeError, match="training"):
        make_plan(groups=["F", "M"], training=None)
    with pytest.raises(TypeError, match="features"):
        SiteColumns([0, 1], [0.2, 0.4], features=[[1.0], [2.0]])
    with pytest.raises(InputError, match="scores: "):
        ClientBatch.of({"a": SiteColumns([0, 1], None)}, plan_of())


def test_groups_that_cannot_travel_are_refused_when_the_plan_is_made():
    with pytest.raises(InputError, match="groups: 'F' and 'f' differ by capitals"):
        make_plan(groups=["F", "f"])
    for groups in (
        [0, None],
        [0, float("nan")],
        [0, object()],
        [[1], [2]],
        [0, 3j],
        "FM",
        {0, 1},
        [1, True],
        ["F", "f"],
    ):
        with pytest.raises(InputError, match="groups"):
            make_plan(groups=groups)


@pytest.mark.parametrize("where", ["local_tolerance", "global_tolerance"])
def test_a_plan_whose_tolerance_requires_nothing_of_shares_is_refused(where):
    with pytest.raises(InputError, match=f"{where}: .*got 1; .*below 1"):
        make_plan(groups=["F", "M"], **{where: 1.0})


@pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.__name__)
def test_the_statement_covers_every_field_of_a_reply(kind):
    assert list(kind.disclosures()) == [f.name for f in fields(kind)]
    assert all(len(each.meaning) > 10 for each in kind.disclosures().values())
    assert len(REPLIES) == 15


@examples(60)
@given(st.sampled_from(REPLIES), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_sums_add_up_in_any_order_and_travel_as_one_vector(kind, n, seed):
    rng = np.random.default_rng(seed)
    shapes = [tuple(rng.integers(0, 3, int(rng.integers(1, 4))).tolist()) for _ in fields(kind)]

    def one():
        wild = (rng.normal(size=shape) * 10.0 ** rng.integers(-9, 9, shape) for shape in shapes)
        return kind(**{f.name: value for f, value in zip(fields(kind), wild, strict=True)})

    parts = [one() for _ in range(n)]
    total = kind.stacked(parts).total()
    for order in (parts[::-1], [parts[i] for i in rng.permutation(n)]):
        assert same(kind.stacked(order).total(), total)
    back = kind.from_vector(total.vector(), shapes)
    assert same(back, total)
    steps = kind.steps_of(shapes, Request())
    assert total.vector().shape == steps.shape
    assert np.all(steps > 0)
    together = max if kind.__name__ == "Smoothness" else math.fsum  # one step for all: the largest constants count
    for f in fields(kind):
        numbers = [np.ravel(getattr(part, f.name)).tolist() for part in parts]
        assert np.ravel(getattr(total, f.name)).tolist() == list(map(together, zip(*numbers, strict=True)))
        assert np.array_equal(getattr(kind.stacked(parts), f.name)[-1], getattr(parts[-1], f.name))


def replies_of(n, plan):
    """All replies of a site with n rows in a run, decoded."""
    sites = {"a": rows(n, seed=1), "b": rows(700, seed=2)}
    transport = Tampered(clients(sites))
    go(plan, transport)
    return [(site, data) for site, data in transport.sent if site == "a"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"calibration": "platt", "notion": "equalized_odds"},
        {"solver": Algorithm1(rounds=2, local_steps=1)},
    ],
    ids=str,
)
def test_no_reply_grows_with_the_rows_of_the_site_or_holds_anything_but_its_declared_sums(options):
    plan, largest = plan_of(**options), {}
    for n in (600, 1500):  # of fewer rows no sums are asked for
        for _, data in replies_of(n, plan):
            reply = decode(data, ReplyMessage)
            assert isinstance(reply, ReplyMessage)
            assert type(reply.body) in REPLIES
            for f in fields(reply.body):
                largest.setdefault((type(reply.body).__name__, f.name, n), set()).add(
                    getattr(reply.body, f.name).shape[1:]
                )
            assert len(data) < 4096
    kinds = {key[:2] for key in largest}
    assert all(largest[*kind, 600] == largest[*kind, 1500] for kind in kinds)


def test_the_form_of_every_reply_follows_from_the_request_and_the_plan_alone():
    for options in ({"calibration": "beta"}, {"solver": Algorithm1(rounds=1)}, {"notion": "equalized_odds"}):
        plan = plan_of(**options)
        transport = Tampered(clients(federation((25, 15))))
        go(plan, transport)
        asked = [decode(m, RequestMessage) for _, m in transport.heard]
        requests = {message.number: message.request for message in asked}
        for _, data in transport.sent:
            reply = decode(data, ReplyMessage)
            kind, shapes = reply_form(requests[reply.number], plan)
            assert type(reply.body) is kind
            assert [getattr(reply.body, f.name).shape for f in fields(kind)] == shapes


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize(("groups", "calibration"), [(2, "none"), (2, "beta"), (5, "beta")])
def test_messages_stay_within_four_kilobytes_with_forty_sites(notion, groups, calibration):
    """The usual batch of prices; the first messages also carry the plan and the names of all sites."""
    sites = {f"hospital-{i:02d}": rows(12, seed=i, groups=groups) for i in range(40)}
    plan = plan_of(groups=list(range(groups)), notion=notion, calibration=calibration, trials=0, rounds=1)
    server = Server.start(plan, sites)
    assert len(encode(server.message())) <= 4096
    two = Tampered(clients(dict(list(sites.items())[:2])))
    _, steps = go(plan, two)
    names = len(encode(list(sites))) + 200  # what thirty-eight more names add to opening and result
    for step in steps:
        assert step.bytes_back <= 4096
        if step.purpose == "publication" or step.exchange == 1:
            assert step.bytes_out + names <= 4096
        else:
            assert step.bytes_out <= 4096


def test_the_result_published_to_forty_sites_fits_into_four_kilobytes():
    sites = {f"hospital-{i:02d}": rows(6, seed=i) for i in range(40)}
    transport = Tampered(clients(sites))
    result, steps = go(plan_of(notion="equalized_odds", trials=1, rounds=1), transport)
    assert len(result.sites) == 40
    assert max(step.bytes_out for step in steps) <= 4096
    assert max(step.bytes_back for step in steps) <= 4096


def test_the_message_that_opens_a_roster_grows_with_it_only_where_sums_are_secure():
    def size(sites, secure):
        plan = make_plan(groups=[0, 1], secure=secure, local_tolerance=0.02, global_tolerance=0.005, run="bench")
        return len(encode(Server.start(plan, [f"site {i:03d}" for i in range(sites)]).message()))

    assert size(60, False) - size(5, False) < 10  # digits of the number of sites
    assert size(60, True) - size(5, True) > 55 * len("site 000")
