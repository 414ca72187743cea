"""
The frontier on Adult
=====================

What does fairness cost? For every pair of a local and a global tolerance there is a most accurate rule, and
:func:`logofair.frontier` finds all of them from one calibration and one sort. Real rows: the embedded census data
Adult, dealt to five sites.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression

import logofair
from logofair.datasets import dirichlet_sites, load_adult, split

adult = load_adult()
site = dirichlet_sites(adult.sensitive, n_sites=5, alpha=5, rng=0)
part = split(len(adult), {"train": 0.35, "calibrate": 0.35, "test": 0.3}, rng=0)
model = LogisticRegression(solver="newton-cholesky").fit(adult.features[part["train"]], adult.labels[part["train"]])
score = model.predict_proba(adult.features)[:, 1]


def columns(name):
    """The rows of one part, named as ``fit`` and ``frontier`` name their arguments."""
    rows = part[name]
    return {
        "scores": score[rows],
        "labels": adult.labels[rows],
        "sensitive_features": adult.sensitive[rows],
        "sites": site[rows],
    }


# %%
# Rules are found on the calibration rows and measured on the test rows, which took no part in anything.

tolerances = [0.0, 0.02, 0.05, 0.1, 0.15, None]
surface = logofair.frontier(
    **columns("calibrate"),
    local_tolerances=[0.02, 0.1, None],
    global_tolerances=tolerances,
    test_rows=columns("test"),
)
knee = surface.knee.point
print("no knee" if knee is None else f"knee: local {knee.local_tolerance}, global {knee.global_tolerance}")

# %%
# Accuracy on test rows against the global tolerance, one line for each local tolerance. The band is the 95 % interval
# of the loosest rule.

free = surface.at(None, None).measured.accuracy
figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
axes.axhspan(free.low, free.high, alpha=0.12, color="#0072B2", lw=0)
looks = (("-", "#D55E00"), ("--", "#009E73"), (":", "#0072B2"))
for local, (dashes, colour) in zip(surface.local_tolerances, looks, strict=True):
    line = [surface.at(local, wide).measured.accuracy for wide in tolerances]
    name = "no local tolerance" if local is None else f"local tolerance {local:g}"
    axes.plot(range(len(line)), line, dashes, color=colour, marker="o", markersize=4, label=name)
axes.set_xticks(range(len(tolerances)), ["none" if wide is None else f"{wide:g}" for wide in tolerances])
axes.set(
    xlabel="global tolerance", ylabel="accuracy on 14,653 test rows", title="Adult, five sites, demographic parity"
)
axes.legend(frameon=False, loc="upper left")
plt.show()

# %%
# The strictest rule: what is proved of it on the calibration rows, and what the test rows show.

strict = surface.at(0.02, 0.0)
print(
    f"calibration rows: expected accuracy {strict.certificate.primal:.4f}, no rule above {strict.certificate.dual:.6f}"
)
print(f"test rows: accuracy {strict.measured.accuracy}")
print(f"test rows: global gap {strict.measured.global_gap}")

# %%
# ``logofair frontier FILE --plot frontier.svg`` draws the same from a file, and :meth:`Frontier.best
# <logofair.tradeoff.Frontier.best>` answers the other way round: the fairest rule for what you are willing to pay.

fairest = surface.best(accuracy_cost=0.005)
print(f"local {fairest.local_tolerance}, global {fairest.global_tolerance}: {100 * fairest.loss:.2f} points lost")
