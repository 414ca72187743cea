"""What a model sees of the stored ENEM rows, which groups they belong to, and which clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.datasets.enem_rows import AGE_RANGES, QUESTIONS, RACES, SEXES, STATES
from logofair.datasets.prepared import Categories, Scaled

if TYPE_CHECKING:
    import polars

__all__ = ["clients_of", "features_of", "groups_of"]

_WHITE_OR_ASIAN = {code: "White or Asian" if race in ("White", "Asian") else "Other" for code, race in RACES.items()}
_GROUPS = {
    "race": ("TP_COR_RACA", _WHITE_OR_ASIAN),
    "race5": ("TP_COR_RACA", RACES),
    "sex": ("TP_SEXO", {1: "Female", 2: "Male"}),
}


def features_of(sensitive: str, keep_sensitive: bool | None) -> list[Scaled | Categories]:
    """What a model sees: by default sex and not race, as in the paper; else whether it sees the sensitive column.

    Examples
    --------
    >>> [sum(len(feature.names) for feature in features_of("race", keep)) for keep in (None, True, False)]
    [153, 158, 153]
    >>> [sum(len(feature.names) for feature in features_of("sex", keep)) for keep in (None, True, False)]
    [153, 153, 151]
    """
    letters = [(code, chr(64 + code)) for code in range(1, 27)]
    features: list[Scaled | Categories] = [
        Scaled(question, 1, known) if question == "Q005" else Categories(question, dict(letters[:known]))
        for question, known in QUESTIONS.items()
    ]
    features += [Scaled("TP_FAIXA_ETARIA", 1, AGE_RANGES), Categories("SG_UF_PROVA", STATES)]
    if sensitive != "sex" or keep_sensitive is not False:
        features.append(Categories("TP_SEXO", SEXES))
    if sensitive != "sex" and keep_sensitive:
        features.append(Categories("TP_COR_RACA", RACES))
    return features


def groups_of(rows: polars.DataFrame, sensitive: str) -> npt.NDArray[np.str_]:
    """The sensitive group of each row, by name.

    Examples
    --------
    >>> import polars
    >>> groups_of(polars.DataFrame({"TP_COR_RACA": [4, 2]}), "race").tolist()
    ['White or Asian', 'Other']
    """
    column, names = _GROUPS[sensitive]
    groups: npt.NDArray[np.str_] = np.array(["", *names.values()])[rows[column].to_numpy()]  # codes begin at 1
    return groups


def clients_of(codes: npt.NDArray[Any], kind: str, names: Mapping[str, str]) -> npt.NDArray[np.str_]:
    """The municipality or state of each row by name.

    Examples
    --------
    >>> clients_of(np.array([1200401, 1400100]), "municipality", {"1200401": "Rio Branco"}).tolist()
    ['Rio Branco, AC', '1400100, RR']
    """
    found, inverse = np.unique(codes if kind == "municipality" else codes // 100_000, return_inverse=True)
    places = found.tolist()
    if kind == "state":
        labels = [STATES[place] for place in places]
    else:
        labels = [f"{names.get(str(place), place)}, {STATES[place // 100_000]}" for place in places]
        times = Counter(labels)  # no two clients may become one because they are called the same
        pairs = zip(labels, places, strict=True)
        labels = [f"{label} {place}" if times[label] > 1 else label for label, place in pairs]
    clients: npt.NDArray[np.str_] = np.array(labels)[inverse]
    return clients
