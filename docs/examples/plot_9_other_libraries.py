"""
Beside other libraries
======================

One site, a few thousand rows: the ground of Fairlearn, error-parity and OxonFair. All get the same scores of the same
2,500 calibration rows, and are measured on the same test rows, 20 times over. Recorded: ``python -m
bench.one_site`` (ENEM, and ACSIncome of New Mexico and Hawaii).
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

recorded = json.loads(Path("../evidence/one-site.json").read_text("utf-8"))
looks = {
    "Fairlearn": ("#E69F00", "s", "--"),
    "error-parity": ("#CC79A7", "D", "-."),
    "OxonFair": ("#56B4E9", "^", ":"),
    "this library": ("#0072B2", "o", "-"),
}

# %%
# Frontiers on test rows: accuracy against the gap that is there, whatever was asked for. Up and to the left is better.

figure, panels = plt.subplots(2, 3, figsize=(9.6, 5.6), layout="constrained")
chosen = [case for case in recorded["cases"] if case["set"] in ("ENEM", "NM", "HI") and case["groups"] == 4]
for axes, case in zip(panels.T.ravel(), chosen, strict=True):
    ours = {"this library": [each["point"] for each in case["ours"]["default"]]}
    lowest = min(accuracy for _, accuracy in ours["this library"])
    for name, points in (case["frontiers"] | ours).items():
        if name in looks:
            colour, mark, dashes = looks[name]
            shown = [(gap, accuracy) for gap, accuracy in points if accuracy > lowest - 0.025]  # some fall much lower
            axes.plot(*zip(*shown, strict=True), dashes, marker=mark, color=colour, markersize=4, lw=1.2, label=name)
    notion = {"DP": "demographic parity", "EO": "equalized odds"}[case["notion"]]
    axes.set_title(f"{case['set']}, four groups, {notion}", fontsize=8)
panels[0, 0].legend(frameon=False, fontsize=7.5)
figure.supxlabel("gap on test rows", fontsize=9)
figure.supylabel("accuracy on test rows", fontsize=9)
plt.show()

# %%
# All 48 cases with two and four groups: accuracy gained over the other's frontier at our gap, in standard errors.

for name in ("Fairlearn", "error-parity", "OxonFair"):
    gains = [each["gains"][name] for case in recorded["cases"] for each in case["ours"]["default"]]
    above, below = sum(mean > 2 * error for mean, error in gains), sum(mean < -2 * error for mean, error in gains)
    median = sorted(mean for mean, _ in gains)[len(gains) // 2]
    print(
        f"{name}: above by more than two in {above} of {len(gains)}, below in {below}; median {100 * median:.2f} points"
    )

# %%
# :doc:`One site </evidence/one-site>` has every case, and :doc:`Compare </COMPARE>` what each library does.
