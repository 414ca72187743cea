"""What ``data/catalogue.toml`` says of each data set: title, summary, terms, known harms, how to get the files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from logofair.datasets.table import known_terms

__all__ = ["known_facts", "terms_of"]


@cache
def known_facts() -> Mapping[str, Mapping[str, Any]]:
    """Facts of every data set by name; the terms of those that come with the library are the library's."""
    text = (files("logofair_reproduction.datasets") / "data" / "catalogue.toml").read_text(encoding="utf-8")
    return {
        name: {
            **{fact: tuple(value) if isinstance(value, list) else value for fact, value in facts.items()},
            **known_terms().get(name, {}),
        }
        for name, facts in tomllib.loads(text).items()
    }


def terms_of(name: str) -> dict[str, Any]:
    """The name and terms of a data set, as `logofair.datasets.Dataset` takes them."""
    return {"name": name} | {fact: known_facts()[name][fact] for fact in ("licence", "citation", "known_harms")}
