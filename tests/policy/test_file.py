"""Policies on disk: what was saved decides alike, and a damaged file says so instead of deciding otherwise."""

from __future__ import annotations

import copy
import datetime
import hashlib
import io
import json
import os
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import logofair
from logofair.calibration import Calibrator
from logofair.errors import InputError
from logofair.files import documents
from logofair.policy.info import PolicyInfo
from logofair.policy.mixtures import Mixtures
from logofair.policy.policy import Policy
from logofair.records import plain
from support.examples import examples

modest = examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
posix = pytest.mark.skipif(os.name != "posix", reason="permissions and links as on POSIX")
ROWS = 120


def make_policy(calibration: str = "beta", notion: str = "equalized_odds", random_state: int = 4) -> Policy:
    rng = np.random.default_rng(1)
    group, site = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS)
    score = rng.beta(1 + group, 2, ROWS)
    return logofair.fit(
        score,
        rng.random(ROWS) < score,
        sensitive_features=np.array(["men", "women"])[group],
        sites=np.array(["Clínica", "Y"])[site],
        notion=notion,
        local_tolerance=0.05,
        global_tolerance=0.01,
        calibration=calibration,
        random_state=random_state,
    ).policy


def labelled(groups: tuple, sites: tuple = (None,)) -> Policy:
    """A mixed policy with given labels."""
    cells = len(groups) * len(sites)
    weight = np.tile([0.6, 0.3, 0.0], (cells, 1))
    threshold = np.tile([0.5, 0.1, 0.0], (cells, 1)) + np.linspace(0.0, 0.3, cells)[:, None]
    single = np.full(cells, 1 / 3)
    single[0] = np.inf
    rules = Mixtures(weight, threshold, np.tile([True, False, True], (cells, 1)), single)
    calibrator = Calibrator("none", len(groups), len(sites), None)
    return Policy(groups, sites, rules, calibrator, None, 7, PolicyInfo(note="π", rows=3))


def contents(policy: Policy) -> dict[str, object]:
    """All a policy is made of, comparable; types of labels included."""
    both = (policy.mixtures, *([] if policy.merged is None else [policy.merged]))
    return {
        "labels": repr((policy.groups, policy.sites)),
        "rules": [getattr(m, name).tolist() for m in both for name in ("weight", "threshold", "above", "single")],
        "calibrator": plain(policy.calibrator),
        "rest": (policy.key, policy.has_sites, policy.info),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[Policy, bytes]:
    policy = make_policy()
    path = tmp_path_factory.mktemp("saved") / "policy.json"
    policy.save(path)
    return policy, path.read_bytes()


@pytest.fixture(scope="module")
def packed(saved, tmp_path_factory) -> tuple[Policy, bytes]:
    """The same policy as if it had many sites: its arrays are packed."""
    path = tmp_path_factory.mktemp("packed") / "policy.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_LISTED", 5)
        saved[0].save(path)
    return saved[0], path.read_bytes()


def load_bytes(data: bytes, tmp_path) -> Policy:
    path = tmp_path / "other.json"
    path.write_bytes(data)
    return Policy.load(path)


def checksum(body: object) -> str:
    """The checksum as the format defines it."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


# ---------------------------------------------------------------- round trips


@pytest.mark.parametrize("calibration", ["beta", "platt", "temperature", "isotonic", "none"])
def test_a_loaded_policy_decides_bit_for_bit_like_the_saved_one(calibration, tmp_path):
    policy = make_policy(calibration)
    policy.save(tmp_path / "policy.json")
    loaded = Policy.load(tmp_path / "policy.json")
    assert contents(loaded) == contents(policy)
    rng = np.random.default_rng(2)
    n = 500
    rows = {
        "scores": rng.random(n),
        "sensitive_features": np.array(policy.groups)[rng.integers(0, 2, n)],
        "sites": np.array([*policy.sites, "elsewhere"])[rng.integers(0, 3, n)],
        "on_unknown": "merged",
    }
    np.testing.assert_array_equal(loaded.probabilities(**rows), policy.probabilities(**rows))
    for how in ({"ids": np.arange(n)}, {"random_state": 3}, {"deterministic": True}):
        np.testing.assert_array_equal(loaded.decide(**rows, **how), policy.decide(**rows, **how))
    assert str(loaded.rules) == str(policy.rules)


@pytest.mark.parametrize(
    ("groups", "sites"),
    [
        (("a", "b"), (None,)),
        ((0, 1), (-5, 2**70)),
        ((False, True), ("x",)),
        ((0.1, 1e300), ("y", "z")),
        ((("x", 1), ("x", (2, None))), ((), ("x",))),
        (("", '\\ " \n \t \u2028 é 王 \U0001f600'), ("NaN", "null")),
        ((1, "1", 1.5, ("1",)), (None,)),
    ],
    ids=repr,
)
def test_labels_come_back_with_their_types(groups, sites, tmp_path):
    policy = labelled(groups, sites)
    policy.save(tmp_path / "policy.json")
    loaded = Policy.load(tmp_path / "policy.json")
    assert contents(loaded) == contents(policy)
    for group in groups:
        for site in sites:
            where = {} if site is None else {"sites": [site]}
            for made in (policy, loaded):
                assert made.decide([0.95], sensitive_features=[group], **where, ids=[1]).tolist() in ([0], [1])


def test_labels_of_numpy_types_are_saved_as_pythons(tmp_path):
    groups = (np.int64(3), np.str_("x"), np.float64(0.5), (np.int8(1), np.bool_(True)))
    labelled(groups).save(tmp_path / "policy.json")
    loaded = Policy.load(tmp_path / "policy.json")
    assert repr(loaded.groups) == "(3, 'x', 0.5, (1, True))"
    assert loaded.groups == groups


labels = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(st.lists(labels, min_size=1, max_size=4, unique=True), st.integers(0, 2**80))
@modest
def test_any_plain_labels_and_key_come_back_or_are_refused(tmp_path, groups, key):
    policy = replace(labelled(tuple(groups)), key=key)
    path = tmp_path / "policy.json"
    try:
        policy.save(path)
    except InputError:
        assert any("\ud800" <= character <= "\udfff" for character in "".join(map(str, groups)))
        return
    assert contents(Policy.load(path)) == contents(policy)


def test_the_file_is_plain_json_with_format_version_and_the_checksum_of_its_contents(saved):
    _, data = saved
    document = json.loads(data)
    assert list(document) == ["format", "version", "checksum", "policy"]
    assert (document["format"], document["version"]) == ("logofair policy", 6)
    assert document["checksum"] == checksum(document["policy"])
    assert "Clínica" in data.decode("utf-8")
    assert document["policy"]["info"]["version"] == logofair.__version__


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("form", ["saved", "packed"])
def test_a_file_cut_short_anywhere_is_refused(form, request, tmp_path):
    _, data = request.getfixturevalue(form)
    for length in [*range(0, len(data), 97), *range(len(data) - 5, len(data))]:
        with pytest.raises(InputError, match=r"other\.json: "):
            load_bytes(data[:length], tmp_path)


@pytest.mark.parametrize("form", ["saved", "packed"])
@given(st.data())
@modest
def test_a_changed_byte_is_noticed_or_changes_nothing(form, request, tmp_path, data):
    policy, file = request.getfixturevalue(form)
    place, mask = data.draw(st.integers(0, len(file) - 1)), data.draw(st.integers(1, 255))
    damaged = bytearray(file)
    damaged[place] ^= mask
    try:
        loaded = load_bytes(bytes(damaged), tmp_path)
    except InputError:
        return
    assert contents(loaded) == contents(policy)


@pytest.mark.parametrize("calibration", ["beta", "isotonic", "none"])
def test_a_policy_whose_arrays_are_packed_is_the_same(calibration, tmp_path, monkeypatch):
    policy = make_policy(calibration)
    monkeypatch.setattr(documents, "_LISTED", 5)
    policy.save(tmp_path / "policy.json")
    with zipfile.ZipFile(tmp_path / "policy.json") as archive:
        document = json.loads(archive.read("document.json"))
        place = document["policy"]["mixtures"]["threshold"]
        raw = archive.read(place["packed"])
    assert document["checksum"] == checksum(document["policy"])
    assert (place["kind"], place["shape"]) == ("<f8", [4, 3])
    # Byte by byte: the first bytes of all cells, then the second ones.
    planes = np.frombuffer(raw, np.uint8).reshape(24, 4)
    assert planes.T.copy().view("<f8").tolist() == policy.mixtures.threshold.tolist()
    again = tmp_path / "again.json"
    policy.save(again)
    assert again.read_bytes() == (tmp_path / "policy.json").read_bytes()
    loaded = Policy.load(again)
    monkeypatch.undo()
    assert contents(loaded) == contents(policy)


def test_a_packed_file_without_its_arrays_or_with_others_is_refused(packed, tmp_path):
    with zipfile.ZipFile(io.BytesIO(packed[1])) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in members:
        for other in (None, b"", members[name][:-1], members[name] + b"\0", bytes(len(members[name]))):
            changed = members | {name: other}
            with pytest.raises(InputError, match=r"other\.json: (its contents do not match|not a policy file)"):
                load_bytes(zipped({name: data for name, data in changed.items() if data is not None}), tmp_path)


def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(packed, tmp_path):
    with pytest.raises(InputError, match=r"other\.json: unpacks to more than 1000 times its size, as no policy does"):
        load_bytes(zipped({"document.json": b" " * (1 << 27)}), tmp_path)


def zipped(members: dict[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return whole.getvalue()


def test_layout_and_line_ends_do_not_matter(saved, tmp_path):
    policy, data = saved
    for other in (json.dumps(json.loads(data)).encode(), data.replace(b"\n", b"\r\n"), data + b"\n"):
        assert contents(load_bytes(other, tmp_path)) == contents(policy)


# ---------------------------------------------------------------- well-formed but wrong


def spoil(path: str, value: object):
    """A change of one entry of the policy, named by its path; the absence of a value removes it."""

    def change(body: dict) -> None:
        *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        target = body
        for step in parents:
            target = target[step]
        if value is ...:
            del target[last]
        else:
            target[last] = value

    return change


KEYS = ("groups", "sites", "key", "mixtures", "merged", "calibrator", "info")
WRONG = [
    *((key, ...) for key in KEYS),
    *((key, "text") for key in KEYS),
    *((key, 3.5) for key in KEYS),
    *((key, None) for key in KEYS if key != "merged"),
    *((f"mixtures.{name}", ...) for name in ("weight", "threshold", "above", "single")),
    *((f"merged.{name}", [[1.0]]) for name in ("weight", "threshold", "above", "single")),
    *((f"mixtures.{name}", {}) for name in ("weight", "threshold", "above", "single")),
    ("groups", []),
    ("groups", ["men", "men"]),
    ("groups", ["men", [{}]]),
    ("groups", ["men", {"list": [1]}]),
    ("groups", ["men", {"tuple": "ab"}]),
    ("groups", {"men": 1, "women": 2}),
    ("groups", "mw"),
    ("groups", ["men", "women", "others"]),
    ("groups", [1, True]),
    ("sites", ["only one"]),
    ("info.site", "north"),
    ("info.site", 1),
    ("info.rows", "3"),
    ("info.certificate.primal", ...),
    ("info.mood", "good"),
    ("info.requirements.require.0", "selection rate gap < 0.02 overall"),
    ("info.certificate.primal", None),
    ("info.certificate.holds", 1),
    ("info.warnings", "few rows"),
    ("info.columns", {"score": 1}),
    ("info.federation", {"run": "spring"}),
    ("info.pooling.prior", "hearsay"),
    ("info.found.0.state", "fine"),
    ("info.found.0.basis", "hope"),
    ("key", True),
    ("key", "4"),
    ("info", []),
    ("mixtures.weight.0", [1.0, 0.0]),
    ("mixtures.weight.0", [0.6, 0.5, 0.0]),
    ("mixtures.weight.0", [1.5, 0.0, 0.0]),
    ("mixtures.weight.0", [-0.1, 0.0, 0.0]),
    ("mixtures.weight.0", ["0.5", 0.0, 0.0]),
    ("mixtures.weight.0", [None, 0.0, 0.0]),
    ("mixtures.weight.0.0", 10**400),
    ("mixtures.threshold.0.0", 1.5),
    ("mixtures.threshold.0.0", -0.5),
    ("mixtures.threshold.0.0", [0.5]),
    ("mixtures.above.0.0", 1),
    ("mixtures.above.0", ["x", "y", "z"]),
    ("mixtures.single", [0.5]),
    ("mixtures.single.0", 2.0),
    ("mixtures.single.0", "0.5"),
    ("mixtures.single.0", "-Infinity"),
    ("mixtures.single.0", "NaN"),
    ("mixtures.single.0", None),
    ("mixtures.threshold.0.0", "Infinity"),
    ("merged.weight.0", [0.6, 0.6, 0.0]),
    ("calibrator.method", "magic"),
    ("calibrator.n_groups", 3),
    ("calibrator.n_sites", 10**9),
    ("calibrator.maps", None),
    ("calibrator.maps.is", "IsotonicMaps"),
    ("calibrator.maps.is", "Calibrator"),
    ("calibrator.maps.is", ...),
    ("calibrator.maps.method", "magic"),
    ("calibrator.maps.parameters", [[1.0, 1.0, 0.0]]),
    ("calibrator.maps.parameters.0", ["1", 1.0, 0.0]),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=repr)
def test_wrong_contents_are_refused_by_one_sentence_even_under_a_right_checksum(saved, path, value, tmp_path):
    document = copy.deepcopy(json.loads(saved[1]))
    spoil(path, value)(document["policy"])
    document["checksum"] = checksum(document["policy"])
    with pytest.raises(InputError) as error:
        load_bytes(json.dumps(document).encode(), tmp_path)
    sentence = str(error.value)
    assert sentence.startswith(str(tmp_path / "other.json"))
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_other_calibrators_than_the_labels_are_refused(tmp_path):
    policy = labelled(("a", "b"))
    with pytest.raises(InputError, match="its calibrator is for other groups or sites"):
        replace(policy, calibrator=Calibrator("none", 3, 1, None)).save(tmp_path / "policy.json")


# ---------------------------------------------------------------- reading and writing


@pytest.mark.parametrize(
    "policy",
    [
        labelled(("a", float("inf"))),
        labelled(("a", ("b", float("nan")))),
        labelled(("a", "\udcff")),
        labelled(("a", 10**5000)),
    ],
    ids=range(4),
)
def test_a_policy_json_cannot_hold_is_refused_and_leaves_the_old_file(policy, tmp_path):
    path = tmp_path / "policy.json"
    labelled(("a", "b")).save(path)
    with pytest.raises(InputError, match=r"^save: the policy holds a label or value that JSON cannot hold"):
        policy.save(path)
    assert Policy.load(path).groups == ("a", "b")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("label", [b"x", 1j, frozenset([1]), datetime.date(2020, 1, 1), ("x", b"y")], ids=repr)
def test_labels_json_has_no_form_for_are_refused_by_name(label, tmp_path):
    with pytest.raises(InputError, match=r"^save: group .* is of type .*; only text, numbers and tuples can be saved"):
        labelled(("a", label)).save(tmp_path / "policy.json")
    assert list(tmp_path.iterdir()) == []


def test_reading_and_writing_need_no_pickle(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pickle", None)  # importing it would fail
    labelled(("a", "b")).save(tmp_path / "policy.json")
    assert Policy.load(tmp_path / "policy.json").groups == ("a", "b")
