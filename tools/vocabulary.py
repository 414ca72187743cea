"""Refuse identifiers that the vocabulary bans: ``python tools/vocabulary.py``, a part of ``make lint``.

The list stands in ``vocabulary.toml`` beside this file: a banned word, the word to use, and where it may stand all the
same. Identifiers are taken apart (``sharedPrices`` and ``shared_prices`` hold ``shared``); prose is left to readers.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "benchmarks", "reproduction", "tools", "docs/examples", "docs/_ext")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(identifier: str) -> set[str]:
    """The words an identifier is made of, in lower case."""
    return {part.lower() for part in _PART.findall(identifier)}


def identifiers(text: str) -> Iterator[tuple[int, str]]:
    """Every name in a source text with its line; names of tests are sentences, and no identifiers in this sense."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not iskeyword(token.string) and not token.string.startswith("test_"):
            yield token.start[0], token.string


def faults(text: str, place: str, banned: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Sentences on the banned identifiers of one file."""
    seen = set()
    for line, name in identifiers(text):
        for word in words(name) & banned.keys():
            rule = banned[word]
            if (name, word) in seen or (rule.get("alone") and name.strip("_").lower() != word):
                continue
            if any(place.startswith(folder) for folder in rule.get("places", ())):
                continue
            seen.add((name, word))
            yield f"{place}:{line}: {name!r} holds {word!r}, which the vocabulary bans; use {rule['use']}."


def main() -> int:
    """Check every file; print what was found."""
    banned = tomllib.loads((ROOT / "tools" / "vocabulary.toml").read_text("utf-8"))["banned"]
    found = [
        sentence
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for sentence in faults(path.read_text("utf-8"), path.relative_to(ROOT).as_posix(), banned)
    ]
    print("\n".join(found) or "No banned identifier.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
