"""
Privacy against accuracy
========================

With differential privacy every site sends one histogram with noise and nothing else. What does that cost? Real rows:
Adult at five sites. First one run as it would go, then what was recorded over 20 deals of the rows.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression

import logofair
from logofair.datasets import dirichlet_sites, load_adult, split
from logofair.engines.inprocess import run
from logofair.federation import Privacy, SiteColumns, make_plan
from logofair_reproduction.experiments.records import read_records
from logofair_reproduction.experiments.summaries import lines, measured

adult = load_adult()
site = dirichlet_sites(adult.sensitive, n_sites=5, alpha=5, rng=0)
part = split(len(adult), {"train": 0.35, "calibrate": 0.35, "test": 0.3}, rng=0)
train, calibrate, test = part["train"], part["calibrate"], part["test"]
model = LogisticRegression(solver="newton-cholesky").fit(adult.features[train], adult.labels[train])
score = model.predict_proba(adult.features)[:, 1]

# %%
# The same plan without noise and at two levels of it. Noise is drawn anew, so that your figures will differ a little.

sites = {}
for number in range(5):
    mine = calibrate[site[calibrate] == number]
    sites[f"site {number}"] = SiteColumns(sensitive_features=adult.sensitive[mine].tolist(), scores=score[mine])

for epsilon in (None, 1.0, 0.1):
    noise = None if epsilon is None else Privacy(epsilon, delta=1e-6)
    plan = make_plan(
        groups=["Female", "Male"],
        local_tolerance=0.02,
        global_tolerance=0.01,
        calibration="none",
        pooling="none",
        privacy=noise,
    )
    policies = run(plan, sites).policies
    decided = [
        policies[f"site {number}"].probabilities(score[rows], sensitive_features=adult.sensitive[rows])
        for number in range(5)
        for rows in [test[site[test] == number]]
    ]
    order = [row for number in range(5) for row in test[site[test] == number]]
    seen = logofair.audit(
        [chance for part in decided for chance in part],
        adult.labels[order],
        sensitive_features=adult.sensitive[order],
        sites=site[order],
        chances=True,
    )
    print(f"epsilon {epsilon}: accuracy {seen.accuracy}, global gap {seen.global_gap}")

# %%
# Recorded: ``logofair reproduce privacy_dp``, 20 deals of Adult to five sites (alpha 0.5), means with 95 % intervals
# on test rows. Dashed: the same histograms without noise.

recorded = lines(measured(read_records(Path("../../reproduction/records"))))
recorded = recorded.filter(experiment="privacy_dp", data="adult")
private, plain = (recorded.filter(method=method).sort("level") for method in ("private", "binned"))

figure, panels = plt.subplots(1, 3, figsize=(9, 3.1), layout="constrained")
for axes, name, title in zip(
    panels, ("accuracy", "global_gap", "local_gap"), ("Accuracy", "Global gap", "Largest local gap"), strict=True
):
    found = private.filter(figure=name)
    reach = (found["mean"] - found["low"], found["high"] - found["mean"])
    axes.errorbar(found["level"], found["mean"], reach, fmt="o-", color="#D55E00", capsize=2)
    axes.axhline(plain.filter(figure=name)["mean"][0], color="#0072B2", ls="--", lw=1)
    axes.set(xscale="log", xlabel="epsilon (smaller: more private)", title=title)
    axes.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
panels[2].axhline(private.filter(figure="floor")["mean"][0], color="#1b2230", ls=":", lw=1)
panels[2].set_title("Local gap (dotted: noise floor)")
plt.show()

# %%
# Over all sites a strong guarantee costs little. Inside small sites the noise is as large as their histograms, and no
# gap can be kept small there. :doc:`Privacy </PRIVACY>` says what the guarantee covers.
