"""Files of four sites to try a federation with: rows of Adult, scored by a logistic regression, dealt to sites."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.datasets.adult import load_adult
from logofair.datasets.partition import dirichlet_sites, split

SITES = ("north", "south", "east", "west")
FILES = (*SITES, "together", "others", "new-north")
# Columns of the files, and what undoes the scaling of logofair.datasets: smallest value and range.
_COLUMNS = {
    "age": ("age", 17, 73),
    "education-num": ("education_years", 1, 15),
    "hours-per-week": ("hours_per_week", 1, 98),
    "capital-gain": ("capital_gain", 0, 99_999),
    "capital-loss": ("capital_loss", 0, 4_356),
}
_PARTS = {"train": 0.3, "sites": 0.5, "new": 0.2}
_ALPHA = 5.0


def site_files(random_state: int = 0) -> dict[str, str]:
    """Return the text of each of :data:`FILES`, as CSV.

    The model was trained on rows that are in none of them. "together" has the rows of the first three sites, each with
    its site, "others" other rows of these, and "new-north" those of the first site.
    """
    from sklearn.linear_model import LogisticRegression

    data = load_adult()
    dealing, splitting = np.random.default_rng(random_state).spawn(2)
    site = dirichlet_sites(data.sensitive, n_sites=len(SITES), alpha=_ALPHA, rng=dealing)
    parts = split(len(data), _PARTS, rng=splitting)
    model = LogisticRegression(solver="newton-cholesky").fit(data.features[parts["train"]], data.labels[parts["train"]])
    columns: dict[str, npt.NDArray[Any]] = {"id": np.arange(len(data))}
    for name, (shown, smallest, width) in _COLUMNS.items():
        scaled = data.features[:, data.feature_names.index(name)]
        columns[shown] = (smallest + width * scaled).round().astype(int)
    places = [place for place, name in enumerate(data.feature_names) if name.startswith("race=")]
    races = np.array([data.feature_names[place].removeprefix("race=") for place in places])
    columns |= {"sex": data.sensitive, "race": races[data.features[:, places].argmax(axis=1)]}
    columns |= {"score": model.predict_proba(data.features)[:, 1], "label": data.labels.astype(int)}
    header, lines = ",".join(columns), []
    for *plain, score, label in zip(*(values.tolist() for values in columns.values()), strict=True):
        lines.append(",".join([*map(str, plain), f"{score:.6f}", str(label)]))
    dealt = {
        part: {
            name: [lines[row] for row in np.sort(parts[part][site[parts[part]] == number])]
            for number, name in enumerate(SITES)
        }
        for part in ("sites", "new")
    }
    files = {name: [header, *own] for name, own in dealt["sites"].items()}
    for name, part in (("together", "sites"), ("others", "new")):
        own = [f"{site},{line}" for site in SITES[:3] for line in dealt[part][site]]
        files[name] = [f"site,{header}", *own]
    files["new-north"] = [header, *dealt["new"][SITES[0]]]
    return {name: "\n".join(own) + "\n" for name, own in files.items()}
