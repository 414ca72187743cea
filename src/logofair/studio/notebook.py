"""The same page in a notebook: wishes and answers are messages of a widget."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from logofair.errors import InputError
from logofair.notions import NOTIONS
from logofair.requirement import Requirement, Scope, read_requirements
from logofair.requirements import DEFAULT, Given, short_way
from logofair.studio.answers import Wish, answers
from logofair.studio.session import FIT_OPTIONS, Session, Setting

if TYPE_CHECKING:
    from logofair.fitting.solution import Solution

_STATIC = Path(__file__).parent / "static"


def explore(
    scores: object,
    labels: object,
    *,
    sensitive_features: object,
    sites: object = None,
    notion: str = DEFAULT,
    local_tolerance: Given = DEFAULT,
    global_tolerance: Given = DEFAULT,
    require: object = (),
    costs: object = None,
    calibration: str = "beta",
    basis: str = "eta",
    pooling: str = "auto",
    confidence: float | None = None,
    ids: object = None,
    sample_weight: object = None,
    random_state: int | None = None,
    test_rows: Mapping[str, object] | None = None,
) -> Any:
    """Show a live page in a notebook, on which every limit is answered by the certified optimum.

    Arguments are those of :func:`logofair.fit`, what is required being what the page begins with; ``test_rows`` are
    columns of other people, on whom everything is measured, as in :func:`logofair.frontier`. Without a ``random_state``
    one is drawn, which every export states.

    Returns
    -------
    anywidget.AnyWidget
        Of the extra ``notebook``. ``logofair studio`` shows the same page without a notebook.

    Examples
    --------
    >>> import logofair
    >>> page = logofair.explore([0.9, 0.6, 0.4, 0.2], None, sensitive_features=[*"abab"], calibration="none")
    >>> round(page.session.solved(page.session.start).solution.certificate.primal, 3)
    0.725
    """
    given = () if require is None else read_requirements(require)
    required = short_way(notion, local_tolerance, global_tolerance, alone=bool(given))
    by_site = {str(site): tuple(pair) for site, pair in costs.items()} if isinstance(costs, Mapping) else None
    start: dict[str, Any] = dict(zip(("notion", "local", "overall"), required, strict=True))
    start |= {"require": tuple(map(str, given)), "confidence": confidence}
    start["costs"] = by_site or (None if costs is None else tuple(costs))  # type: ignore[arg-type]
    rows = {"scores": scores, "labels": labels, "sensitive_features": sensitive_features, "sites": sites}
    rows |= {"ids": ids, "sample_weight": sample_weight}
    options = dict(zip(FIT_OPTIONS, (calibration, basis, pooling), strict=True))
    return _widget()(Session(rows, options, Setting(**start), random_state, test_rows, given))


def explore_solution(solution: Solution, test_rows: Mapping[str, object] | None = None) -> Any:
    """Show the page of a solution's rows, beginning with what it was made for."""
    if solution.away is not None or solution.settings is None:
        raise InputError("explore: rules that may not look at groups have no live page; use fit and test.")
    rows, required, settings = solution.rows, solution.requirements, solution.settings
    setting = _setting_of(required.items)
    costs: Any = None
    if required.costs is not None:
        pairs = list(zip(required.costs.wrongly_accepted, required.costs.wrongly_rejected, strict=True))
        costs = pairs[0] if required.costs.same_everywhere else dict(zip(required.sites, pairs, strict=True))
    return explore(
        rows.scores,
        rows.labels,
        sensitive_features=rows.groups,
        sites=rows.sites.labels if rows.has_sites else None,
        **setting,
        costs=costs,
        calibration=settings.calibration,
        basis=settings.basis,
        pooling=settings.pooling,
        confidence=None if solution.promises is None else solution.promises.confidence,
        ids=None if rows.ids is None else rows.ids.labels,
        sample_weight=rows.weights,
        random_state=settings.random_state,
        test_rows=test_rows,
    )


def _setting_of(items: tuple[Requirement, ...]) -> dict[str, Any]:
    """Requirements as a notion with its two tolerances, as far as they are these, and sentences."""
    sides = {Scope("per site"): "local_tolerance", Scope("overall"): "global_tolerance"}

    def short(name: str) -> dict[Requirement, str]:
        rates = NOTIONS[name].rates
        gaps = [each for each in items if each.measure == "gap" and each.rates == rates and each.scope in sides]
        return {each: sides[each.scope] for each in gaps if each.bound != "today"}

    notion = max(NOTIONS, key=lambda name: len(short(name)))
    own = short(notion)
    left = [each for each in items if each not in own]
    found: dict[str, Any] = dict.fromkeys(sides.values()) | {side: each.bound for each, side in own.items()}
    return found | {"notion": notion, "require": left}


@cache
def _widget() -> Any:
    """Return the class of the widget, which needs an extra."""
    try:
        import anywidget
    except ModuleNotFoundError:
        raise InputError(
            "explore: needs anywidget, which this Python lacks; run: pip install 'logofair[notebook]'."
        ) from None

    class Page(anywidget.AnyWidget):
        """The page; ``session`` answers it."""

        _esm, _css = _STATIC / "studio.js", _STATIC / "studio.css"

        def __init__(self, session: Session) -> None:
            super().__init__()
            self.session = session
            self._turns, self._newest = Lock(), dict[str, int]()
            self.on_msg(self._asked)

        def _asked(self, _: object, tree: Any, __: object) -> None:
            """Answer beside the notebook's own work, so that a newer wish is seen while an older is worked on."""
            Thread(target=self._answer, args=(tree,), daemon=True).start()

        def _answer(self, tree: Any) -> None:
            try:
                wish = Wish.read(tree)
            except InputError as error:
                self.send(
                    {"turn": tree.get("turn") if isinstance(tree, dict) else None, "answer": {"trouble": str(error)}}
                )
                return
            self._newest[wish.what] = max(self._newest.get(wish.what, 0), wish.turn)
            steps, last = answers(self.session, wish), dict[str, Any]()
            found: dict[str, Any] | None = {}
            while found is not None:
                last = found or last
                with nullcontext() if wish.is_long else self._turns:
                    if wish.is_stale(self._newest):
                        return
                    found = next(steps, None)
            self.send({"turn": wish.turn, "answer": last})

    return Page
