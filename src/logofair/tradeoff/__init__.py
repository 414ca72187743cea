"""What fairness costs for every pair of a local and a global tolerance, and which limits the rows can certify.

The value is concave and rises with either tolerance; every point has a certificate of its own, recomputed from the rule
that was stored for it. Rows are calibrated and sorted once for all points.
"""

from logofair.tradeoff.recommendation import Recommendation, RecommendedLimits, recommend
from logofair.tradeoff.result import Frontier, Knee, Point
from logofair.tradeoff.sweep import frontier

__all__ = [
    "Frontier",
    "Knee",
    "Point",
    "Recommendation",
    "RecommendedLimits",
    "frontier",
    "recommend",
]
