"""Formulas as MathML, made while the pages are built: nothing is loaded when they are read."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def _mathml(self: HTML5Translator, formula: str, *, as_block: bool) -> str:
    try:
        return str(tex2mathml(formula, as_block=as_block))
    except MathError as error:
        logging.getLogger(__name__).warning("%s: %s", formula, error, location=self.builder.current_docname)
        return ""


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_mathml(self, node.astext(), as_block=False))
    raise nodes.SkipNode


def _display(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append(_mathml(self, node.astext(), as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
