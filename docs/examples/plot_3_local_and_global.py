"""
Local against global
====================

A rule can be fair over all sites and unfair inside each of them, or the other way round: groups are not spread evenly
over sites. Generated rows, from two sites of which one accepts few people and has many of group *a*.
"""

import matplotlib.pyplot as plt
import numpy as np

import logofair
from logofair.datasets import Population

levels = np.linspace(0.02, 0.98, 49)


def bell(middle):
    """Shares of people by their chance of label 1, around a middle."""
    shares = np.exp(-0.5 * ((levels - middle) / 0.18) ** 2)
    return shares / shares.sum()


#                    site north: group a, group b    site south: group a, group b
shares = np.array([[0.35, 0.15], [0.15, 0.35]])
middles = np.array([[0.30, 0.36], [0.62, 0.55]])
mass = np.array(
    [[share * bell(middle) for share, middle in zip(*site, strict=True)] for site in zip(shares, middles, strict=True)]
)
people = Population(mass=mass, chance=np.broadcast_to(levels, mass.shape))
rows = people.columns() | {"labels": None, "calibration": "none", "pooling": "none"}
rows["sites"] = np.where(rows["sites"] == "site 0", "north", "south")

# %%
# Four rules: none, and what the paper calls LoGoFair_g, LoGoFair_l and LoGoFair_l&g.

wanted = {
    "nothing required": (None, None),
    "global alone": (None, 0.01),
    "local alone": (0.01, None),
    "local and global": (0.01, 0.01),
}
fits = {
    name: logofair.fit(**rows, local_tolerance=local, global_tolerance=over) for name, (local, over) in wanted.items()
}

# %%
# Selection rates of both groups, at each site and over both. A line is a gap.

figure, panels = plt.subplots(1, 4, figsize=(9, 2.9), sharex=True, sharey=True, layout="constrained")
places = {"over all": 0, "south": 1, "north": 2}
for axes, (name, solution) in zip(panels, fits.items(), strict=True):
    chance = solution.policy.probabilities(
        rows["scores"], sensitive_features=rows["sensitive_features"], sites=rows["sites"]
    )
    for where, height in places.items():
        here = np.isin(rows["sites"], ("north", "south") if where == "over all" else where)
        rates = [
            np.average(
                chance[here & (rows["sensitive_features"] == group)],
                weights=rows["sample_weight"][here & (rows["sensitive_features"] == group)],
            )
            for group in "ab"
        ]
        axes.plot(rates, [height] * 2, color="#1b2230", lw=1.2, zorder=1)
        for rate, colour, mark in zip(rates, ("#E69F00", "#0072B2"), "os", strict=True):
            axes.plot(rate, height, mark, color=colour, markersize=7)
    axes.set(
        title=f"{name}\naccuracy {solution.certificate.primal:.3f}", ylim=(-0.6, 2.6), xlim=(0, 1), xticks=(0, 0.5, 1)
    )
panels[0].set_yticks(list(places.values()), list(places))
figure.supxlabel("selection rate (circle: group a, square: group b)", fontsize=9)
plt.show()

# %%
# Required over all alone, the rule keeps gaps inside the sites, in opposite directions, which cancel. Required inside
# the sites alone, it leaves a gap over all, since the groups live at different sites. Both together cost the most
# accuracy, and :attr:`Certificate.prices <logofair.solvers.certificate.Certificate>` say which of the requirements it
# is:

both = fits["local and global"].certificate
print("accuracy won per 0.01 more of the global tolerance, at most:", (0.01 * both.prices.global_).round(4))
print("... of the local tolerances (north, south):", (0.01 * both.prices.local.ravel()).round(4))
