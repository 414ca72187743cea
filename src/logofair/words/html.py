"""A page as HTML: one document with its own style and script, which loads nothing; and a fragment for notebooks."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from logofair.columns.harmless import harmless
from logofair.words import charts
from logofair.words.sections import MARKS, Cell, Page

_RIGHT = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]+"
_FROM_THE_RIGHT = re.compile(f"{_RIGHT}(?:[ '\"-]+{_RIGHT})*")


def templates(finalize: Callable[[object], object], *, autoescape: bool) -> Environment:
    """Return an environment of this room's templates: every value passes ``finalize``, and none may be missing."""
    return Environment(
        loader=PackageLoader("logofair.words"),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=finalize,
    )


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates' environment of HTML: every value is escaped."""
    made = templates(lambda value: value if isinstance(value, Markup) else readable(str(value)), autoescape=True)
    made.tests["cell"] = lambda value: isinstance(value, Cell)
    made.filters["kind"] = lambda value: type(value).__name__
    # A line breaks between words alone, never within --option.
    word = Markup("<span>{}</span>")
    made.filters["as_typed"] = lambda typed: Markup(" ").join(word.format(each) for each in harmless(typed).split(" "))
    return made


def readable(text: str) -> str:
    r"""Return text for a browser: arrows, and words read from the right kept apart from the figures beside them.

    Examples
    --------
    >>> readable("\u05d0\u05d1 1.0 -> 2.0")
    '\u2068אב\u2069 1.0 → 2.0'
    """
    return _FROM_THE_RIGHT.sub("\u2068\\g<0>\u2069", harmless(text).replace(" -> ", " → "))


def document(page: Page) -> str:
    """Return a page as one HTML document: it opens offline, and no script but its own may run in it."""
    style, script = (files("logofair.words").joinpath(name).read_text("utf-8") for name in ("style.css", "script.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    parts = {"style": Markup(style) + charts.STYLE, "script": Markup(script), "allowed": allowed}
    return environment().get_template("page.html.j2").render(page=page, marks=MARKS, **parts)


def fragment(page: Page) -> str:
    """Return the first screen of a page for a notebook."""
    style = files("logofair.words").joinpath("style.css").read_text("utf-8")
    scoped = Markup(style) + charts.STYLE
    return environment().get_template("fragment.html.j2").render(page=page, marks=MARKS, style=scoped)
