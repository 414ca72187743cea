"""The commands that this distribution adds to ``logofair``."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec

from logofair.errors import InputError


def need_torch() -> None:
    """Raise, naming the extra to install, where PyTorch is missing."""
    if find_spec("torch") is None:
        raise InputError("Training needs PyTorch; install it with: pip install './reproduction[train]'.")


def titled(title: str, sentences: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Sentences, the first beside a title."""
    for sentence in sentences:
        yield title, sentence
        title = ""
