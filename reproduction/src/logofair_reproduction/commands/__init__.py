"""The commands that this distribution adds to ``logofair``."""

from importlib.util import find_spec

from logofair.errors import InputError


def need_torch() -> None:
    """Raise, naming the extra to install, where PyTorch is missing."""
    if find_spec("torch") is None:
        raise InputError("Training needs PyTorch; install it with: pip install './reproduction[train]'.")
