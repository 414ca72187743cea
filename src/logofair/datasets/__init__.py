"""Adult and generated rows, with their terms and known harms, and the ways rows are dealt to sites.

Nothing is read before a loader is called.
"""

from logofair.datasets.adult import load_adult
from logofair.datasets.generated import Population, make_population
from logofair.datasets.partition import Partition, deal, dirichlet_sites, split
from logofair.datasets.table import Dataset

__all__ = [
    "Dataset",
    "Partition",
    "Population",
    "deal",
    "dirichlet_sites",
    "load_adult",
    "make_population",
    "split",
]
