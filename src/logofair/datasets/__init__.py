"""Data sets with their terms and known harms, and the ways rows are dealt to clients.

Nothing is read before a loader is called.
"""

from logofair.datasets.adult import load_adult
from logofair.datasets.partition import dirichlet_clients, split
from logofair.datasets.table import Dataset

__all__ = ["Dataset", "dirichlet_clients", "load_adult", "split"]
