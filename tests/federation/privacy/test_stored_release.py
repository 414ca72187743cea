"""The same rows are noised once and never again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from logofair.errors import InputError
from logofair.federation.privacy import Privacy, StoredRelease, release_once
from logofair.records import FAULTS, plain, read

ETA, GROUPS = np.array([0.1, 0.8, 0.4, 0.8]), np.array([0, 1, 1, 0])
USUAL = {"n_groups": 2, "privacy": Privacy(1.0, 1e-6, bins=8)}


@pytest.fixture(name="kept")
def _kept():
    return release_once(None, ETA, GROUPS, **USUAL)


def test_the_same_rows_in_any_order_get_the_release_that_was_kept(kept):
    order = [2, 0, 3, 1]
    assert release_once(kept, ETA[order], GROUPS[order], **USUAL) is kept


def test_what_was_kept_comes_back_from_disk_and_is_still_known(kept):
    again = read(json.loads(json.dumps(plain(kept))), StoredRelease)
    np.testing.assert_array_equal(again.release.counts, kept.release.counts)
    assert release_once(again, ETA, GROUPS, **USUAL) is again


CHANGES = [
    ({"eta": [0.1, 0.8, 0.4, 0.81]}, "rows are"),
    ({"eta": [0.1, 0.8, 0.4, 0.8, 0.5], "groups": [0, 1, 1, 0, 0]}, "rows are"),
    ({"groups": [0, 1, 0, 0]}, "rows are"),
    ({"privacy": Privacy(2.0, 1e-6, bins=8)}, "privacy settings are"),
    ({"privacy": Privacy(1.0, 1e-6, bins=16)}, "privacy settings are"),
    ({"n_groups": 3}, "groups are"),
    ({"random_state": 0}, "kind of noise is"),
]


@pytest.mark.parametrize(("change", "what"), CHANGES)
def test_a_second_release_is_refused(kept, change, what):
    call = {"eta": ETA, "groups": GROUPS} | USUAL | change
    with pytest.raises(InputError) as caught:
        release_once(kept, **call)
    sentence = str(caught.value)
    assert sentence.startswith(f"release: the {what} not those released before (epsilon 1, delta 1e-06)")
    assert "would spend again" in sentence


def test_the_refusal_tells_nothing_of_the_rows(kept):
    with pytest.raises(InputError) as caught:
        release_once(kept, [0.123456], [0], **USUAL)
    assert "0.123456" not in str(caught.value)


@pytest.mark.parametrize(
    "stored", [None, {}, {"release": {}}, {"fingerprint": "ab"}, {"fingerprint": 1, "release": {}}]
)
def test_a_damaged_file_is_refused_rather_than_released_again(stored):
    with pytest.raises(FAULTS):
        read(stored, StoredRelease)


def test_the_fingerprint_is_no_part_of_what_may_be_shown(kept):
    assert kept.fingerprint not in json.dumps(plain(kept.release))
