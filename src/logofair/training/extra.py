"""PyTorch, where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

from logofair.inputs import InputError

__all__ = ["need_torch"]


def need_torch() -> None:
    """Raise, naming the extra to install, where PyTorch is missing.

    Examples
    --------
    >>> need_torch()
    """
    if find_spec("torch") is None:
        raise InputError("Training of networks needs PyTorch; install it with: pip install 'logofair[train]'.")
