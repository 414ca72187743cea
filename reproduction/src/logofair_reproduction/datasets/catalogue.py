"""All data sets by name: what each is, its terms and known harms, and how it is prepared and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from logofair.datasets.adult import load_adult
from logofair.datasets.generated import make_population
from logofair.datasets.table import Dataset, chosen
from logofair_reproduction.datasets.acs import load_acs, prepare_acs
from logofair_reproduction.datasets.celeba import load_celeba, prepare_celeba
from logofair_reproduction.datasets.enem import load_enem, prepare_enem
from logofair_reproduction.datasets.preparing import cache_folder, known_facts


@dataclass(frozen=True)
class DatasetInfo:
    """What there is to know about a data set before it is loaded.

    ``where`` says step by step how to get the official files; ``sensitive`` are names for the loader's ``sensitive``,
    the default first, empty where it may be any attribute of the files; ``model`` is the paper's, or the one of the
    nearest kind.

    ``prepare(source, into, *, progress, **choices)`` reads official files and makes the folder ``into``, whole or not
    at all; a prepared one that is there is replaced. Where a choice is ``batch``, so many rows are read at a time:
    memory grows with it and with the rows kept, not with the files. It returns how many rows were read, were dropped
    for each reason, and are kept. None where no files are needed; ``load(folder, *, sensitive)`` then takes no
    folder.
    """

    name: str
    title: str
    summary: str
    licence: str
    citation: str
    known_harms: tuple[str, ...]
    where: tuple[str, ...]
    sensitive: tuple[str, ...]
    model: str
    load: Callable[..., Dataset]
    prepare: Callable[..., Mapping[str, int]] | None = None
    natural_sites: str | None = None

    @property
    def needs_files(self) -> bool:
        """Whether it must be prepared from official files first."""
        return self.prepare is not None


def load_generated(*, sensitive: str = "group") -> Dataset:
    """Draw 20,000 rows of two groups, five sites and eight levels from a population made at random, always the same."""
    chosen(sensitive, ("group",), "sensitive")
    random = np.random.default_rng(0)
    return make_population(rng=random).draw(20_000, random)


_WORK: Mapping[str, tuple[Callable[..., Dataset], Callable[..., Mapping[str, int]] | None]] = {
    "adult": (load_adult, None),
    "enem": (load_enem, prepare_enem),
    "celeba": (load_celeba, prepare_celeba),
    "acs": (load_acs, prepare_acs),
    "generated": (load_generated, None),
}
#: Every data set by name: its title, terms and known harms, and the groups it can be divided by. Read-only.
CATALOGUE: Mapping[str, DatasetInfo] = MappingProxyType(
    {
        name: DatasetInfo(name, **known_facts()[name], load=load, prepare=prepare)
        for name, (load, prepare) in _WORK.items()
    }
)


def load(name: str, *, sensitive: str | None = None, cache: Path | None = None) -> Dataset:
    """Load a data set by name, prepared below ``cache`` (by default as ``preparing.cache_folder`` says).

    ``sensitive`` is which attribute the groups are, by default the first of the entry's.

    Examples
    --------
    >>> load("adult", sensitive="race")  # doctest: +ELLIPSIS
    Dataset(adult: 48,842 rows, 91 features, 23.9 % positive, groups Amer-Indian-Eskimo 470, ... no natural sites)
    """
    entry = CATALOGUE[chosen(name, CATALOGUE, "name")]
    choices = {} if sensitive is None else {"sensitive": sensitive}
    return entry.load(cache_folder(name, cache), **choices) if entry.needs_files else entry.load(**choices)
