"""All data sets of the paper and others by name: those of :mod:`logofair.datasets`, and those made from official files.

Nothing is read before a loader is called.
"""

from logofair_reproduction.datasets.catalogue import CATALOGUE, load

__all__ = ["CATALOGUE", "load"]
