"""Adult (UCI, 1994 US census): who earns more than 50,000 USD a year. The 48,842 rows, and files to try sites with.

``data/`` holds the original files unchanged but for xz compression; ADULT-LICENCE.txt beside them
states source, terms and known harms.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.datasets.partition import dirichlet_sites, split
from logofair.datasets.table import Dataset, Feature, chosen, feature_table, terms_of

# The order of the original files. No model here sees fnlwgt, a census weight, or education, which
# says in words what education-num says as a number.
_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
_CATEGORICAL = ("workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country")
# Smallest and largest value in the 48,842 rows: fixed, so that scaling does not depend on a split.
_RANGES: dict[str, tuple[float, float]] = {
    "age": (17, 90),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_356),
    "hours-per-week": (1, 99),
}

# Four sites to try the commands and a federation with, and the files of `site_files`.
_SITES = ("north", "south", "east", "west")
FILES = (*_SITES, "together", "others", "new-north")
_NAMES = {  # of these files' columns, by those of the original
    "age": "age",
    "education-num": "education_years",
    "hours-per-week": "hours_per_week",
    "capital-gain": "capital_gain",
    "capital-loss": "capital_loss",
}
_PARTS = {"train": 0.3, "sites": 0.5, "new": 0.2}  # the model's rows, those of the sites, later ones of the same
_ALPHA = 5.0


def load_adult(sensitive: str = "sex") -> Dataset:
    """Load the embedded Adult data: the 32,561 rows of adult.data, then the 16,281 of adult.test.

    Label 1 means an income above 50,000 USD. Categorical columns are one-hot, with the missing value
    ``?`` as a category of its own; numeric columns are scaled to [0, 1] by their fixed ranges. Left out
    are ``fnlwgt`` (a census weight) and ``education`` (the same as ``education-num``, in words).

    Parameters
    ----------
    sensitive : {"sex", "race"}
        Which column the groups are; it is among the features too, as in the paper's models.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load_adult()
    Dataset(adult: 48,842 rows, 91 features, 23.9 % positive, groups Female 16,192, Male 32,650, no natural sites)
    """
    chosen(sensitive, ("sex", "race"), "sensitive")
    import lzma  # here, because some builds of Python lack it and the rest of the package works without

    folder, fields = files("logofair.datasets") / "data", []  # all fields of the original files, row after row
    for name in ("adult.data", "adult.test"):
        lines = lzma.decompress((folder / f"{name}.xz").read_bytes()).decode("ascii").split("\n")
        fields += ", ".join(line for line in lines if line and not line.startswith("|")).split(", ")
    columns = {name: fields[place :: len(_COLUMNS)] for place, name in enumerate(_COLUMNS)}
    coded = {name: np.unique(columns[name], return_inverse=True) for name in _CATEGORICAL}
    values: dict[str, npt.NDArray[Any]] = {name: np.array(columns[name], dtype=np.float64) for name in _RANGES}
    values |= {name: codes for name, (_, codes) in coded.items()}
    categories: dict[str, Feature] = {name: dict(enumerate(found.tolist())) for name, (found, _) in coded.items()}
    features, feature_names = feature_table(values.__getitem__, {**_RANGES, **categories})
    return Dataset(
        **terms_of("adult"),
        features=features,
        feature_names=feature_names,
        # adult.test ends its labels in a full stop.
        labels=np.array([income.startswith(">") for income in columns["income"]]),
        sensitive=np.array(columns[sensitive]),
    )


def site_files(random_state: int = 0) -> dict[str, str]:
    """Return the text of each of :data:`FILES`, as CSV: columns of Adult and a model's score.

    Rows are dealt to four sites, each with a file of its own. "together" has the rows of the first three of them in one
    file, with a column "site"; "others" has other rows of these three, to test on, and "new-north" those of the first.
    The model, a logistic regression, was trained on rows that are in none of the files.
    """
    from sklearn.linear_model import LogisticRegression

    data = load_adult()
    dealing, splitting = np.random.default_rng(random_state).spawn(2)
    site = dirichlet_sites(data.sensitive, n_sites=len(_SITES), alpha=_ALPHA, rng=dealing)
    parts = split(len(data), _PARTS, rng=splitting)
    model = LogisticRegression(solver="newton-cholesky").fit(data.features[parts["train"]], data.labels[parts["train"]])
    columns: dict[str, npt.NDArray[Any]] = {"id": np.arange(len(data))}
    for name, shown in _NAMES.items():
        (low, high), scaled = _RANGES[name], data.features[:, data.feature_names.index(name)]
        columns[shown] = (low + (high - low) * scaled).round().astype(int)
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
            for number, name in enumerate(_SITES)
        }
        for part in ("sites", "new")
    }
    found = {name: [header, *own] for name, own in dealt["sites"].items()}
    for name, part in (("together", "sites"), ("others", "new")):
        own = [f"{site},{line}" for site in _SITES[:3] for line in dealt[part][site]]
        found[name] = [f"site,{header}", *own]
    found["new-north"] = [header, *dealt["new"][_SITES[0]]]
    return {name: "\n".join(own) + "\n" for name, own in found.items()}
