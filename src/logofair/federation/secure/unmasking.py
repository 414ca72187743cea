"""What is left of the masks in the contributors' total, rebuilt from shares."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from logofair.federation.secure.masking import pair_mask, self_mask
from logofair.federation.secure.messages import Material, Unmasked
from logofair.federation.secure.primitives import Words, public_half
from logofair.federation.secure.refusals import GarbledTotal
from logofair.federation.secure.roster import Roster
from logofair.federation.secure.shamir import combine

__all__ = ["remaining_masks"]


def remaining_masks(
    roster: Roster, question: bytes, length: int, materials: Mapping[str, Material], shares: Mapping[str, Unmasked]
) -> Words:
    """Self masks of the contributors, and their pairwise masks with participants that did not contribute."""
    answering = sorted(shares)[: roster.threshold]
    contributors = sorted(shares[answering[0]].seeds)
    mask_keys = {site: materials[site].mask_key for site in contributors}
    total = np.zeros(length, dtype=np.uint64)
    for site in contributors:
        seed = combine({roster.place(one): shares[one].seeds[site] for one in answering})
        total = total + self_mask(seed, question, length)
    for site in sorted(shares[answering[0]].mask_keys):
        private = combine({roster.place(one): shares[one].mask_keys[site] for one in answering})
        if public_half(private) != materials[site].mask_key:
            raise GarbledTotal(
                "unmask: the shares of a mask key do not fit together; a site sent rubbish: start a new run."
            )
        # What the missing site would have added are the negatives of what contributors added for it.
        total = total - pair_mask(private, mask_keys, site, question, length)
    return total
