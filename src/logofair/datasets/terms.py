"""What there is to know about each data set before it is loaded, from ``data/catalogue.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["known_facts", "terms_of"]


@cache
def known_facts() -> Mapping[str, Mapping[str, Any]]:
    """Title, summary, terms, known harms, and how to get the files, by the name of the data set."""
    text = (files("logofair.datasets") / "data" / "catalogue.toml").read_text(encoding="utf-8")
    return {
        name: {fact: tuple(value) if isinstance(value, list) else value for fact, value in facts.items()}
        for name, facts in tomllib.loads(text).items()
    }


def terms_of(name: str) -> dict[str, Any]:
    """The name and terms of a data set, as `Dataset` takes them."""
    return {"name": name} | {fact: known_facts()[name][fact] for fact in ("licence", "citation", "known_harms")}
