"""What privacy costs: accuracy and gaps on test rows against epsilon, on Adult and, where present, on ACS.

Every site's calibration rows are replaced by its noised histogram and the whole federation is solved on these, which
has the same optimum as the protocol's rounds. ``python -m logofair.experiments.privacy`` prints the table of
``docs/PRIVACY.md``; the noise is seeded, so that it prints the same again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from logofair.auditing import audit
from logofair.columns.checks import Floats, Integers
from logofair.datasets import dirichlet_clients, load_adult, split
from logofair.errors import InputError
from logofair.federation.privacy import Privacy, Release, at_edges, histogram, release
from logofair.fitting.fit import fit
from logofair.policy.policy import Policy
from logofair.training import fedavg

__all__ = ["AcsTable", "PrivacyLine", "ScoredData", "lines", "load_acs", "main", "score_acs", "score_adult"]


EPSILONS = (10.0, 3.0, 1.0, 0.3, 0.1)
DELTA, BINS = 1e-6, 32
_TOLERANCE = 0.01
_ROWS_OFF = "rows off"  # by how many rows a cell's selection differs from that on the noised rows, root mean square
_NOTIONS = {"demographic_parity": "DP", "equalized_odds": "EO"}
_PARTS = {"train": 0.35, "calibration": 0.35, "test": 0.3}
_ACS = Path("acs") / "acs_income_2018_35_states.parquet"
_ACS_TRAINED = 100_000


@dataclass(frozen=True, eq=False)
class ScoredData:
    """Rows with scores of a model that saw only the ``train`` part; ``parts`` are row numbers."""

    scores: Floats
    labels: npt.NDArray[np.int64]
    groups: Integers
    clients: Integers
    parts: dict[str, npt.NDArray[np.intp]]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of clients, and of groups."""
        return int(self.clients.max()) + 1, int(self.groups.max()) + 1

    def smallest_cell(self) -> int:
        """Calibration rows of the smallest group of any client."""
        rows = self.parts["calibration"]
        cells = np.ravel_multi_index((self.clients[rows], self.groups[rows]), self.shape)
        return int(np.bincount(cells, minlength=self.shape[0] * self.shape[1]).min())


@dataclass(frozen=True)
class PrivacyLine:
    """One line of the table: a setting, the noise's width, and (mean, spread) of every figure over all runs.

    ``rows_needed`` is the size of a cell from which its selection rate on its real rows lies within 0.01 (root mean
    square) of its rate on the noised ones.

    Examples
    --------
    >>> PrivacyLine("DP", "1", 6.4, {"accuracy": (0.83, 0.001)}, 1967.3).as_markdown()
    '| DP | 1 | 6.4 | 0.830 ± 0.001 | 2,000 |'
    """

    notion: str
    epsilon: str
    scale: float | None
    figures: dict[str, tuple[float, float]]
    rows_needed: float | None

    def as_markdown(self) -> str:
        """The line as a row of a table."""
        figures = (f"{mean:.3f} ± {deviation:.3f}" for mean, deviation in self.figures.values())
        scale = "–" if self.scale is None else f"{self.scale:.1f}"
        needed = "–" if self.rows_needed is None else f"{float(f'{self.rows_needed:.2g}'):,.0f}"
        return "| " + " | ".join([self.notion, self.epsilon, scale, *figures, needed]) + " |"


def score_adult(random_state: int) -> ScoredData:
    """Adult dealt to 5 clients (alpha 0.5), with FedAvg scores, as in ``logofair demo``."""
    data = load_adult()
    dealing, splitting, training = np.random.default_rng(random_state).spawn(3)
    clients = dirichlet_clients(data.sensitive, n_clients=5, alpha=0.5, rng=dealing)
    parts = split(len(data), _PARTS, rng=splitting)
    rows = parts["train"]
    *_, last = fedavg(data.features[rows], data.labels[rows], clients[rows], random_state=training, rounds=20)
    return ScoredData(last.model.scores(data.features), data.labels, _coded(data.sensitive), clients, parts)


@dataclass(frozen=True, eq=False)
class AcsTable:
    """ACS income as a model sees it; clients are the states.

    See :func:`load_acs`, which makes one.
    """

    features: sparse.csr_matrix
    labels: npt.NDArray[np.int64]
    groups: Integers
    clients: Integers


def load_acs() -> AcsTable:
    """Read ACS income of 35 states from ``LOGOFAIR_DATA`` (else ``../shared/data``), where it is present.

    Other features than those of :func:`logofair.datasets.load`: kinds of work, age squared, a sparse table.
    """
    path = Path(os.environ.get("LOGOFAIR_DATA", Path("..") / "shared" / "data")) / _ACS
    if not path.is_file():
        raise InputError(f"{path}: not there; set LOGOFAIR_DATA to the folder that holds {_ACS}.")
    try:
        import polars
    except ImportError:
        raise InputError("ACS: the package polars is not installed; pip install polars.") from None
    from sklearn.preprocessing import OneHotEncoder

    frame = polars.read_parquet(path)
    column = {name: frame[name].to_numpy() for name in frame.columns if name != "STATE"}
    column["OCCP"] = column["OCCP"] // 200  # kinds of work in place of 529 occupations
    kinds = np.column_stack([column[name] for name in ("COW", "SCHL", "MAR", "RELP", "RAC1P", "SEX", "OCCP")])
    age, hours = column["AGEP"] / 100.0, column["WKHP"] / 100.0
    measured = sparse.csr_matrix(np.column_stack([age, age**2, hours]))
    features = sparse.hstack([measured, OneHotEncoder().fit_transform(kinds)])
    states = frame["STATE"].cast(polars.String).to_numpy()
    return AcsTable(features.tocsr(), column["PINCP"].astype(np.int64), _coded(column["SEX"]), _coded(states))


def score_acs(table: AcsTable, random_state: int) -> ScoredData:
    """ACS by state and sex, with the scores of a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(random_state)
    parts = split(table.labels.size, _PARTS, rng=rng)
    rows = rng.choice(parts["train"], min(_ACS_TRAINED, parts["train"].size), replace=False)
    model = LogisticRegression(max_iter=300).fit(table.features[rows], table.labels[rows])
    scores = np.asarray(model.predict_proba(table.features)[:, 1], dtype=np.float64)
    return ScoredData(scores, table.labels, table.groups, table.clients, parts)


def lines(runs: list[ScoredData], draws: int, epsilons: tuple[float, ...] = EPSILONS) -> Iterator[PrivacyLine]:
    """Measure every setting: exact rows, histograms without noise, and ``draws`` noises per run and epsilon.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> scores, group = random.random(4000), random.integers(0, 2, 4000)
    >>> parts = {"calibration": np.arange(2000), "test": np.arange(2000, 4000)}
    >>> rows = ScoredData(scores, (random.random(4000) < scores).astype(int), group, random.integers(0, 2, 4000), parts)
    >>> [line.epsilon for line in lines([rows], draws=1, epsilons=(1.0,))][:4]
    ['model alone', 'exact rows', 'no noise', '1']
    """
    for notion, short in _NOTIONS.items():
        alone = [_audited(run, run.scores[run.parts["test"]] >= 0.5, notion) for run in runs]
        yield _line(short, "model alone", None, alone)
        yield _line(short, "exact rows", None, [_figures(run, notion, _exact(run)) for run in runs])
        yield _line(short, "no noise", None, [_figures(run, notion, _binned(run, None, 0)) for run in runs])
        for epsilon in epsilons:
            privacy = Privacy(epsilon, DELTA, bins=BINS)
            made = [
                _figures(run, notion, _binned(run, privacy, random_state=draws * number + draw))
                for number, run in enumerate(runs)
                for draw in range(draws)
            ]
            scale = release([], [], n_groups=1, privacy=privacy, random_state=0).scale
            yield _line(short, f"{epsilon:g}", scale, made)


def _line(notion: str, epsilon: str, scale: float | None, made: list[dict[str, float]]) -> PrivacyLine:
    figures = {name: np.array([one[name] for one in made]) for name in made[0]}
    off = figures.pop(_ROWS_OFF, None)
    needed = None if scale is None or off is None else float(np.sqrt(np.mean(off**2))) / _TOLERANCE
    means = {name: (float(np.nanmean(found)), float(np.nanstd(found))) for name, found in figures.items()}
    return PrivacyLine(notion, epsilon, scale, means, needed)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What the policy is made of: rows, or (``bins``) the midpoints of bins with counts as weights."""

    scores: Floats
    groups: Integers
    clients: Integers
    weights: Floats
    bins: int | None

    def rates(self, policy: Policy, shape: tuple[int, int]) -> tuple[Floats, Floats]:
        """Selection rate of every cell in expectation (NaN: nobody there), and its size."""
        chance = policy.probabilities(self.scores, groups=self.groups, clients=self.clients, on_unknown="merged")
        cell = np.ravel_multi_index((self.clients, self.groups), shape)
        sums = (np.bincount(cell, w, shape[0] * shape[1]) for w in (chance * self.weights, self.weights))
        selected, size = (np.asarray(each, dtype=np.float64) for each in sums)
        return np.divide(selected, size, out=np.full(size.size, np.nan), where=size > 0), size


def _exact(run: ScoredData) -> _Rows:
    rows = run.parts["calibration"]
    return _Rows(run.scores[rows], run.groups[rows], run.clients[rows], np.ones(rows.size), None)


def _binned(run: ScoredData, privacy: Privacy | None, random_state: int) -> _Rows:
    """Every site's histogram, each with its own noise where there is any."""
    n_clients, n_groups = run.shape
    rows, bins = run.parts["calibration"], BINS
    parts: list[tuple[Floats, Integers, Floats]] = []
    for site in range(n_clients):
        own = rows[run.clients[rows] == site]
        eta, code = run.scores[own], run.groups[own]
        if privacy is None:
            counts = histogram(eta, code, n_groups, bins)
            made = Release(counts, Privacy(1.0, DELTA, bins=bins), np.inf, 0.0, 0.0, "no noise")
        else:
            made = release(eta, code, n_groups=n_groups, privacy=privacy, random_state=n_clients * random_state + site)
        parts.append(made.rows())
    scores, groups, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    sites = np.repeat(np.arange(n_clients, dtype=np.int32), n_groups * bins)
    return _Rows(scores, groups, sites, weights, bins)


def _figures(run: ScoredData, notion: str, rows: _Rows) -> dict[str, float]:
    """Fit on some rows, measure on the test rows, and compare the rates on the fitted and on the real rows."""
    policy = _policy(rows, notion)
    test, real = run.parts["test"], _exact(run)
    groups, clients = run.groups[test], run.clients[test]
    chance = policy.probabilities(run.scores[test], groups=groups, clients=clients, on_unknown="merged")
    (fitted, _), (found, size) = rows.rates(policy, run.shape), real.rates(policy, run.shape)
    off = (fitted - found) * size
    return _audited(run, chance, notion) | {_ROWS_OFF: float(np.sqrt(np.nanmean(off**2)))}


def _policy(rows: _Rows, notion: str) -> Policy:
    policy = fit(
        rows.scores,
        None,
        groups=rows.groups,
        clients=rows.clients,
        notion=notion,
        local_tolerance=_TOLERANCE,
        global_tolerance=_TOLERANCE,
        calibration="none",
        sample_weight=rows.weights,
    ).policy
    if rows.bins is None or policy.merged is None:
        return policy
    return replace(policy, mixtures=at_edges(policy.mixtures, rows.bins), merged=at_edges(policy.merged, rows.bins))


def _audited(run: ScoredData, chance: npt.NDArray[np.generic], notion: str) -> dict[str, float]:
    """Accuracy and gaps by labels on the test rows, in expectation over the policy's coins."""
    test = run.parts["test"]
    measured = audit(chance, run.labels[test], groups=run.groups[test], clients=run.clients[test], notion=notion)
    local = np.max([np.ptp(rates, axis=1) for rates in measured.local_rates.values()], axis=0)
    found: dict[str, float | None] = {"accuracy": measured.accuracy, "global gap": measured.global_gap}
    found |= {"largest local gap": float(np.nanmax(local)), "mean local gap": float(np.nanmean(local))}
    return {name: np.nan if value is None else value for name, value in found.items()}


def _coded(values: npt.NDArray[np.generic]) -> Integers:
    codes: Integers = np.unique(values, return_inverse=True)[1].astype(np.int32)
    return codes


def _print_table(name: str, runs: list[ScoredData], draws: int) -> None:
    smallest = min(run.smallest_cell() for run in runs)
    print(f"\n{name}; smallest cell {smallest} calibration rows; {len(runs)} splits, {draws} noises each\n")
    for number, line in enumerate(lines(runs, draws)):
        if number == 0:
            print("| | epsilon | noise | " + " | ".join(line.figures) + " | rows needed |")
            print("|---|---|---|---|" + "---|" * len(line.figures))
        print(line.as_markdown(), flush=True)


def main(adult_seeds: int = 10, acs_seeds: int = 3, draws: int = 5) -> None:
    """Print the tables of Adult and, where its file is present, of ACS, for that many splits, and noises per split."""
    _print_table(
        "Adult, 5 clients, alpha 0.5", [score_adult(random_state) for random_state in range(adult_seeds)], draws
    )
    try:
        table = load_acs()
    except InputError as absent:
        print(f"\nACS is left out: {absent}")
        return
    _print_table(
        "ACS income, 35 states, sex", [score_acs(table, random_state) for random_state in range(acs_seeds)], draws
    )


if __name__ == "__main__":
    main()
