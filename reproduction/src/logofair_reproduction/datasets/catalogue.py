"""All data sets by name: what each is, its terms and known harms, and how it is prepared and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from logofair.datasets.adult import load_adult
from logofair.datasets.generated import load_generated
from logofair.datasets.table import Dataset, chosen
from logofair_reproduction.datasets.acs import load_acs, prepare_acs
from logofair_reproduction.datasets.celeba import load_celeba, prepare_celeba
from logofair_reproduction.datasets.enem import load_enem, prepare_enem
from logofair_reproduction.datasets.preparing import cache_folder, known_facts


@dataclass(frozen=True)
class DatasetInfo:
    """What there is to know about a data set before it is loaded.

    Parameters
    ----------
    name, title, summary : str
        What it is called, in short and in full, and what it is about, on one line.
    licence, citation : str
        Terms of use, and how to cite the source.
    known_harms : tuple of str
        What the data misrepresent, one sentence each.
    where : tuple of str
        How to get the official files, step by step.
    sensitive : tuple of str
        Names for the loader's ``sensitive``, the default first; empty where it may be any attribute of the files.
    natural_clients : str or None
        What the natural clients are, such as "state".
    model : {"logistic", "mlp", "resnet18"}
        The paper's model for it, or the one of the nearest kind.
    prepare : callable or None
        ``prepare(source, into, *, progress, **choices)``; None where no files are needed. Reads official files and
        makes the folder ``into``, whole or not at all; a prepared one that is there is replaced. Where a choice is
        ``batch``, so many rows are read at a time: memory grows with it and with the rows kept, not with the files.
        Returns how many rows were read, were dropped for each reason in turn, and are kept.
    load : callable
        ``load(folder, *, sensitive, **choices)``, without the folder where no files are needed.
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
    natural_clients: str | None = None

    @property
    def needs_files(self) -> bool:
        """Whether it must be prepared from official files first."""
        return self.prepare is not None


_LOADERS: Mapping[str, tuple[Any, ...]] = {
    "adult": (load_adult,),
    "enem": (load_enem, prepare_enem),
    "celeba": (load_celeba, prepare_celeba),
    "acs": (load_acs, prepare_acs),
    "generated": (load_generated,),
}
#: Every data set by name: its title, terms and known harms, and the groups it can be divided by. Read-only.
CATALOGUE: Mapping[str, DatasetInfo] = MappingProxyType(
    {
        name: DatasetInfo(name, **known_facts()[name], **dict(zip(("load", "prepare"), work, strict=False)))
        for name, work in _LOADERS.items()
    }
)


def load(name: str, *, sensitive: str | None = None, cache: Path | None = None, **choices: Any) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        A name of `CATALOGUE`.
    sensitive : str, optional
        Which attribute the groups are; by default the first of the entry's.
    cache : Path, optional
        Below which folder it was prepared; by default as `logofair_reproduction.datasets.preparing.cache_folder` says.
    **choices
        What else the loader of this data set takes, such as ``rows=10_000``.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load("adult", sensitive="race")  # doctest: +ELLIPSIS
    Dataset(adult: 48,842 rows, 91 features, 23.9 % positive, groups Amer-Indian-Eskimo 470, ... no natural clients)
    >>> load("adlut")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    logofair.errors.InputError: name: got 'adlut' (did you mean 'adult'?); use one of adult, enem, celeba, acs, ...
    """
    entry = CATALOGUE[chosen(name, CATALOGUE, "name")]
    for choice in choices:
        chosen(choice, choices_of(entry.load), f"load({name!r})")
    if sensitive is not None:
        choices["sensitive"] = sensitive
    return entry.load(cache_folder(name, cache), **choices) if entry.needs_files else entry.load(**choices)


def choices_of(work: Callable[..., Any]) -> tuple[str, ...]:
    """Names of what a data set's ``load`` or ``prepare`` can be told besides where files lie and what is sensitive."""
    known = signature(work).parameters.items()
    return tuple(
        name for name, p in known if p.kind is Parameter.KEYWORD_ONLY and name not in ("sensitive", "progress")
    )
