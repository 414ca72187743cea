"""The commands that this distribution adds to ``logofair``: their options; what they do and show is in ``pages``."""
