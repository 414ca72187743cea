"""
The price of a promise
======================

A certificate is about the calibration rows. A promise (``confidence=0.95``) is about people yet to come, and costs
accuracy. Here the population is known, so promised, kept and true can be shown side by side. Generated rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import logofair
from logofair.datasets import make_population

people = make_population(n_sites=4, n_groups=2, levels=40, rng=5, alpha=8.0, difference=1.5)
TOLERANCE = 0.08


def true_gaps(policy):
    """The gap of selection rates at every site, in the population itself."""
    table = people.columns()
    chance = policy.probabilities(table["scores"], sensitive_features=table["sensitive_features"], sites=table["sites"])
    accepted = np.sum(chance.reshape(people.mass.shape) * people.mass, axis=2) / people.mass.sum(axis=2)
    return accepted.max(axis=1) - accepted.min(axis=1)


def fitted(rows, rng, confidence):
    """A rule fitted to that many rows, within ``TOLERANCE`` inside every site."""
    drawn = people.draw(rows, rng=rng)
    return logofair.fit(
        people.scores(drawn),
        drawn.labels,
        sensitive_features=drawn.sensitive,
        sites=drawn.sites,
        local_tolerance=TOLERANCE,
        global_tolerance=None,
        confidence=confidence,
        random_state=0,
    )


# %%
# One fit, and what may be promised of it. A site with too few rows is told how many it would take.

solution = fitted(6_000, 0, 0.95)
for each in solution.outcomes.where(basis="new rows"):
    print(each.site, each.state, each.high, each.rows, each.rows_needed)

# %%
# Now the same for samples of different size: the largest true gap of any site without a promise, of the certified
# sites with one, and (hollow) of those that could not be certified.

sizes = (2_000, 6_000, 20_000)
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for place, size in enumerate(sizes):
    for draw in range(4):
        axes.plot(place - 0.15, true_gaps(fitted(size, draw, None).policy).max(), "s", color="#D55E00", alpha=0.8)
        promising = fitted(size, draw, 0.95)
        gaps = true_gaps(promising.policy)
        certified = np.array([each.state == "met" for each in promising.outcomes.where(basis="new rows")])
        for which, fill in ((certified, "full"), (~certified, "none")):
            if which.any():
                axes.plot(place + 0.15, gaps[which].max(), "o", color="#0072B2", alpha=0.8, fillstyle=fill)
axes.axhline(TOLERANCE, color="#1b2230", lw=1, ls="--")
axes.text(2.45, TOLERANCE, "tolerance", va="bottom", ha="right")
axes.set_xticks(range(len(sizes)), [f"{size:,} rows" for size in sizes])
axes.set(ylabel="largest true gap", ylim=(0, None), xlim=(-0.5, 2.5))
axes.set_title("Four samples each. Squares: certificate alone; circles: with promises")
plt.show()

# %%
# Without a promise every rule meets its tolerance on the rows that chose it, and most of them miss it in the
# population. With promises, certified gaps stay below, and what cannot be certified is said rather than missed. It
# costs accuracy on the calibration rows:

accuracy, price = solution.certificate.primal, solution.promises.price
print(f"accuracy on the calibration rows: {accuracy + price:.4f} without promises, {accuracy:.4f} with them")

# %%
# :doc:`Promises </PROMISES>` says how they are made, and measures on 1,100 federations that they hold.
