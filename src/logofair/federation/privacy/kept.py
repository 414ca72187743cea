"""A release is made once: what a client keeps on disk so that the same rows are never noised a second time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.columns.checks import Floats, Integers
from logofair.errors import InputError
from logofair.federation.privacy.release import Privacy, Release, checked_rows, release

__all__ = ["StoredRelease", "release_once"]


@dataclass(frozen=True)
class StoredRelease:
    """What a client keeps on its own disk and never sends: its release, and a fingerprint of the rows behind it.

    Examples
    --------
    See :func:`release_once`, which makes one.
    """

    release: Release
    fingerprint: str

    def as_json(self) -> dict[str, Any]:
        """Return plain values, from which :meth:`from_json` makes the same."""
        return {"release": self.release.as_json(), "fingerprint": self.fingerprint}

    @classmethod
    def from_json(cls, data: object) -> StoredRelease:
        """Rebuild from :meth:`as_json`; raise InputError where the content is damaged."""
        fingerprint = data.get("fingerprint") if isinstance(data, Mapping) else None
        if not isinstance(data, Mapping) or not isinstance(fingerprint, str):
            raise InputError("stored release: its fingerprint is missing; restore the file.")
        return cls(Release.from_json(data.get("release")), fingerprint)


def release_once(
    kept: StoredRelease | None,
    eta: object,
    groups: object,
    *,
    n_groups: int,
    privacy: Privacy,
    weights: object = None,
    seed: int | None = None,
) -> StoredRelease:
    """Release where nothing was released yet; afterwards return what was kept, or refuse.

    Store the result (``as_json``) before anything computed from it leaves the client. In any later run on the same
    rows it is free; other rows, another budget, other bins or groups would need fresh noise, which spends again, and
    are refused.

    Examples
    --------
    >>> privacy = Privacy(1.0, 1e-6)
    >>> kept = release_once(None, [0.1, 0.8], [0, 1], n_groups=2, privacy=privacy)
    >>> release_once(kept, [0.8, 0.1], [1, 0], n_groups=2, privacy=privacy) is kept
    True
    >>> release_once(kept, [0.2, 0.8], [0, 1], n_groups=2, privacy=privacy)
    Traceback (most recent call last):
        ...
    logofair.errors.InputError: release: the rows are not those released before (epsilon 1, delta 1e-06) ...
    """
    chances, codes = checked_rows(eta, groups, n_groups, weights)
    fingerprint = _fingerprint(chances, codes)
    if kept is None:
        return StoredRelease(release(chances, codes, n_groups=n_groups, privacy=privacy, seed=seed), fingerprint)
    before = kept.release
    changed = [
        what
        for what, same in (
            ("rows are", kept.fingerprint == fingerprint),
            ("privacy settings are", before.privacy == privacy),
            ("groups are", before.counts.shape[0] == n_groups),
            ("kind of noise is", before.private == (seed is None)),
        )
        if not same
    ]
    if changed:
        raise InputError(
            f"release: the {changed[0]} not those released before (epsilon {before.epsilon:g}, delta "
            f"{before.delta:g}) and a second release would spend again; use the stored release as it was made, or "
            "remove it knowing that both costs add up for everyone in both."
        )
    return kept


def _fingerprint(eta: Floats, groups: Integers) -> str:
    """A digest of the rows, whatever their order."""
    order = np.lexsort((eta, groups))
    digest = hashlib.sha256(eta[order].astype("<f8").tobytes())
    digest.update(groups[order].astype("<i4").tobytes())
    return digest.hexdigest()
