"""Claims, each judged by a rule on the lines of a run: the paper's, and those that this package makes beyond it.

A claim is a sentence and a rule. A rule makes checks, one for every comparison the claim is about; a check speaks for
the claim, against it, or leaves it open because chance alone could decide: the end of its interval decides, in the
paper's claims and in ours. The checks make the verdict. A claim about all comparisons is confirmed by all of them and
falls with one, so that one is to be beyond what chance does among so many. A claim about most of them is confirmed by
more than half of the comparisons of each figure, and falls where more than half of them speak against it. A figure of
the paper's has no interval of its own: there the mean decides, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from logofair_reproduction.datasets.catalogue import CATALOGUE
from logofair_reproduction.experiments.experiment import METHODS, Experiment, load_experiment
from logofair_reproduction.experiments.summaries import Line, Summary, difference

__all__ = ["CLAIMS", "OURS", "PAPER", "Claim", "Rounds", "Verdict", "one_run", "rounds_needed", "verdicts"]

PAPER, OURS = "paper", "logofair"
_SLIGHT = 0.01  # of accuracy, or of a global gap
_MINOR = 0.05  # of the largest local gap over clients
_STABLE = 0.005  # a figure that changes by less has converged
_NEAR_FLOOR = 0.003
_NEAR_ORACLE = 0.005
_SAME_ACCURACY = 0.001
_SAME_GAP = 0.002
_FEW_ROUNDS, _MANY_ROUNDS = 5, 10
_SIGNIFICANT = 0.05
_ALIKE = 5.0  # from this alpha on
_WORDS = {
    "accuracy": "accuracy",
    "local_gap": "local gap",
    "local_gap_30": "local gap (30+ rows)",
    "global_gap": "global gap",
    "distance": "distance of local and global gap",
}
_BASELINES = ("fedfb", "fairfed", "fcfl")
_RUN = ("budget", "sensitive", "limit", "scheme")  # lines that differ in these are never compared


@dataclass(frozen=True)
class Verdict:
    """What became of a claim on one data set and notion (``place``).

    Parameters
    ----------
    claim, source : str
        The claim in words; ``paper`` or ``logofair``.
    verdict : str
        ``confirmed``, ``not confirmed`` or ``not testable``.
    reason : str
        Why, in a sentence or two.
    figures : tuple of str
        What it rests on, one comparison each.
    place : str
        Data set and notion.
    short : str
        The claim in a few words.
    columns : tuple of str
        Data set and notion in short, such as ``Adult DP``: a column of a table of verdicts, or one for each notion;
        empty where nothing could be compared.
    counts : mapping
        How many comparisons speak ``for`` the claim, ``against`` it, and leave it ``open``.
    """

    claim: str
    source: str
    verdict: str
    reason: str
    figures: tuple[str, ...]
    place: str = ""
    short: str = ""
    columns: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """One comparison: whether it speaks ``for`` a claim, ``against`` it, or leaves it ``open``; and its figures.

    ``figure`` is what was compared, ``lines`` between which lines, ``found`` the difference, and ``read`` how it was
    read; None where no interval decides.
    """

    state: str
    figures: str
    figure: str = ""
    lines: tuple[Line, ...] = ()
    found: Summary | None = None
    read: State | None = None

    def among(self, comparisons: int) -> Check:
        """The check as one of several; open where it is against the claim no more than chance allows one of them."""
        if self.state != "against" or self.found is None or self.read is None:
            return self
        if self.read(self.found.among(comparisons)) == "against":
            return self
        return self.open(f"against by itself, but within chance for one of {comparisons} comparisons")

    def open(self, why: str) -> Check:
        """The check, left open for a reason."""
        return replace(self, state="open", figures=f"{self.figures}; {why}")


@dataclass(frozen=True)
class Claim:
    """A claim and its rule.

    Parameters
    ----------
    source, short, sentence : str
        Who makes it, and what it says: in a few words, and in full.
    experiments : tuple of str
        Which experiments show it, each judged by itself; all of them at once where ``together``.
    rule : callable
        Makes the checks from an experiment's lines on one data set.
    needs : tuple of str
        The methods it names: without one of them it cannot be confirmed.
    most : bool
        Whether most checks of each figure must speak for it ("typically"), in place of all.
    data : tuple of str
        The data sets it is about; empty: all.
    by_mean : bool
        Whether means decide, since what it compares with has no interval of its own.
    """

    source: str
    short: str
    sentence: str
    experiments: tuple[str, ...]
    rule: Callable[[Sequence[Line]], Iterable[Check]]
    needs: tuple[str, ...] = ()
    most: bool = False
    data: tuple[str, ...] = ()
    together: bool = False
    by_mean: bool = False


def verdicts(lines: Sequence[Line]) -> list[Verdict]:
    """Judge every claim on every data set that has lines for it; one that has none is not testable.

    Examples
    --------
    >>> found = verdicts([])
    >>> {verdict.verdict for verdict in found}
    {'not testable'}
    >>> found[0].reason
    'No results for Adult (UCI), ENEM microdata (INEP, Brazil), CelebA: run logofair reproduce comparison_dp.'
    """
    return [verdict for claim in CLAIMS for verdict in _of_claim(claim, lines)]


def _of_claim(claim: Claim, lines: Sequence[Line]) -> Iterator[Verdict]:
    for names in [claim.experiments] if claim.together else [(name,) for name in claim.experiments]:
        plans = {part.splits[0].data: part for part in load_experiment(names[0])}
        notion = " and ".join(load_experiment(name)[0].notion.replace("_", " ") for name in names)
        missing = []
        for data in claim.data or tuple(plans):
            title = CATALOGUE[data].title
            here = [line for line in lines if line.place["experiment"] in names and line.place["data"] == data]
            if own := one_run(here):
                yield _judged(claim, _checks(claim, own), own, plans[data], title, notion)
            else:
                missing.append(title)
        if missing:
            commands = " and ".join(f"logofair reproduce {name}" for name in names)
            reason = f"No results for {', '.join(missing)}: run {commands}."
            yield Verdict(claim.sentence, claim.source, "not testable", reason, (), notion, claim.short)


def _columns(title: str, lines: Sequence[Line]) -> tuple[str, ...]:
    """A data set and the notions of its lines in short, such as Adult DP."""
    notions = dict.fromkeys(line.place["notion"] for line in lines)
    return tuple(f"{title.split()[0]} {''.join(word[0].upper() for word in notion.split('_'))}" for notion in notions)


def one_run(lines: Sequence[Line]) -> list[Line]:
    """Of several runs of an experiment, on other rows perhaps, that with the most settings tried, then most lines."""
    runs: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        runs.setdefault(tuple(line.place[name] for name in _RUN), []).append(line)
    return max(runs.values(), key=lambda run: (run[0].place["budget"] or 0, len(run)), default=[])


def _checks(claim: Claim, lines: Sequence[Line]) -> list[Check]:
    """What a claim's rule makes of some lines; one check alone refutes a claim about all only beyond chance."""
    checks = list(claim.rule(lines))
    return checks if claim.most else [check.among(len(checks)) for check in checks]


def _judged(
    claim: Claim, checks: Sequence[Check], lines: Sequence[Line], plan: Experiment, title: str, notion: str
) -> Verdict:
    """What becomes of a claim on one data set; it has a column where something was decided, or chance could decide."""
    number, lacking = _counts(checks), _lacking(claim, lines)
    verdict = _verdict(claim, checks, complete=not lacking)
    missing = [*lacking, *(f"alpha {alpha:g}" for alpha in _alphas(plan) if alpha not in _values(lines, "alpha"))]
    mean = ", by the mean" if claim.by_mean and checks else ""
    reason = f"{_counted(number)}{mean} ({_basis(checks, lines)})."
    open_ = " Chance alone could decide what is open: other rows would tell, more seeds hardly."
    reason += open_ if number["open"] else ""
    reason += f" Not run: {', '.join(missing)}." if missing else ""
    wording = {"for": "", "against": "against: ", "open": "open: "}
    return Verdict(
        claim.sentence,
        claim.source,
        verdict,
        reason,
        tuple(f"{wording[check.state]}{check.figures}" for check in checks),
        place=f"{title}, {notion}",
        short=claim.short,
        columns=_columns(title, lines) if verdict != "not testable" or number["open"] else (),
        counts=number,
    )


def _verdict(claim: Claim, checks: Sequence[Check], *, complete: bool) -> str:
    """The verdict that checks make; ``complete``: of all methods the claim is about."""
    if claim.most:
        figures = dict.fromkeys(check.figure for check in checks)
        parts = [[check for check in checks if check.figure == name] for name in figures]
        shown = all(2 * _counts(part)["for"] > len(part) for part in parts)
        refuted = any(2 * _counts(part)["against"] > len(part) for part in parts)
    else:
        shown = _counts(checks)["for"] == len(checks)
        refuted = _counts(checks)["against"] > 0
    if shown and checks and complete:
        return "confirmed"
    return "not confirmed" if refuted else "not testable"


def _lacking(claim: Claim, lines: Sequence[Line]) -> list[str]:
    """The methods a claim is about that were not run, or not at every alpha that others were."""
    alphas, found = _values(lines, "alpha"), list[str]()
    ours = [name for name in ("algorithm1_lg", "logofair_lg") if _find(lines, name) is not None]
    for name in dict.fromkeys((*claim.needs, *ours)):
        without = [alpha for alpha in alphas if _find(lines, name, alpha=alpha) is None]
        if _find(lines, name) is None:
            found.append(METHODS[name].title)
        elif without:
            found.append(f"{METHODS[name].title} at alpha {', '.join(f'{alpha:g}' for alpha in without)}")
    return found


def _counts(checks: Sequence[Check]) -> dict[str, int]:
    return {state: sum(check.state == state for check in checks) for state in ("for", "against", "open")}


def _counted(number: Mapping[str, int]) -> str:
    """How many checks speak for a claim, against it, and leave it open."""
    total = sum(number.values())
    if not total:
        return "Too little was run to compare anything"
    parts = [f"{number['for']} of {total} comparison{'' if total == 1 else 's'} for it"]
    parts += [f"{number['against']} against it"] if number["against"] else []
    parts += [f"{number['open']} open"] if number["open"] else []
    return ", ".join(parts)


def _alphas(plan: Experiment) -> list[float]:
    """The degrees of heterogeneity an experiment has."""
    return list(dict.fromkeys(split.alpha for split in plan.splits if split.alpha is not None))


def _basis(checks: Sequence[Check], lines: Sequence[Line]) -> str:
    """The rows of a table and the seeds that a verdict rests on; of all lines where nothing was compared."""
    own = [line for check in checks for line in check.lines] or lines
    counts = {len(values) for line in own for values in line.values.values()}
    few, many = min(counts, default=0), max(counts, default=0)
    number = str(many) if few == many else f"{few} to {many}"
    alphas = ", ".join(f"{alpha:g}" for alpha in _values(own, "alpha"))
    return f"alpha {alphas}; {number} seed{'' if many == 1 else 's'}"


# What rules are made of.


def _find(lines: Iterable[Line], method: str, **place: Any) -> Line | None:
    for line in lines:
        if line.place["method"] == method and all(line.place[name] == value for name, value in place.items()):
            return line
    return None


def _values(lines: Iterable[Line], name: str) -> list[Any]:
    """The different values of a place, in order."""
    return sorted({line.place[name] for line in lines if line.place[name] is not None})


def _at(lines: Sequence[Line], *methods: str) -> Iterator[tuple[str, list[Line]]]:
    """The lines of some methods at every alpha where all of them are."""
    for alpha in _values(lines, "alpha"):
        found = [_find(lines, method, alpha=alpha) for method in methods]
        if all(line is not None for line in found):
            yield f"alpha {alpha:g}", [line for line in found if line is not None]


def _ends(lines: Sequence[Line], method: str, name: str) -> Iterator[tuple[Line, Line]]:
    """A method's lines at the smallest and the largest value of a place, where these are two.

    Their splits differ, so seeds are paired by number alone: differences of independent figures, with a fair interval.
    """
    own = sorted((line for line in lines if line.place["method"] == method), key=lambda line: float(line.place[name]))
    if own and own[0].place[name] != own[-1].place[name]:
        yield own[0], own[-1]


def _as_published(lines: Sequence[Line], *sides: str) -> list[str]:
    """The paper's procedure where it was run for all these sides, else the exact solver: the methods' names."""
    for solver in ("algorithm1", "logofair"):
        names = [f"{solver}_{side}" for side in sides]
        if all(_find(lines, name) is not None for name in names):
            break
    return names


def _interval(found: Summary) -> str:
    reach = "one seed" if found.low is None or found.high is None else f"{found.low:+.4f} to {found.high:+.4f}"
    same = f"same sign in {found.alike} of {found.runs} splits" if found.runs > 1 else ""
    return f"{found.mean:+.4f} ({', '.join(filter(None, (reach, same, found.undefined)))})"


def _negative(found: Summary) -> Summary:
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return replace(found, mean=-found.mean, low=low, high=high)


# How a difference is read: a State says whether it speaks for a claim, against it, or leaves it open. One seed alone
# decides nothing.
State = Callable[[Summary], str]


def _higher(found: Summary) -> str:
    """For where the interval lies above 0, against where it lies below, open where it holds 0."""
    if found.low is None or found.high is None:
        return "open"
    return "for" if found.low > 0 else "against" if found.high < 0 else "open"


def _lower(found: Summary) -> str:
    return _higher(_negative(found))


def _no_lower(margin: float) -> State:
    """Against where the interval lies below 0; for where all of it is near 0 or above; open where it is too wide."""

    def state(found: Summary) -> str:
        if found.low is None or _higher(found) == "against":
            return "open" if found.low is None else "against"
        return "for" if found.low >= -margin else "open"

    return state


def _no_higher(margin: float) -> State:
    return lambda found: _no_lower(margin)(_negative(found))


def _at_most(limit: float) -> State:
    """For where all of the interval keeps a limit, against where all of it exceeds it, open where it holds it."""

    def state(found: Summary) -> str:
        if found.low is None or found.high is None:
            return "open"
        return "for" if found.high <= limit else "against" if found.low > limit else "open"

    return state


def _at_least(limit: float) -> State:
    return lambda found: _at_most(-limit)(_negative(found))


def _mean_at_most(found: Summary) -> str:
    """For where the mean is at most 0, against where the interval lies above it, open where only the mean does."""
    if found.low is None:
        return "open"
    return "for" if found.mean <= 0 else "against" if found.low > 0 else "open"


def _mean_at_least(found: Summary) -> str:
    return _mean_at_most(_negative(found))


def _within(margin: float) -> State:
    """For where all of the interval is nearer to 0 than a margin, against where all of it is farther."""

    def state(found: Summary) -> str:
        if found.low is None or found.high is None:
            return "open"
        if max(abs(found.low), abs(found.high)) <= margin:
            return "for"
        return "against" if found.low > margin or found.high < -margin else "open"

    return state


def _differ(where: str, one: Line, other: Line, figure: str, state: State) -> Iterator[Check]:
    """One line less another, split by split; which local gap is larger stays open where both are below the floor."""
    found = difference(one, other, figure)
    if found is None:
        return
    check = Check(state(found), _words(where, one, other, figure, found), figure, (one, other), found, state)
    ordered = figure.startswith("local_gap") and state in (_higher, _lower)
    if ordered and _below_floor(one) and _below_floor(other):
        yield check.open("both below the noise floor")
    else:
        yield check


def _below_floor(line: Line) -> bool:
    """Whether a line shows no local gap beyond what chance alone would."""
    gap, floor = line.figure("local_gap"), line.figure("floor")
    return gap is not None and floor is not None and gap.mean <= floor.mean


def _words(where: str, one: Line, other: Line, figure: str, found: Summary) -> str:
    shown = [f"{line.title} {_mean(line, figure)}" for line in (one, other)]
    if one.title == other.title:
        shown = [f"{one.title} {_mean(one, figure)} and {_mean(other, figure)}"]
    return f"{where}, {_WORDS[figure]}: {', '.join(shown)}; difference {_interval(found)}"


def _mean(line: Line, figure: str) -> str:
    """The mean, with the paper's behind it where it has one."""
    found, claimed = line.figure(figure), line.claimed or {}
    shown = "undefined" if found is None else f"{found.mean:.4f}"
    return f"{shown} (paper {claimed[figure]:.4f})" if figure in claimed and figure not in line.doubtful else shown


# The paper's claims.


def _beats_global(lines: Sequence[Line]) -> Iterator[Check]:
    (method,) = _as_published(lines, "lg")
    for other in ("fedfb", "fairfed"):
        for where, (one, two) in _at(lines, method, other):
            yield from _differ(where, one, two, "accuracy", _higher)
            yield from _differ(where, one, two, "global_gap", _lower)


def _beats_local(lines: Sequence[Line]) -> Iterator[Check]:
    (method,) = _as_published(lines, "lg")
    for where, (one, two) in _at(lines, method, "fcfl"):
        yield from _differ(where, one, two, "accuracy", _higher)
        yield from _differ(where, one, two, "local_gap", _lower)


def _one_side_fairer(lines: Sequence[Line]) -> Iterator[Check]:
    for where, (local, global_, both) in _at(lines, *_as_published(lines, "l", "g", "lg")):
        yield from _differ(where, local, both, "local_gap", _lower)
        yield from _differ(where, global_, both, "global_gap", _lower)


def _both_sides(lines: Sequence[Line]) -> Iterator[Check]:
    for where, (local, global_, both) in _at(lines, *_as_published(lines, "l", "g", "lg")):
        yield from _differ(where, both, global_, "local_gap", _lower)
        yield from _differ(where, both, local, "global_gap", _lower)
        for other in (local, global_):
            yield from _differ(where, both, other, "accuracy", _at_least(-_SLIGHT))


def _with_distance(line: Line) -> Line:
    """The line with one more figure: how far its local gap is from its global gap, seed by seed."""
    local, global_ = line.values.get("local_gap", {}), line.values.get("global_gap", {})
    apart = {
        split: None if a is None or b is None else abs(a - b)
        for split, a in local.items()
        for b in [global_.get(split)]
    }
    return Line(line.place, {**line.values, "distance": apart}, line.settings)


def _narrows(lines: Sequence[Line]) -> Iterator[Check]:
    for method in ("fedavg", *_BASELINES, *_as_published(lines, "lg")):
        yield from _grows_with_heterogeneity(lines, method, "distance")


def _grows_with_heterogeneity(lines: Sequence[Line], method: str, figure: str) -> Iterator[Check]:
    """A figure at the smallest alpha against the largest; open where the noise floor grows by as much."""
    for few, many in _ends(lines, method, "alpha"):
        one, two = _with_distance(few), _with_distance(many)
        where = f"alpha {few.place['alpha']:g} less {many.place['alpha']:g}"
        grown, floor = difference(one, two, figure), difference(one, two, "floor")
        for check in _differ(where, one, two, figure, _higher):
            if figure != "global_gap" and check.state == "for" and grown and floor and grown.mean <= floor.mean:
                yield check.open(f"the noise floor alone grows by {floor.mean:.4f}")
            else:
                yield check


def _sensitivity(lines: Sequence[Line]) -> Iterator[Check]:
    (method,) = _as_published(lines, "lg")
    sides = {"local": "local_gap", "global": "global_gap"}
    for side, figure in sides.items():
        (other,) = [name for name in sides if name != side]
        sizes = _values(lines, f"{side}_tolerance")
        for fixed in _values(lines, f"{other}_tolerance") if sizes else ():
            at = {f"{other}_tolerance": fixed}
            one, two = (_find(lines, method, **at, **{f"{side}_tolerance": size}) for size in (sizes[0], sizes[-1]))
            if one is None or two is None or one is two:
                continue
            where = f"{other} tolerance {fixed:g}, {side} {sizes[0]:g} less {sizes[-1]:g}"
            yield from _differ(where, one, two, "accuracy", _lower)
            yield from _differ(where, one, two, figure, _lower)


def _few_effects(lines: Sequence[Line]) -> Iterator[Check]:
    (method,) = _as_published(lines, "lg")
    for few, many in _ends(lines, method, "clients"):
        where = f"{many.place['clients']} clients less {few.place['clients']}"
        for figure in ("accuracy", "global_gap"):
            yield from _differ(where, many, few, figure, _within(_SLIGHT))
        floor = difference(many, few, "floor")
        known = f"; the noise floor alone grows by {floor.mean:.4f}" if floor else ""
        for check in _differ(where, many, few, "local_gap", _minor_growth):
            yield replace(check, figures=check.figures + known)


def _minor_growth(found: Summary) -> str:
    """For where it grows beyond chance, by little."""
    grows, small = _higher(found), _within(_MINOR)(found)
    return "against" if "against" in (grows, small) else "for" if grows == small == "for" else "open"


def _converges(lines: Sequence[Line]) -> Iterator[Check]:
    levels = _values([line for line in lines if line.place["method"] == "algorithm1_lg"], "level")
    if _MANY_ROUNDS not in levels or levels[-1] == _MANY_ROUNDS:
        return
    early, late = (_find(lines, "algorithm1_lg", level=level) for level in (_MANY_ROUNDS, levels[-1]))
    if early is not None and late is not None:
        where = f"after {_MANY_ROUNDS} rounds less after {levels[-1]:g}"
        for figure in ("accuracy", "local_gap", "global_gap"):
            yield from _differ(where, early, late, figure, _within(_STABLE))


def _significant(lines: Sequence[Line]) -> Iterator[Check]:
    (method,) = _as_published(lines, "lg")
    for other, (figure, better) in product(
        _BASELINES, {"accuracy": _higher, "local_gap": _lower, "global_gap": _lower}.items()
    ):
        for where, (one, two) in _at(lines, method, other):
            for check in _differ(where, one, two, figure, better):
                if check.found is not None and check.found.p is not None:
                    yield replace(check, figures=f"{check.figures}, p {check.found.p:.3f}")


def _other_side_fails(lines: Sequence[Line]) -> Iterator[Check]:
    yield from _grows_with_heterogeneity(lines, "fcfl", "global_gap")
    yield from _grows_with_heterogeneity(lines, "fedfb", "local_gap")


def _notions_compared(lines: Sequence[Line]) -> Iterator[Check]:
    """Equalized odds less demographic parity, method by method on the same splits."""
    parity, odds = (
        [line for line in lines if line.place["experiment"] == f"comparison_{part}"] for part in ("dp", "eo")
    )
    worse = {"accuracy": _lower, "local_gap": _higher, "global_gap": _higher}
    for method in ("fedavg", *_BASELINES, *_as_published(odds, "lg")):
        for where, (one,) in _at(odds, method):
            two = _find(parity, method, alpha=one.place["alpha"])
            for figure, state in worse.items():
                if two is not None and (method, figure) != ("fedavg", "accuracy"):  # it knows no notion
                    yield from _differ(f"{where}, equalized odds less demographic parity", one, two, figure, state)


def _reproduced(lines: Sequence[Line]) -> Iterator[Check]:
    for line in lines:
        if line.place["method"] == _as_published(lines, "lg")[0]:
            for figure in ("accuracy", "local_gap", "global_gap"):
                yield from _as_good_as_claimed(line, figure)


def _as_good_as_claimed(line: Line, figure: str) -> Iterator[Check]:
    """A figure less the paper's, by the mean; open where the paper's is a local gap that chance alone exceeds."""
    claimed, floor = line.claimed, line.figure("floor")
    if claimed is None or figure in line.doubtful:
        return
    paper, values = claimed[figure], line.values.get(figure, {}).values()
    found = Summary.of_values([None if value is None else value - paper for value in values])
    if found is None:
        return
    read = _mean_at_least if figure == "accuracy" else _mean_at_most
    words = f"{_row(line)}, {_WORDS[figure]}: {line.title} {paper + found.mean:.4f}, paper {paper:.4f}; difference "
    check = Check(read(found), words + _interval(found), figure, (line,), found, read)
    if figure == "local_gap" and check.state != "for" and floor is not None and paper < floor.mean:
        check = check.open(f"the noise floor of these rows is {floor.mean:.4f}")
    yield check


def _row(line: Line) -> str:
    place = line.place
    if place["experiment"].startswith("sensitivity"):
        return f"tolerances {place['local_tolerance']:g} and {place['global_tolerance']:g}"
    return f"alpha {place['alpha']:g}"


# What this package claims.


def _global_at_no_cost(lines: Sequence[Line]) -> Iterator[Check]:
    for other in ("fedfb", "fairfed"):
        for where, (one, two) in _at(lines, "logofair_lg", other):
            yield from _differ(where, one, two, "global_gap", _lower)
            yield from _differ(where, one, two, "accuracy", _no_lower(_SLIGHT))


def _local_at_no_cost(lines: Sequence[Line]) -> Iterator[Check]:
    for where, (one, two) in _at(lines, "logofair_lg", "fcfl"):
        yield from _differ(where, one, two, "local_gap_30", _lower)
        yield from _differ(where, one, two, "accuracy", _no_lower(_SLIGHT))


def _same_gaps(lines: Sequence[Line]) -> Iterator[Check]:
    for other in _BASELINES:
        for where, (one, two) in _at(lines, f"like_{other}", f"{other}_half"):
            yield from _differ(where, one, two, "accuracy", _no_lower(_SLIGHT))
            yield from _differ(where, one, two, "local_gap_30", _no_higher(_MINOR))
            yield from _differ(where, one, two, "global_gap", _no_higher(_SLIGHT))


def _claimed(figure: str) -> Callable[[Sequence[Line]], Iterator[Check]]:
    def rule(lines: Sequence[Line]) -> Iterator[Check]:
        for _, (line,) in _at(lines, "logofair_lg"):
            yield from _as_good_as_claimed(line, figure)

    return rule


def _alike(lines: Sequence[Line]) -> list[Line]:
    """The lines where clients' data are alike enough for every client to have rows of all groups."""
    return [line for line in lines if line.place["alpha"] is not None and line.place["alpha"] >= _ALIKE]


def _near_floor(lines: Sequence[Line]) -> Iterator[Check]:
    for where, (line,) in _at(_alike(lines), "logofair_lg"):
        found = difference(line, line, "local_gap", minus="floor_at_tolerance")
        if found is not None:
            words = f"{where}, local gap less the floor of a rule with the tolerance's gap: {_interval(found)}"
            read = _at_most(_NEAR_FLOOR)
            yield Check(read(found), words, "local_gap", (line,), found, read)


def _near_oracle(lines: Sequence[Line]) -> Iterator[Check]:
    for where, (one, two) in _at(_alike(lines), "oracle_same", "logofair_lg"):
        yield from _differ(where, one, two, "accuracy", _at_most(_NEAR_ORACLE))


def _no_better_elsewhere(lines: Sequence[Line]) -> Iterator[Check]:
    for where, (one, two) in _at(_alike(lines), "oracle_elsewhere", "logofair_lg"):
        yield from _differ(where, one, two, "accuracy", _at_most(_SAME_ACCURACY))


@dataclass(frozen=True)
class Rounds:
    """How many rounds the exact protocol took on average, its global gap, and when Algorithm 1 came near that gap.

    ``algorithm1`` is None where it did not within the ``most`` rounds measured; ``most`` is None where it was not run.
    """

    protocol: Summary
    gap: Summary
    algorithm1: float | None
    most: float | None

    @property
    def comparison(self) -> str:
        """Algorithm 1 beside the protocol, in words."""
        near = f"within {_SAME_GAP:g} of the protocol's global gap of {self.gap.mean:.4f}"
        if self.algorithm1 is None:
            return f"Algorithm 1 does not come {near} in {self.most:g} rounds"
        return f"Algorithm 1 comes {near} after {self.algorithm1:g} rounds"


def rounds_needed(lines: Sequence[Line]) -> Rounds | None:
    """The rounds that the exact protocol and Algorithm 1 need for the same global gap; None without the protocol."""
    protocol = _find(lines, "protocol")
    took, gap = (protocol.figure("rounds"), protocol.figure("global_gap")) if protocol else (None, None)
    if took is None or gap is None:
        return None
    gaps = {
        line.place["level"]: found.mean
        for line in lines
        if line.place["method"] == "algorithm1_lg" and (found := line.figure("global_gap")) is not None
    }
    first = next((level for level in sorted(gaps) if gaps[level] <= gap.mean + _SAME_GAP), None)
    return Rounds(took, gap, first, max(gaps, default=None))


def _fewer_rounds(lines: Sequence[Line]) -> Iterator[Check]:
    """The protocol's rounds; and after each number of rounds below many, how much larger Algorithm 1's gap still is."""
    found, protocol = rounds_needed(lines), _find(lines, "protocol")
    if found is None or protocol is None or found.most is None or found.most < _MANY_ROUNDS:
        return
    few, words = _at_most(_FEW_ROUNDS), f"exact protocol: {found.protocol.mean:.1f} rounds on average"
    yield Check(few(found.protocol), words, "rounds", (protocol,), found.protocol, few)
    for level in _values(lines, "level"):
        early = _find(lines, "algorithm1_lg", level=level)
        if early is not None and level < _MANY_ROUNDS:
            where = f"after {level:g} round{'' if level == 1 else 's'}"
            yield from _differ(where, early, protocol, "global_gap", _at_least(_SAME_GAP))


def _on_plain_scores(lines: Sequence[Line]) -> Iterator[Check]:
    for other in _BASELINES:
        for where, (one, two) in _at(lines, "logofair_lg", f"on_{other}"):
            yield from _differ(where, one, two, "accuracy", _no_lower(_SLIGHT))


_COMPARISONS = ("comparison_dp", "comparison_eo")
_SENSITIVITY = ("sensitivity_dp", "sensitivity_eo")
_ROUNDS = ("rounds_dp", "rounds_eo")
_NO_LOSS = f"(all of the interval above -{_SLIGHT:g}, and not all of it below 0)"
_REACHED = (
    "the paper's figures of LoGoFair_l&g are reached: accuracy at least, gaps at most as published (figures that "
    "cannot be measurements left out)."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        PAPER,
        "Beats FedFB, FairFed globally",
        "Against FedFB and FairFed, LoGoFair gets both better accuracy and a lower global gap.",
        _COMPARISONS,
        _beats_global,
        needs=("fedfb", "fairfed"),
    ),
    Claim(
        PAPER,
        "Beats FCFL locally",
        "LoGoFair surpasses FCFL in accuracy and in local fairness.",
        _COMPARISONS,
        _beats_local,
        needs=("fcfl",),
    ),
    Claim(
        PAPER,
        "One-sided variants fairer on one side",
        "Typically LoGoFair_l is locally fairer, and LoGoFair_g globally fairer, than LoGoFair_l&g.",
        _COMPARISONS,
        _one_side_fairer,
        most=True,
    ),
    Claim(
        PAPER,
        "Both gaps small at slight loss",
        "LoGoFair_l&g generally gives both local and global fairness at a slight loss of accuracy "
        f"(here: at most {_SLIGHT:g}) against LoGoFair_l and LoGoFair_g.",
        _COMPARISONS,
        _both_sides,
        most=True,
    ),
    Claim(
        PAPER,
        "Gaps nearer where clients are alike",
        "The local and the global gap come nearer to each other as clients' data become more alike (alpha grows).",
        _COMPARISONS,
        _narrows,
    ),
    Claim(
        PAPER,
        "Tolerances trade accuracy for gaps",
        "With one tolerance fixed, a smaller other one lowers accuracy and the gap on its side.",
        _SENSITIVITY,
        _sensitivity,
    ),
    Claim(
        PAPER,
        "2 to 50 clients change little",
        f"From 2 to 50 clients the local gap grows slightly (here: at most {_MINOR:g}); accuracy and the global gap "
        f"fluctuate slightly (here: at most {_SLIGHT:g}).",
        ("clients_dp", "clients_eo"),
        _few_effects,
    ),
    Claim(
        PAPER,
        f"Algorithm 1 converges within {_MANY_ROUNDS} rounds",
        f"Accuracy and gaps converge within {_MANY_ROUNDS} rounds of Algorithm 1 (here: they change by at most "
        f"{_STABLE:g} afterwards).",
        _ROUNDS,
        _converges,
    ),
    Claim(
        PAPER,
        "Every advantage is significant",
        f"All outcomes are significant at {_SIGNIFICANT:g} (here: LoGoFair_l&g is better than each baseline in "
        "accuracy and both gaps).",
        _COMPARISONS,
        _significant,
        needs=_BASELINES,
    ),
    Claim(
        PAPER,
        "Training for one side fails the other",
        "Methods made for one side decline on the other as clients differ more: FCFL in its global gap, FedFB in its "
        "local gap.",
        ("introduction",),
        _other_side_fails,
        needs=("fcfl", "fedfb"),
    ),
    Claim(
        PAPER,
        "Equalized odds harder than parity",
        "All methods do slightly worse under equalized odds than under demographic parity.",
        _COMPARISONS,
        _notions_compared,
        needs=_BASELINES,
        together=True,
    ),
    Claim(
        PAPER,
        "Paper's comparison figures reached",
        f"In the comparison, {_REACHED}",
        _COMPARISONS,
        _reproduced,
        by_mean=True,
    ),
    Claim(
        PAPER,
        "Paper's sensitivity figures reached",
        f"At several tolerances, {_REACHED}",
        _SENSITIVITY,
        _reproduced,
        by_mean=True,
    ),
    Claim(
        OURS,
        "Globally fairer at no less accuracy",
        "On the same splits LoGoFair_l&g has a lower global gap than FedFB and FairFed, at no lower accuracy "
        f"{_NO_LOSS}.",
        _COMPARISONS,
        _global_at_no_cost,
        needs=("fedfb", "fairfed"),
    ),
    Claim(
        OURS,
        "Locally fairer at no less accuracy",
        "On the same splits LoGoFair_l&g has a lower local gap (between rates on 30+ rows) than FCFL, at no lower "
        f"accuracy {_NO_LOSS}.",
        _COMPARISONS,
        _local_at_no_cost,
        needs=("fcfl",),
    ),
    Claim(
        OURS,
        "As accurate at a baseline's gaps",
        "With tolerances as large as a baseline's own gaps, LoGoFair_l&g is at least as accurate as the baseline "
        f"trained on as many rows {_NO_LOSS}, at gaps that are no larger (local: by at most {_MINOR:g}, global: "
        f"{_SLIGHT:g}).",
        _COMPARISONS,
        _same_gaps,
        needs=("like_fedfb", "like_fairfed", "like_fcfl", "fedfb_half", "fairfed_half", "fcfl_half"),
    ),
    Claim(
        OURS,
        "Accuracy at least the paper's",
        "LoGoFair_l&g: accuracy at least the paper's in every row.",
        ("comparison_dp",),
        _claimed("accuracy"),
        data=("adult",),
        by_mean=True,
    ),
    Claim(
        OURS,
        "Global gap at most the paper's",
        "LoGoFair_l&g: global gap at most the paper's in every row.",
        ("comparison_dp",),
        _claimed("global_gap"),
        data=("adult",),
        by_mean=True,
    ),
    Claim(
        OURS,
        "Local gap near the noise floor",
        f"LoGoFair_l&g: local gap at most {_NEAR_FLOOR:g} above the noise floor of a rule whose true gap is the "
        "tolerance (alpha 5 and 100).",
        ("comparison_dp",),
        _near_floor,
        data=("adult",),
    ),
    Claim(
        OURS,
        "Accuracy near the oracle's",
        f"LoGoFair_l&g is at most {_NEAR_ORACLE:g} less accurate than the best rule with its scores and gaps on the "
        "same test rows (alpha 5 and 100).",
        _COMPARISONS,
        _near_oracle,
    ),
    Claim(
        OURS,
        "Labels would choose no better rule",
        f"The rule that labels choose on the calibration rows is at most {_SAME_ACCURACY:g} more accurate than "
        "LoGoFair_l&g on the test rows: what the oracle has beyond that is its look at the test rows' labels (alpha 5 "
        "and 100).",
        _COMPARISONS,
        _no_better_elsewhere,
    ),
    Claim(
        OURS,
        f"{_FEW_ROUNDS} rounds where Algorithm 1 takes {_MANY_ROUNDS}",
        f"The exact protocol needs at most {_FEW_ROUNDS} rounds where Algorithm 1 needs {_MANY_ROUNDS} or more for "
        f"the same global gap (within {_SAME_GAP:g}).",
        _ROUNDS,
        _fewer_rounds,
        needs=("protocol", "algorithm1_lg"),
    ),
    Claim(
        OURS,
        "Plain FedAvg scores do as well",
        "Post-processing FedAvg's scores is at least as accurate as post-processing those of FedFB, FairFed and FCFL "
        f"{_NO_LOSS}.",
        _COMPARISONS,
        _on_plain_scores,
        needs=("on_fedfb", "on_fairfed", "on_fcfl"),
    ),
)
