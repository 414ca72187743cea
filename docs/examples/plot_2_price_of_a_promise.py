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

people = make_population(n_clients=4, n_groups=2, levels=40, rng=5, alpha=8.0, difference=1.5)
TOLERANCE = 0.08


def true_gaps(policy):
    """The gap of selection rates at every client, in the population itself."""
    whole = people.columns()
    chance = policy.probabilities(whole["scores"], groups=whole["groups"], clients=whole["clients"])
    accepted = np.sum(chance.reshape(people.mass.shape) * people.mass, axis=2) / people.mass.sum(axis=2)
    return accepted.max(axis=1) - accepted.min(axis=1)


def fitted(rows, rng, confidence):
    """A rule fitted to that many rows, within ``TOLERANCE`` inside every client."""
    drawn = people.draw(rows, rng=rng)
    return logofair.fit(
        people.scores(drawn), drawn.labels, groups=drawn.sensitive, clients=drawn.clients,
        local_tolerance=TOLERANCE, global_tolerance=None, confidence=confidence, random_state=0,
    )  # fmt: skip


# %%
# One fit, and what may be promised of it. A client with too few rows is told how many it would take.

solution = fitted(6_000, 0, 0.95)
print(solution.promises)

# %%
# Now the same for samples of different size: the largest true gap of any client, without a promise and with one.

sizes = (2_000, 6_000, 20_000)
found = {confidence: [] for confidence in (None, 0.95)}
for size in sizes:
    for confidence, gaps in found.items():
        gaps.append([true_gaps(fitted(size, draw, confidence).policy).max() for draw in range(4)])

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
places = np.arange(len(sizes))
for shift, (confidence, mark, name) in zip(
    (-0.12, 0.12), ((None, "s", "certificate alone"), (0.95, "o", "with promises, 95 %")), strict=True
):
    for place, gaps in zip(places, found[confidence], strict=True):
        axes.plot([place + shift] * len(gaps), gaps, mark, markersize=6, alpha=0.8,
                  color="#D55E00" if confidence is None else "#0072B2", label=name if place == 0 else None)  # fmt: skip
axes.axhline(TOLERANCE, color="#1b2230", lw=1, ls="--")
axes.text(2.45, TOLERANCE, "tolerance", va="bottom", ha="right")
axes.set_xticks(places, [f"{size:,} rows" for size in sizes])
axes.set(ylabel="largest true gap of any client", title="Four samples each", ylim=(0, None), xlim=(-0.5, 2.5))
axes.legend(frameon=False)
plt.show()

# %%
# Without a promise every rule meets its tolerance on the rows that chose it, and misses it in the population: the fewer
# rows, the more. With promises, what cannot be kept is refused rather than missed; what it costs is accuracy on the
# calibration rows:

print(f"accuracy on the calibration rows: {solution.promises.accuracy_without:.4f} without promises, "
      f"{solution.promises.accuracy:.4f} with them")  # fmt: skip

# %%
# :doc:`Promises </PROMISES>` says how they are made, and measures on 1,100 federations that they hold.
