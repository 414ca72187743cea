"""Adult and generated rows, with their terms and known harms, and how rows are dealt to sites.

Nothing is read before a loader is called.
"""

from logofair.datasets.adult import load_adult
from logofair.datasets.generated import Population, make_population
from logofair.datasets.partition import dirichlet_sites, split
from logofair.datasets.table import Dataset

__all__ = [
    "Dataset",
    "Population",
    "dirichlet_sites",
    "load_adult",
    "make_population",
    "split",
]
