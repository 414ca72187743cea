"""
Levelling down, and floors
==========================

The cheapest way to equal rates is often to take from those who have more. Whether that is wanted is not for a library
to say, but it must be seen, and there must be a way to forbid it: a floor. Real rows: Adult at five sites.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression

import logofair
from logofair.datasets import dirichlet_sites, load_adult, split

adult = load_adult()
site = dirichlet_sites(adult.sensitive, n_sites=5, alpha=5, rng=0)
part = split(len(adult), {"train": 0.35, "calibrate": 0.35, "test": 0.3}, rng=0)
train, calibrate, test = part["train"], part["calibrate"], part["test"]
model = LogisticRegression(solver="newton-cholesky").fit(adult.features[train], adult.labels[train])
score = model.predict_proba(adult.features)[:, 1]
rows = {"labels": adult.labels[calibrate], "sensitive_features": adult.sensitive[calibrate], "sites": site[calibrate]}

# %%
# Equal opportunity compares true positive rates: of the people who would have earned the "yes", how many get it? Four
# ways to ask for it. ``"today"`` is what the rule gives that nothing is required of: nobody's rate may fall below it.

tolerances = {"local_tolerance": None, "global_tolerance": 0.01}
wanted = {
    "nothing required": {"local_tolerance": None, "global_tolerance": None},
    "equal within 0.01": tolerances,
    "... and nobody below today": tolerances | {"require": "true positive rate >= today overall"},
    "... and at least 0.75": tolerances | {"require": "true positive rate >= 0.75 overall"},
}
fits = {
    name: logofair.fit(score[calibrate], **rows, notion="equal_opportunity", random_state=0, **required)
    for name, required in wanted.items()
}

# %%
# On the test rows, with 95 % intervals: true positive rates of women and men, and what each way costs.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.2), layout="constrained", width_ratios=[3, 2], sharey=True)
looks = {"Female": ("#D55E00", "o", 0.13), "Male": ("#0072B2", "s", -0.13)}
others = {"sensitive_features": adult.sensitive[test], "sites": site[test]}
for place, solution in enumerate(fits.values()):
    tested = solution.test(score[test], adult.labels[test], **others).tested.second
    for group, (colour, mark, shift) in looks.items():
        rate = tested.rates["true positive rate"][group]
        left.plot([rate.low, rate.high], [-place + shift] * 2, color=colour, lw=1.6)
        left.plot(rate, -place + shift, mark, color=colour, markersize=5, label=group if place == 0 else None)
    right.plot([tested.accuracy.low, tested.accuracy.high], [-place] * 2, color="#1b2230", lw=1.6)
    right.plot(tested.accuracy, -place, "D", color="#1b2230", markersize=5)
left.set_yticks([-place for place in range(len(fits))], list(fits))
right.locator_params(axis="x", nbins=5)
left.set(title="True positive rate on test rows")
right.set(title="Accuracy on test rows")
left.legend(frameon=False, loc="upper right")
plt.show()

# %%
# Equality alone lowers the men's rate to meet the women's half-way. The floor raises the women's instead, and pays with
# accuracy: more people are accepted who should not have been. How many are accepted in all:

for name, solution in fits.items():
    print(f"{name}: {solution.compared.second.accepted}")

# %%
# Requirements can contradict each other: a floor under one rate and a ceiling, a capacity or a tolerance on another.
# Then no rule is returned, and the error says which requirements conflict.

try:
    impossible = ["true positive rate >= 0.9 per site", "accepted <= 0.1 overall"]
    logofair.fit(score[calibrate], **rows, notion="equal_opportunity", **tolerances, require=impossible)
except logofair.InfeasibleError as error:
    print(error)
