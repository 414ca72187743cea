"""
Too small to say
================

Sixty sites, some with a few dozen people: what can be said about any one of them? Three answers: the noise floor
(what chance alone would show), pooling (what a small site may borrow), certification (what may be promised, and the
rows it would take). Generated rows, from a population in which the truth is known.
"""

import matplotlib.pyplot as plt
import numpy as np

import logofair
from logofair.datasets import make_population

people = make_population(n_sites=60, n_groups=2, levels=30, rng=3, alpha=1.0, difference=1.0)
rows, others = people.draw(12_000, rng=0), people.draw(12_000, rng=1)


def columns(drawn):
    """Rows as ``fit`` and ``audit`` want them."""
    return {"labels": drawn.labels, "sensitive_features": drawn.sensitive, "sites": drawn.sites}


def fitted(pooling, **more):
    """Local tolerance 0.02 on the calibration rows, with or without borrowing."""
    return logofair.fit(
        people.scores(rows),
        **columns(rows),
        local_tolerance=0.02,
        global_tolerance=0.02,
        pooling=pooling,
        random_state=0,
        **more,
    )


def true_gaps(policy):
    """The gap of selection rates at every site, in the population itself."""
    table = people.columns()
    chance = policy.probabilities(
        table["scores"], sensitive_features=table["sensitive_features"], sites=table["sites"], on_unknown="merged"
    )
    accepted = np.sum(chance.reshape(people.mass.shape) * people.mass, axis=2) / people.mass.sum(axis=2)
    return accepted.max(axis=1) - accepted.min(axis=1)


# %%
# The noise floor
# ---------------
# On other rows, gaps inside the sites look frightening. Chance alone would show nearly as much:

policy = fitted("auto").policy
decided = policy.probabilities(
    people.scores(others), sensitive_features=others.sensitive, sites=others.sites, on_unknown="merged"
)
seen = logofair.audit(decided, **columns(others), chances=True)
worst = seen.local.gap()
print(worst)
print(f"chance alone shows {worst.value.floor:.4f} on average, up to {worst.value.detectable:.4f}")

# %%
# Site by site: the gap seen on the test rows against the rows of the site's smaller group, and the truth.

smallest = seen.local.tally.rows.sum(axis=2).min(axis=1)
counted = smallest > 0
truth = true_gaps(policy)
names = list(people.sites)
order = [names.index(name) for name in seen.sites]
gaps = np.array([np.nan if gap.value is None else float(gap.value) for gap in seen.site_gaps])

figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
axes.plot(smallest[counted], gaps[counted], "o", color="#D55E00", markersize=5, label="seen on test rows")
axes.plot(smallest[counted], truth[order][counted], "s", color="#0072B2", markersize=4, label="true")
axes.axhline(0.02, color="#1b2230", lw=1, ls="--", label="tolerance required")
axes.set(xscale="log", xlabel="test rows of the site's smaller group", ylabel="gap of selection rates", ylim=(0, 0.6))
axes.set_title("What is seen is mostly chance")
axes.legend(frameon=False)
plt.show()

# %%
# Pooling
# -------
# A rule that insists on 0.02 inside a site of twenty people fits their noise. Borrowing from the group elsewhere, as
# far as cross-validation supports it, makes the true gaps of small sites smaller (a dot is a site):

alone, borrowed = true_gaps(fitted("none").policy), truth
figure, axes = plt.subplots(figsize=(4.2, 4.0), layout="constrained")
axes.plot(alone, borrowed, "o", color="#009E73", markersize=4)
axes.plot([0, 0.6], [0, 0.6], color="#1b2230", lw=0.8)
axes.set(xlabel='true gap with pooling="none"', ylabel='true gap with pooling="auto"', xlim=(0, 0.6), ylim=(0, 0.6))
axes.set_title(f"Mean {alone.mean():.3f} alone, {borrowed.mean():.3f} borrowing")
axes.set_aspect("equal")
plt.show()

# %%
# Certification
# -------------
# Borrowing proves nothing about a small site. What can be promised of new rows, and how many rows it would take:

for each in fitted("auto", confidence=0.95).outcomes.where(basis="new rows"):
    print(each.site, each.state, each.high, each.rows, each.rows_needed)
