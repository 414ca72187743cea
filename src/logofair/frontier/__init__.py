"""What fairness costs: the best accuracy for every pair of a local and a global tolerance.

The value is concave and rises with either tolerance; every point has a certificate of its own, recomputed from the rule
that was stored for it. Rows are calibrated and sorted once for all points.
"""

from logofair.frontier.door import frontier
from logofair.frontier.knee import Knee
from logofair.frontier.point import HeldOut, Point
from logofair.frontier.result import Base, Frontier

__all__ = ["Base", "Frontier", "HeldOut", "Knee", "Point", "frontier"]
