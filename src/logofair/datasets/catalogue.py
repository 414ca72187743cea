"""All data sets by name: what each is, its terms and known harms, and how it is prepared and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from logofair.datasets import acs, adult, celeba, enem, generated
from logofair.datasets.cache import cache_folder
from logofair.datasets.prepared import chosen
from logofair.datasets.table import Dataset

__all__ = ["CATALOGUE", "DatasetInfo", "choices_of", "load"]


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
    needs_files : bool
        Whether it must be prepared from official files first.
    model : {"logistic", "mlp", "resnet18"}
        The paper's model for it, or the one of the nearest kind.
    prepare : callable or None
        ``prepare(source, into, *, progress, **choices)``, which returns counts.
    load : callable
        ``load(folder, *, sensitive, **choices)``, without the folder where no files are needed.
    version : int
        The version of the folder that ``prepare`` makes; 0 where it makes none.
    """

    name: str
    title: str
    summary: str
    licence: str
    citation: str
    known_harms: tuple[str, ...]
    where: tuple[str, ...]
    sensitive: tuple[str, ...]
    natural_clients: str | None
    needs_files: bool
    model: str
    prepare: Callable[..., Mapping[str, int]] | None
    load: Callable[..., Dataset]
    version: int = 0


_ENTRIES = (
    DatasetInfo(
        name="adult",
        title="Adult (UCI)",
        summary="Who earned more than 50,000 USD in the US of 1994; part of this package.",
        licence=adult.LICENCE,
        citation=adult.CITATION,
        known_harms=adult.KNOWN_HARMS,
        where=(),
        sensitive=("sex", "race"),
        natural_clients=None,
        needs_files=False,
        model="logistic",
        prepare=None,
        load=adult.load_adult,
    ),
    DatasetInfo(
        name="enem",
        title="ENEM microdata (INEP, Brazil)",
        summary="Whose mark in human sciences lies above the median of Brazil's national exam.",
        licence=enem.LICENCE,
        citation=enem.CITATION,
        known_harms=enem.KNOWN_HARMS,
        where=enem.WHERE,
        sensitive=enem.SENSITIVE,
        natural_clients="municipality",
        needs_files=True,
        model="mlp",
        prepare=enem.prepare_enem,
        load=enem.load_enem,
        version=enem.VERSION,
    ),
    DatasetInfo(
        name="celeba",
        title="CelebA",
        summary="Who smiles on portraits of celebrities.",
        licence=celeba.LICENCE,
        citation=celeba.CITATION,
        known_harms=celeba.KNOWN_HARMS,
        where=celeba.WHERE,
        sensitive=(),
        natural_clients="person shown",
        needs_files=True,
        model="resnet18",
        prepare=celeba.prepare_celeba,
        load=celeba.load_celeba,
        version=celeba.VERSION,
    ),
    DatasetInfo(
        name="acs",
        title="ACSIncome (American Community Survey)",
        summary="Who earns more than 50,000 USD a year in the US.",
        licence=acs.LICENCE,
        citation=acs.CITATION,
        known_harms=acs.KNOWN_HARMS,
        where=acs.WHERE,
        sensitive=acs.SENSITIVE,
        natural_clients="state",
        needs_files=True,
        model="logistic",
        prepare=acs.prepare_acs,
        load=acs.load_acs,
        version=acs.VERSION,
    ),
    DatasetInfo(
        name="generated",
        title="Generated rows",
        summary="Rows of a random population whose best possible rule is known; describes nobody.",
        licence=generated.LICENCE,
        citation="",
        known_harms=generated.KNOWN_HARMS,
        where=(),
        sensitive=("group",),
        natural_clients="generated client",
        needs_files=False,
        model="logistic",
        prepare=None,
        load=generated.load_generated,
    ),
)
CATALOGUE: Mapping[str, DatasetInfo] = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def load(name: str, *, sensitive: str | None = None, cache: Path | None = None, **choices: Any) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        A name of `CATALOGUE`.
    sensitive : str, optional
        Which attribute the groups are; by default the first of the entry's.
    cache : Path, optional
        Below which folder it was prepared; by default as `logofair.datasets.cache.cache_folder` says.
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
    """Names of what a data set's ``load`` or ``prepare`` can be told besides where files lie and what is sensitive.

    Examples
    --------
    >>> choices_of(CATALOGUE["acs"].load)
    ('states', 'keep_sensitive', 'rows', 'rng')
    """
    known = signature(work).parameters.items()
    return tuple(
        name for name, p in known if p.kind is Parameter.KEYWORD_ONLY and name not in ("sensitive", "progress")
    )
