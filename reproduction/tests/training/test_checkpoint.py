"""Training states on disk: a round trip to the bit, and one sentence for every file that is no such state."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logofair.errors import InputError
from logofair.notions import EQUALIZED_ODDS
from logofair_reproduction.training import (
    FCFL,
    FairFed,
    FedAvg,
    FedFB,
    Schedule,
    TrainingState,
    build_network,
    make_rows,
    train,
)
from logofair_reproduction.training.checkpoint import load_state, save_state
from logofair_reproduction.training.methods import Method
from made.problems import biased, last, same_bits

pytestmark = pytest.mark.training

SETTINGS = {"method": "fairfed", "beta": 0.5, "hidden": None, "rounds": [1, 2]}
DAMAGED = r"^{}: is no training state of logofair, or is damaged; remove it and train afresh\.$"


def a_state(method: Method | None = None) -> TrainingState:
    method = method or FairFed(debias="fairbatch")
    return last(train(method, build_network("logistic", (3,)), biased(60), rounds=2, schedule=Schedule(local_epochs=1)))


def damaged(path: Path) -> str:
    return DAMAGED.format(path)


def arrays_of(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return dict(file)


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of a stored state."""
    arrays = arrays_of(path)
    header = json.loads(arrays["header"].tobytes())
    change(header)
    np.savez(path, **{**arrays, "header": np.frombuffer(json.dumps(header).encode(), np.uint8)})


@pytest.mark.parametrize(
    "method",
    [FedAvg(), FairFed(), FairFed(EQUALIZED_ODDS, debias="fairbatch"), FedFB(), FCFL(measure_every=1), FCFL()],
    ids=lambda method: f"{method.name}-{getattr(method, 'debias', method.measure_every)}",
)
def test_a_state_comes_back_to_the_bit(method: Method, tmp_path: Path) -> None:
    state = a_state(method)
    save_state(tmp_path / "state.npz", state, SETTINGS)
    again = load_state(tmp_path / "state.npz", SETTINGS)
    assert same_bits(state, again)
    assert (again.measured.clients, again.measured.groups) == (state.measured.clients, state.measured.groups)


def test_a_run_resumed_from_disk_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    rows, network, method = biased(80), build_network("mlp", (3,), hidden=4), FairFed(debias="fairbatch")
    save_state(tmp_path / "state.npz", last(train(method, network, rows, rounds=2)), {})
    resumed = train(method, network, rows, rounds=4, start=load_state(tmp_path / "state.npz", {}))
    assert same_bits(last(resumed), last(train(method, network, rows, rounds=4)))


def test_names_of_every_kind_come_back(tmp_path: Path) -> None:
    groups, clients = [("F", 1), ("M", 2)] * 2, ["north", "north", 7, 7]
    rows = make_rows(np.eye(4), [0, 1, 1, 0], groups=groups, clients=np.array(clients, dtype=object))
    network = build_network("logistic", (4,))
    state = last(train(FedAvg(), network, rows, rounds=1))
    save_state(tmp_path / "state.npz", state, {})
    again = load_state(tmp_path / "state.npz", {})
    assert again.measured.groups == rows[0].groups == (("F", 1), ("M", 2))
    assert last(train(FedAvg(), network, rows, rounds=2, start=again)).round == 2


def test_a_missing_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.npz: cannot be read \(No such file or directory\); check the path\.$"):
        load_state(tmp_path / "none.npz", {})
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\); check the path\.$"):
        load_state(tmp_path, {})


def test_every_truncated_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    save_state(path, a_state(), SETTINGS)
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=damaged(path)):
            load_state(path, SETTINGS)


def test_a_wrong_byte_anywhere_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    path, state = tmp_path / "state.npz", a_state()
    save_state(path, state, SETTINGS)
    data = path.read_bytes()
    refused = []
    for place in range(0, len(data), 3):
        changed = bytearray(data)
        changed[place] ^= (1, 64, 255)[place % 7 % 3]
        path.write_bytes(changed)
        try:
            assert same_bits(load_state(path, SETTINGS), state)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > len(data) / 3 / 2  # the rest are dates and the like
    assert set(refused) == {f"{path}: is no training state of logofair, or is damaged; remove it and train afresh."}


def test_a_folder_of_the_file_that_leaves_an_array_out_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    save_state(path, a_state(), SETTINGS)
    data = bytearray(path.read_bytes())
    end = data.rindex(b"PK\x05\x06")  # the end of the folder: its numbers of entries, length and place
    last_entry = data.rindex(b"PK\x01\x02")
    for place in (8, 10):
        data[end + place] -= 1
    length = int.from_bytes(data[end + 12 : end + 16], "little") - (end - last_entry)
    data[end + 12 : end + 16] = length.to_bytes(4, "little")
    path.write_bytes(data[:last_entry] + data[end:])
    assert len(arrays_of(path)) > 1
    with pytest.raises(InputError, match=damaged(path)):
        load_state(path, SETTINGS)


def test_foreign_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    archive = io.BytesIO()
    np.savez(archive, parameters=np.zeros(3))
    for data in (b"", b"no state", b"{}", buffer.getvalue(), archive.getvalue(), pickle.dumps({"round": 3})):
        path.write_bytes(data)
        with pytest.raises(InputError, match=damaged(path)):
            load_state(path, {})


@pytest.mark.parametrize("name", ["header", "parameters", "method weights"])
def test_pickled_arrays_are_refused_and_not_run(name: str, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    path = tmp_path / "state.npz"
    save_state(path, a_state(), {})
    trap = np.empty(1, dtype=object)
    trap[0] = Trap()
    np.savez(path, **{**arrays_of(path), name: trap})
    with pytest.raises(InputError, match=damaged(path)):
        load_state(path, {})
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(format="another"),
        lambda header: header.update(settings=None),
        lambda header: header.update(round="soon"),
        lambda header: header.pop("measured_at"),
        lambda header: header.update(clients=["one"]),
        lambda header: header.update(groups=[["list"], "b"]),
        lambda header: header.update(arrays=["parameters"]),
    ],
)
def test_a_damaged_header_is_refused_in_one_sentence(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    save_state(path, a_state(), {})
    rewritten(path, change)
    with pytest.raises(InputError, match=damaged(path)):
        load_state(path, {})


@pytest.mark.parametrize("lost", ["parameters", "measured loss", "method weights", "client 1"])
def test_a_lost_array_is_refused_in_one_sentence(lost: str, tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    save_state(path, a_state(), {})
    arrays = arrays_of(path)
    del arrays[lost]
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=damaged(path)):
        load_state(path, {})


def test_another_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    save_state(path, a_state(), {})
    rewritten(path, lambda header: header.update(version=2))
    with pytest.raises(
        InputError, match=r"is a training state of version 2, and version 1 is read here; train afresh "
    ):
        load_state(path, {})


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({**SETTINGS, "beta": 0.1}, r"beta 0\.5, not 0\.1"),
        ({**SETTINGS, "hidden": 32}, "hidden None, not 32"),
        ({key: SETTINGS[key] for key in ("method", "hidden", "rounds")}, r"beta 0\.5, not None"),
        ({**SETTINGS, "data": "adult"}, "data None, not 'adult'"),
    ],
)
def test_a_state_of_other_settings_is_refused_with_what_differs(
    other: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "state.npz"
    save_state(path, a_state(), SETTINGS)
    with pytest.raises(InputError, match=rf": is of a run with {sentence}; use the same settings, or another file\.$"):
        load_state(path, other)


def test_settings_that_are_equal_as_json_are_the_same_settings(tmp_path: Path) -> None:
    save_state(tmp_path / "state.npz", a_state(), {**SETTINGS, "rounds": (1, 2)})
    assert load_state(tmp_path / "state.npz", {"rounds": [1, 2], **SETTINGS}).round == 2


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_write_leaves_the_older_state_whole_and_nothing_beside_it(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, older = tmp_path / "state.npz", a_state(FedAvg())
    save_state(path, older, {})
    newer = a_state(FedFB())

    def failing(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, broken, failing)
        with pytest.raises(InputError, match=r"cannot be written \(No space left on device\); make room on its disk"):
            save_state(path, newer, {})
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]
    assert same_bits(load_state(path, {}), older)


def test_a_folder_that_is_not_there_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\); choose a folder that "):
        save_state(tmp_path / "none" / "state.npz", a_state(), {})
