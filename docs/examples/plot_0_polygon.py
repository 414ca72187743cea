"""
One polygon explains it all
===========================

Whatever a decision rule does to accuracy and to fairness it does, in each group at each site, through two numbers:
the share *u* of the people that it selects, and the share *v* of the people that it selects and that are positive.
They range over a polygon, and :doc:`the method </METHOD>` is what follows from that. Generated rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import logofair

few = np.array([0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.85, 0.95])  # chances of label 1 of eight people
rng = np.random.default_rng(1)
chances = {"a": np.sort(rng.beta(2, 3.2, 60)), "b": np.sort(rng.beta(1.1, 0.8, 60))}


def edges(eta):
    """Corners of the polygon: accept the top k (upper edge), accept the bottom k (lower edge)."""
    share = np.arange(eta.size + 1) / eta.size
    top = np.append(0.0, np.cumsum(eta[::-1])) / eta.size
    bottom = np.append(0.0, np.cumsum(eta)) / eta.size
    return share, top, bottom


# %%
# Left: one group at one site. Every rule is a point of the polygon, a threshold is a corner of its upper edge.
# Accuracy is a constant plus *2v - u*, so its lines are straight, and the best rule without requirements is a corner:
# accept from 1/2 on.
#
# Middle: demographic parity wants two groups at the same *u*. The best pair lies on both upper edges: plain
# thresholds.
#
# Right: equalized odds wants two groups at the same pair of rates, that is at one point of both polygons (drawn with
# *(u - v) / P(Y=0)* and *v / P(Y=1)* as axes). It lies on the edge of one polygon and *inside* the other. No
# threshold gives that point; a coin between two thresholds does. The thin line is the shortest such pair.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.7), layout="constrained")
ORANGE, BLUE, INK = "#E69F00", "#0072B2", "#1b2230"

u, top, bottom = edges(few)
left.fill(np.append(u, u[::-1]), np.append(top, bottom[::-1]), color=BLUE, alpha=0.12, lw=0)
left.plot(u, top, "o-", color=BLUE, markersize=4, lw=1)
left.plot(u, bottom, "s--", color=BLUE, markersize=3, lw=1)
best = np.argmax(2 * top - u)
for level in (-0.1, 0.1, 2 * top[best] - u[best]):
    left.plot(u, (level + u) / 2, color=INK, lw=0.6, ls=":")
left.plot(u[best], top[best], "*", color="#D55E00", markersize=13, zorder=5)
left.annotate("accept from 1/2 on", (u[best], top[best]), (0.04, 0.5), arrowprops={"arrowstyle": "-", "lw": 0.6})
left.text(0.14, 0.27, "top k", ha="right", color=BLUE)
left.text(0.7, 0.14, "bottom k", color=BLUE)
left.text(0.33, 0.19, "equal accuracy", rotation=35, fontsize=7.5, ha="center", va="center")
left.set(
    title="One group at one site",
    xlabel="u: share selected",
    ylabel="v: share selected and positive",
    xlim=(0, 1),
    ylim=(0, 0.57),
)

both, group = np.concatenate(list(chances.values())), np.repeat(list(chances), 60)
exactly = {"calibration": "none", "pooling": "none", "local_tolerance": None, "global_tolerance": 0.0}
fair = logofair.fit(both, None, sensitive_features=group, **exactly)
rate = float(fair.policy.probabilities(chances["a"], sensitive_features=["a"] * 60).mean())
for (name, eta), colour in zip(chances.items(), (ORANGE, BLUE), strict=True):
    u, top, bottom = edges(eta)
    middle.fill(np.append(u, u[::-1]), np.append(top, bottom[::-1]), color=colour, alpha=0.12, lw=0)
    middle.plot(u, top, color=colour, lw=1.2)
    best = np.argmax(2 * top - u)
    middle.plot(u[best], top[best], "*", color=colour, markersize=11, fillstyle="none")
    middle.plot(rate, np.interp(rate, u, top), "*", color=colour, markersize=12)
    middle.text(1.01, top[-1], name, color=colour, va="center", weight="bold")
middle.axvline(rate, color=INK, lw=0.8, ls="--")
middle.set(
    title="Demographic parity: the same u",
    xlabel="u (hollow stars: nothing required)",
    ylabel="v",
    xlim=(0, 1),
    ylim=(0, 0.7),
)

odds = logofair.fit(both, None, sensitive_features=group, notion="equalized_odds", **exactly)
for (name, eta), colour in zip(chances.items(), (ORANGE, BLUE), strict=True):
    u, top, bottom = edges(eta)
    positive, negative = eta.mean(), 1 - eta.mean()
    for edge, dashes in ((top, "-"), (bottom, "--")):
        right.plot((u - edge) / negative, edge / positive, dashes, color=colour, lw=1.2)
    right.fill(
        np.append((u - top), (u - bottom)[::-1]) / negative,
        np.append(top, bottom[::-1]) / positive,
        color=colour,
        alpha=0.1,
        lw=0,
    )
    chance = odds.policy.probabilities(eta, sensitive_features=[name] * 60)
    point = ((1 - eta) @ chance / negative / 60, eta @ chance / positive / 60)
    mixed = np.flatnonzero((chance > 0) & (chance < 1))
    if mixed.size > 1:  # between the thresholds of a mixture
        cuts = eta.size - np.array([mixed[0], mixed[-1] + 1])
        right.plot(((u - top) / negative)[cuts], (top / positive)[cuts], color=INK, lw=1.4, marker="o", markersize=3)
right.plot(*point, "*", color="#D55E00", markersize=13, zorder=5)
right.set(
    title="Equalized odds: one point of both",
    xlabel="false positive rate",
    ylabel="true positive rate",
    xlim=(0, 1),
    ylim=(0, 1),
)
plt.show()

# %%
# The rules themselves, in words:

print(odds.policy.rules)

# %%
# Many sites make many polygons, requirements inside a site tie the polygons of that site together, and requirements
# over all sites tie all of them. It stays a linear program over corners, and a corner is found by one binary search.
