"""Adult and generated rows, with their terms and known harms, and their partitions into sites.

Nothing is read before a loader is called.
"""

from logofair.datasets.adult import load_adult
from logofair.datasets.generated import Population, make_population
from logofair.datasets.partition import Partition, dirichlet_sites, partition_rows, split
from logofair.datasets.table import Dataset

__all__ = [
    "Dataset",
    "Partition",
    "Population",
    "dirichlet_sites",
    "load_adult",
    "make_population",
    "partition_rows",
    "split",
]
