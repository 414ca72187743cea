"""What the page asks, and the plain values it is answered: both homes carry the same messages."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from logofair import records
from logofair.auditing import Outcome, Outcomes
from logofair.columns.checks import Floats
from logofair.errors import InfeasibleError, InputError, LogofairError
from logofair.notions import NOTIONS
from logofair.outcomes import CALIBRATION_ROWS, EXCEEDED
from logofair.policy.rules import bands_of
from logofair.requirement import TODAY, People, Requirement, name_text
from logofair.studio.session import MeasuredSolution, Session, Setting, Threshold, largest_gap
from logofair.words import page_of
from logofair.words.answers import cost_answer, fair_answer, rely_answer, shares_accepted
from logofair.words.explained import rule_in_words
from logofair.words.fitted import fit_page
from logofair.words.limits import (
    Places,
    conflict_lines,
    figure,
    headline,
    least_changes,
    prices,
    shown_outcomes,
    subject,
    unit_of,
    verdict,
)
from logofair.words.live import (
    by_hand_sentence,
    compared_lines,
    live_warnings,
    notion_words,
    who_pays,
)
from logofair.words.phrases import capitalised, counted, group_name, name_of, people
from logofair.words.sections import Verdict
from logofair.words.tradeoffs import recommended_words

FEWEST = 10  # people behind whatever is shown: no row ever leaves
_BINS = 48
_RANGES = {"percent": (0.0, 100.0), "logit": (-8.0, 8.0)}  # of scores, which are shares elsewhere
_LOCAL = "local"  # a setting's own names of its two sides
_EXPORTS = {"policy": "policy.json", "report": "report.html", "figure": "figure.svg"}


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a page asks: ``what`` is one of ``solve``, ``frontier``, ``recommend``, ``export`` and ``start``.

    ``tab`` and ``turn`` say which page asks and how often it has asked before: only its newest wish is answered.
    ``site`` is looked at closely, with the thresholds that a hand has set; ``side`` is the limit a frontier varies;
    ``export`` which file is asked for.
    """

    what: str
    tab: str = ""
    turn: int = 0
    setting: Setting | None = None
    site: str | None = None
    hand: tuple[Threshold, ...] = ()
    side: str = "overall"
    export: str = "policy"

    @classmethod
    def read(cls, tree: Any) -> Wish:
        """Read what a page sent, or refuse it in a sentence."""
        try:
            wish = records.read(tree, cls)
        except InputError:
            raise
        except records.FAULTS as error:
            raise InputError(f"studio: this request cannot be read ({error}); reload the page.") from None
        if wish.what not in _ANSWERS:
            raise InputError(f"studio: got {wish.what!r}; ask for one of {', '.join(_ANSWERS)}.")
        return wish

    @property
    def is_long(self) -> bool:
        """Whether it is worked on beside the others, since it takes seconds."""
        return self.what in ("recommend", "export")

    def is_stale(self, newest: Mapping[str, int]) -> bool:
        """Whether its page has asked anew since, of which ``newest`` knows the last turn of each kind.

        A frontier is stale, too, once the page has moved on to another setting.
        """
        others = (self.what, "solve") if self.what == "frontier" else (self.what,)
        return any(newest.get(each, 0) > self.turn for each in others)


def answers(session: Session, wish: Wish) -> Iterator[dict[str, Any]]:
    """Return the answer in steps, the last of which is the answer: whoever carries it may stop between two.

    What cannot be had is an answer too, with its sentence.
    """
    try:
        yield from _ANSWERS[wish.what](session, wish)
    except InfeasibleError as error:
        yield _conflict(session, wish, error)
    except LogofairError as error:
        yield {"trouble": str(error)}


# ---------------------------------------------------------------- the first answer


def _start(session: Session, wish: Wish) -> Iterator[dict[str, Any]]:
    """What the controls need to know of the data, and the setting to begin with."""
    about, size = session.about, session.prepared.rows.scores.size
    word, several = about.site_word, len(session.sites) > 1
    tested = 0 if session.test_rows is None else len(session.test_rows["scores"])
    free = session.solved(replace(session.start, local=None, overall=None, require=(), confidence=None))
    labelled = session.prepared.rows.labels is not None or session.basis == "eta"
    notions = [each for each in NOTIONS.values() if labelled or not any(rate.needs_labels for rate in each.rates)]

    def names(of: tuple[Any, ...]) -> list[dict[str, str]]:
        return [{"name": str(one), "shown": name_of(one), "typed": name_text(str(one))} for one in of]

    yield {
        "name": about.name,
        "people": people(size) + (f", {counted(len(session.sites), word)}" if several else ""),
        "tested": f"Tested on {tested:,} others." if tested else "",
        "site_word": word,
        "all": Places(word, several).all(),
        "accepted": about.accepted,
        "sites": names(session.sites),
        "site": session.largest_site,
        "groups": names(session.groups),
        "attributes": list(getattr(session.groups[0], "columns", ())),  # of groups that are intersections of several
        "notions": [{"name": each.name, "shown": notion_words(each)} for each in notions],
        "rows": size,
        "gaps": {side: largest_gap(free, session.start, side) for side in (_LOCAL, "overall")},
        "setting": records.plain(session.start),
    }


# ---------------------------------------------------------------- one setting


def _solve(session: Session, wish: Wish) -> Iterator[dict[str, Any]]:
    found = session.solved(wish.setting or session.start)
    hand = _hand(session, found, session.by_hand(found, wish.hand)) if wish.hand else None
    yield shown(session, found, wish) | {"hand": hand}


def shown(session: Session, found: MeasuredSolution, wish: Wish) -> dict[str, Any]:
    """Return all that the page shows of some rules."""
    solution, setting = found.solution, found.setting
    places = Places(session.about.site_word, several=len(session.sites) > 1)
    outcomes = solution.outcomes
    judged = shown_outcomes(outcomes)
    how = "add --test FILE, or --confidence 0.95" if session.about.data else "pass test_rows=, or confidence=0.95"
    said = verdict(outcomes, places, how) or Verdict("nothing required", "Nothing is required yet: set a limit.")
    expected = solution.tested is None and solution.rows.labels is None
    tiles = [fair_answer(judged, places), cost_answer(found.compared, expected=expected)]
    tiles.append(rely_answer(outcomes, places, how, solution.tested))
    changed = _changed_by_site(found)
    promised = None if len(solution.certified) else setting.confidence
    return {
        "setting": records.plain(setting),
        "verdict": asdict(said) | {"word": said.word},
        "tiles": [asdict(each) for each in tiles],
        "value": solution.certificate.primal,
        "drawn": _drawn(found),
        "measure": solution.certificate.objective,
        "optimality_gap": solution.certificate.optimality_gap,
        "outcomes": [each.as_dict() for each in outcomes if each.site is None and _enough(each)],
        "series": _series(judged, outcomes),
        "compared": compared_lines(found.compared, judged, changed.get(""), FEWEST),
        "changed": changed,
        "accepted": shares_accepted(found.compared.second.global_.tally)[0].tolist(),
        "accepted_people": round(float(found.compared.second.accepted or 0.0) * solution.rows.scores.size),
        "limits": [_limit_control(item) for item in session.items(setting)],
        "prices": list(prices(outcomes.where(basis=CALIBRATION_ROWS), solution.certificate.objective)),
        "warnings": list(live_warnings(found.compared, setting.notion, promised)),
        "site": None if wish.site is None else _site(session, found, wish.site),
        **commands(session, setting),
    }


def _enough(each: Outcome) -> bool:
    """Whether a figure rests on people enough to be shown."""
    return each.rows is None or each.rows >= FEWEST


def _series(judged: Outcomes, outcomes: Outcomes) -> list[dict[str, Any]]:
    """For every requirement its places, before and after, with interval, limit and, beside tested rows, the fit's."""
    found: dict[str, dict[str, Any]] = {}
    lead = headline(judged)
    for requirement in sorted(judged.requirements, key=lambda each: lead is not None and each != lead.requirement):
        here = judged.where(requirement=requirement)
        tested, unit, first = here[0].basis != CALIBRATION_ROWS, unit_of(here[0]), replace(here[0], rate=None)
        fit = outcomes.where(basis=CALIBRATION_ROWS, requirement=requirement) if tested else ()
        fitted = {each.site: each for each in fit}
        # All limits on the same gap are drawn together, inside sites and over all.
        key = subject(first) if requirement.measure == "gap" else str(requirement)
        about = {"subject": capitalised(subject(first)), "unit": unit, "scale": 100.0 if unit else 1.0}
        about |= {"relation": requirement.relation, "tested": tested}
        lines = found.setdefault(key, about | {"rows": []})["rows"]
        for each in here:
            line: dict[str, Any] = {"site": None if each.site is None else str(each.site), "limit": each.limit}
            line |= {"small": each.too_small, "state": each.state, "words": "too few people"}
            if _enough(each):
                line |= {name: getattr(each, name) for name in ("before", "after", "low", "high", "rows")}
                line["words"] = f"{figure(each, each.before)} -> {figure(each, each.after)}"
                line["fit"] = fitted[each.site].after if each.site in fitted else None
            lines.append(line)
    return list(found.values())


def _changed_by_site(found: MeasuredSolution) -> dict[str, int | None]:
    """About how many people change side, over all and at every site; None where they are too few to tell."""
    second = found.compared.second
    if found.changed is None:
        return {}
    rows = second.local.tally.rows.sum(axis=-1)
    people = (found.changed * rows).sum(axis=1)
    lines = zip(second.sites, people.tolist(), rows.sum(axis=1).tolist(), strict=True)
    by_site = {str(site): round(number) if count >= FEWEST else None for site, number, count in lines}
    return {"": round(people.sum())} | by_site


def _limit_control(item: Requirement) -> dict[str, Any]:
    """A requirement as a control: the sentence around its bound, and the bound."""
    number = item.bound.number if isinstance(item.bound, People) else item.bound
    text = str(item)
    bound = f"{number} people" if isinstance(item.bound, People) else str(number).removesuffix(".0")
    head, relation, tail = text.partition(f" {item.relation} {bound}")
    assert relation
    return {
        "text": text,
        "head": f"{head} {item.relation} ",
        "bound": None if number == TODAY else number,
        "tail": (" people" if isinstance(item.bound, People) else "") + tail,
        "people": isinstance(item.bound, People),
        "share": all(rate.is_share for rate in item.rates) and not item.measure.startswith("cost"),
    }


# ---------------------------------------------------------------- one site, and rules made by hand


def _site(session: Session, found: MeasuredSolution, name: str) -> dict[str, Any]:
    """How scores of every group lie at a site, from where people are accepted, and who changes side."""
    site = session.place(name)
    groups, (low, high) = [], _RANGES.get(session.scale, (0.0, 1.0))
    first, second = found.compared.first, found.compared.second
    here = [str(each) for each in second.sites].index(name) if name in map(str, second.sites) else None
    here = 0 if len(session.sites) == 1 else here
    for at, group in enumerate(session.groups):
        scores = session.scores_of(site, at)
        bands = bands_of(found.solution.policy, site, at)
        line: dict[str, Any] = {"group": str(group), "shown": group_name(group), "people": int(scores.size)}
        line["bins"] = _bins(scores, low, high) if scores.size >= FEWEST else None
        line["bands"] = [[band.raw_low, band.raw_high, band.chance] for band in bands]
        line["rule"] = capitalised(rule_in_words(bands, session.about.accepted))
        if here is not None and second.local.tally.rows[here, at].sum() >= FEWEST:
            line["before"], line["now"] = (
                float(shares_accepted(each.local.tally)[here, at]) for each in (first, second)
            )
        groups.append(line if scores.size >= FEWEST else line | {"people": None})
    return {"name": name, "shown": name_of(session.sites[site]), "groups": groups, "low": low, "high": high}


def _bins(scores: Floats, low: float, high: float) -> list[list[float]]:
    """Numbers of people by score, every bin of as many people as may be told."""
    count, edges = np.histogram(np.clip(scores, low, high), _BINS, (low, high))
    bins: list[list[float]] = []
    for at, number in enumerate(count.tolist()):
        if bins and bins[-1][2] < FEWEST:
            bins[-1][1:] = [float(edges[at + 1]), bins[-1][2] + number]
        else:
            bins.append([float(edges[at]), float(edges[at + 1]), number])
    if len(bins) > 1 and bins[-1][2] < FEWEST:
        _, last, number = bins.pop()
        bins[-1][1:] = [last, bins[-1][2] + number]
    return bins


def _hand(session: Session, best: MeasuredSolution, made: MeasuredSolution) -> dict[str, Any]:
    """How far a rule made by hand is from the optimum, which limits it exceeds, and who pays."""
    places = Places(session.about.site_word, several=len(session.sites) > 1)
    proofs = best.solution.certificate, made.solution.certificate
    shown_ = Outcomes(tuple(each for each in made.solution.proved if each.state == EXCEEDED and _enough(each)))
    second = made.compared.second
    rows = second.local.tally.rows.sum(axis=-1)
    change = (shares_accepted(second.local.tally) - shares_accepted(best.compared.second.local.tally)) * rows
    change[rows < FEWEST] = 0.0
    return {
        "sentence": by_hand_sentence(*proofs, shown_, places),
        "who": who_pays(change, second.groups, second.sites if places.several else ()),
        "value": proofs[1].primal,
    }


# ---------------------------------------------------------------- the frontier, and limits that can be defended


def _frontier(session: Session, wish: Wish) -> Iterator[dict[str, Any]]:
    """The best value at every limit of one side, with its interval on test rows, point by point."""
    setting = wish.setting or session.start
    if wish.side not in (_LOCAL, "overall"):
        raise InputError(f"side: got {wish.side!r}; use local or overall.")
    points_: list[dict[str, Any]] = []
    for limit_, found in session.frontier(setting, wish.side):
        points_.append({"limit": limit_} | _drawn(found))
        measure = found.solution.certificate.objective
        yield {"side": wish.side, "measure": measure, "points": points_, "setting": records.plain(setting)}


def _drawn(found: MeasuredSolution) -> dict[str, float | None]:
    """Accuracy, or the cost per person, as the frontier has it: on test rows with its interval, else proved."""
    tested = found.solution.tested is not None
    measured = getattr(found.compared.second, found.solution.certificate.objective) if tested else None
    if measured is None:
        return {"value": found.solution.certificate.primal, "low": None, "high": None}
    return {"value": float(measured), "low": measured.low, "high": measured.high}


def _recommend(session: Session, wish: Wish) -> Iterator[dict[str, Any]]:
    """The limits that these rows can certify for new people, as buttons."""
    setting = wish.setting or session.start
    found = session.recommended(setting)
    lines = []
    for line in found.lines:
        if line.found:
            local, overall, promised = line.local_limit, line.global_limit, line.confidence
            own = replace(setting, notion=line.notion, local=local, overall=overall, confidence=promised)
            lines.append({"words": recommended_words(found, line), "setting": records.plain(own)})
    nothing = "" if lines else "These data are too few to guarantee any limit up to 20 points for new people."
    yield {"lines": lines, "nothing": nothing}


def _conflict(session: Session, wish: Wish, error: InfeasibleError) -> dict[str, Any]:
    """What conflicts, and for each change that resolves it the setting that has it."""
    setting, relaxation = wish.setting or session.start, error.least_relaxation
    changes, buttons = iter(least_changes(relaxation) or []), []
    for old, amount in relaxation.items():
        new = None if amount is None else next(changes, None)
        words, own = f"Leave out: {old}" if new is None else str(new), setting.exchanged(old, new)
        buttons.append({"words": words, "setting": records.plain(own), "enough": amount is not None})
    sentence = conflict_lines(relaxation)
    sentence = str(error) if sentence is None else capitalised(sentence.partition("\n")[0])
    limits = [_limit_control(item) for item in session.items(setting)]
    return {"conflict": sentence, "changes": buttons, "limits": limits, **commands(session, setting)}


# ---------------------------------------------------------------- what leaves the page


def commands(session: Session, setting: Setting) -> dict[str, str]:
    """Return the command and the Python call that make the same again."""
    asked = session.arguments(setting)
    options: list[str] = ["--notion", setting.notion]
    for name in (_LOCAL, "global"):
        limit_ = asked[f"{name}_tolerance"]
        options += [f"--{name}", "none" if limit_ is None else _number(limit_)]
    for item in asked["require"]:
        options += ["--require", str(item)]
    costs = setting.costs or {}
    for site, pair in (costs if isinstance(costs, dict) else {"": costs}).items():
        options += ["--costs", f"{site}{'=' if site else ''}{','.join(map(_number, pair))}"]
    if setting.confidence is not None:
        options += ["--confidence", _number(setting.confidence)]
    options += ["--seed", str(session.random_state), "--out", "policy.json", "--report", "report.html"]
    command = f"{session.about.command} {shlex.join(options)}" if session.about.command else ""
    return {"command": command, "call": _call(session, asked)}


def _number(value: float) -> str:
    """A number as it is typed, to the last bit."""
    return repr(float(value)).removesuffix(".0")


def _call(session: Session, asked: Mapping[str, Any]) -> str:
    """The Python call, of columns named as in the files, or as arguments."""
    source = session.about.data
    roles = {} if source is None else source.columns

    def column(role: str, argument: str) -> str:
        if role == "group" and session.columns is not None and len(session.columns.group) > 1:
            return f"data[{json.dumps(session.columns.group)}]"
        return f"data[{json.dumps(roles[role])}]" if role in roles and ", " not in roles[role] else argument

    given = [("sensitive_features", "group"), ("sites", "site"), ("sample_weight", "weight"), ("ids", "id")]
    parts = [column("score", "scores"), column("label", "labels") if session.rows.get("labels") is not None else "None"]
    parts += [f"{name}={column(role, name)}" for name, role in given if session.rows.get(name) is not None]
    parts += [
        f"{name}={[str(each) for each in value] if name == 'require' else value!r}"
        for name, value in asked.items()
        if value is not None or name.endswith("tolerance")
        if not (name == "require" and not value)
    ]
    usual = {"calibration": "beta", "basis": "eta", "pooling": "auto"}
    parts += [f"{name}={session.options[name]!r}" for name in usual if session.options[name] != usual[name]]
    parts.append(f"random_state={session.random_state}")
    return f"logofair.fit({', '.join(parts)})"


def _export(session: Session, wish: Wish) -> Iterator[dict[str, Any]]:
    """A file, and what the page shows of the very solution that it holds: fitted anew, as the command would."""
    if wish.export not in _EXPORTS:
        raise InputError(f"export: got {wish.export!r}; use one of {', '.join(_EXPORTS)}.")
    setting = wish.setting or session.start
    found = session.fitted(setting)
    about = replace(session.about, command=commands(session, setting)["command"])
    with TemporaryDirectory() as folder:
        path = Path(folder, _EXPORTS[wish.export])
        if wish.export == "policy":
            found.solution.policy.save(path)
        elif wish.export == "report":
            fit_page(found.solution, about).save(path)
        else:
            page_of(found.solution, about).plot().save(path)
        data = base64.b64encode(path.read_bytes()).decode()
    yield {"name": path.name, "data": data, "answer": shown(session, found, wish)}


_ANSWERS = {"start": _start, "solve": _solve, "frontier": _frontier, "recommend": _recommend, "export": _export}
