"""
A federation, round by round
============================

The rows stay at their sites. The server sends prices of the global rates, every site answers with sums, and after
each round the server knows two numbers: what the best mixture of answers is worth, and what no rule can exceed. When
they meet, it is done. Real rows: Adult by race (five groups), dealt to ten sites.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import logofair
from logofair.datasets import dirichlet_sites, load_adult, split
from logofair.federation import ClientBatch, Server, SiteColumns, make_plan
from logofair.federation.exchanges.rounds import PricingExchange
from logofair.records import encode

adult = load_adult(sensitive="race")
site = dirichlet_sites(adult.sensitive, n_sites=10, alpha=5, rng=0)
part = split(len(adult), {"train": 0.5, "calibrate": 0.5}, rng=0)
model = LogisticRegression(solver="newton-cholesky").fit(adult.features[part["train"]], adult.labels[part["train"]])
rows = part["calibrate"]
score, label, group, where = (
    model.predict_proba(adult.features[rows])[:, 1],
    adult.labels[rows],
    adult.sensitive[rows],
    site[rows],
)

# %%
# The sites agree on a plan. Everything after this line is messages: a request, the same for all, and sums back.

plan = make_plan(
    groups=sorted(set(group.tolist())),
    notion="demographic_parity",
    local_tolerance=0.1,
    global_tolerance=0.005,
    calibration="none",
    pooling="none",
    run="gallery",
)
sites = {
    f"site {number}": SiteColumns(sensitive_features=group[where == number].tolist(), scores=score[where == number])
    for number in range(10)
}
batch, server = ClientBatch.of(sites, plan), Server.start(plan, list(sites))
values, bounds, sizes, purposes = [], [], [], []
while not server.done:
    sizes.append(len(encode(server.message())))
    purposes.append(server.phase.name)
    batch, sums = batch.answer(server.request)
    server = server.take(sums.total())
    phase = server.phase
    if isinstance(phase, PricingExchange) and phase.round > 1:  # what the server knows after each round of answers
        required = phase.totals.required(plan)
        found = required.decomposition(phase.tried).incumbent
        values.append(required.reported(found.value))
        bounds.append(required.reported(found.bound))
result = server.result
values.append(result.accuracy)
bounds.append(result.bound)

# %%
# The two lines close in on the optimum; the thin line is what a fit with all rows in one place finds.

central = logofair.fit(
    score,
    None,
    sensitive_features=group,
    sites=where,
    local_tolerance=0.1,
    global_tolerance=0.005,
    calibration="none",
    pooling="none",
)
figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained")
rounds = np.arange(1, len(values) + 1)
left.plot(rounds, values, "o-", color="#0072B2", label="best mixture of answers so far")
left.plot(rounds, bounds, "v--", color="#D55E00", label="no rule is above this")
left.axhline(central.certificate.primal, color="#1b2230", lw=0.8)
left.set(
    xlabel="round", ylabel="expected accuracy", title="Value and bound", xticks=rounds[:: max(1, len(rounds) // 8)]
)
left.legend(frameon=False)
right.semilogy(rounds, np.maximum(np.array(bounds) - values, 1e-9), "o-", color="#009E73")
right.axhline(plan.optimality_gap, color="#1b2230", lw=0.8, ls="--")
right.set(xlabel="round", ylabel="bound less value", title="What could still be won", xticks=left.get_xticks())
plt.show()

# %%
print(result.summary())
print()
print(f"with all rows in one place: {central.certificate.primal:.6f}; federated: {result.accuracy:.6f}")
sent = [f"{purpose} {size:,}" for purpose, size in zip(purposes, sizes, strict=True)]
print(f"messages to a site, in bytes: {', '.join(sent)}")
