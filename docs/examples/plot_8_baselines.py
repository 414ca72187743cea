"""
Training for fairness, or post-processing?
==========================================

FedFB, FairFed and FCFL train for fairness; LoGoFair leaves the model alone and chooses thresholds. Recorded results
on Adult (``logofair reproduce comparison_dp``: five deals of the rows, 20 settings of each training method chosen on
calibration rows, means with 95 % intervals on test rows).
"""

from pathlib import Path

import matplotlib.pyplot as plt

from logofair_reproduction.experiments.drawing import Named, label_of, look_of, point_labels
from logofair_reproduction.experiments.records import read_records
from logofair_reproduction.experiments.summaries import difference, lines

recorded = [
    line
    for line in lines(read_records(Path("../../reproduction/records")))
    if line.place["experiment"] == "comparison_dp" and line.place["data"] == "adult" and line.place["alpha"] == 5.0
]
by_method = {line.place["method"]: line for line in recorded}
methods = ("fedavg", "fedfb", "fairfed", "fcfl", "logofair_g", "logofair_l", "logofair_lg", "oracle")

# %%
# Accuracy against the global gap: up and to the left is better. The oracle knows the labels of the test rows.

figure, axes = plt.subplots(figsize=(6.6, 4.2))
names = []
for method in methods:
    accuracy, gap = (by_method[method].figure(name) for name in ("accuracy", "global_gap"))
    look = look_of(method)
    axes.plot(gap.mean, accuracy.mean, linestyle="none", **look.mark())
    axes.errorbar(gap.mean, accuracy.mean, xerr=[[gap.mean - gap.low], [gap.high - gap.mean]], **look.bars())
    axes.errorbar(
        gap.mean, accuracy.mean, yerr=[[accuracy.mean - accuracy.low], [accuracy.high - accuracy.mean]], **look.bars()
    )
    names.append(Named(label_of(method), gap.mean, accuracy.mean, look.colour))
axes.set(
    xlabel="global gap on test rows",
    ylabel="accuracy on test rows",
    title="Adult, five sites, alpha 5",
    xlim=(-0.005, 0.21),
)
figure.subplots_adjust(left=0.11, right=0.97, bottom=0.13, top=0.92)
point_labels(axes, names)
plt.show()

# %%
# The training methods stay where they give up little accuracy and little of the gap. Two fair comparisons: LoGoFair
# *at their own gaps*, trained on as many rows as they were (half of the rows are kept for post-processing otherwise):

for name in ("fedfb", "fairfed", "fcfl"):
    won = difference(by_method[f"like_{name}"], by_method[f"{name}_half"], "accuracy")
    print(
        f"at {label_of(name)}'s gaps, more accurate by {won.mean:.4f} (95%: {won.low:.4f} to {won.high:.4f}; "
        f"{won.alike} of {won.runs} deals)"
    )

# %%
# And does it help to train fairly first? Post-processing their scores in place of FedAvg's, at the same tolerances:

for name in ("fedfb", "fairfed", "fcfl"):
    lost = difference(by_method[f"on_{name}"], by_method["logofair_lg"], "accuracy")
    print(f"on {label_of(name)}'s scores: {lost.mean:+.4f} (95%: {lost.low:+.4f} to {lost.high:+.4f})")

# %%
# :doc:`Results </REPRODUCTION>` has all data sets, notions and degrees of heterogeneity, claim by claim.
