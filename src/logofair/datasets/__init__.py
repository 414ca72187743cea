"""Data sets with their terms and known harms, and the ways rows are dealt to clients.

Nothing is read before a loader is called.
"""

from logofair.datasets.adult import load_adult
from logofair.datasets.catalogue import CATALOGUE, load
from logofair.datasets.generated import Population, make_population
from logofair.datasets.partition import Partition, deal, dirichlet_clients, split
from logofair.datasets.table import Dataset

__all__ = [
    "CATALOGUE",
    "Dataset",
    "Partition",
    "Population",
    "deal",
    "dirichlet_clients",
    "load",
    "load_adult",
    "make_population",
    "split",
]
