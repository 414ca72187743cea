"""The documentation site: ``make docs`` builds it, runs its examples and checks its links."""

from __future__ import annotations

import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from logofair import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "LoGoFair"
author = copyright = "The LoGoFair developers"
version = release = __version__
extensions = [
    "myst_parser",
    "numpydoc",
    "offline_math",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples", "gallery/**.ipynb", "gallery/**.py", "gallery/**.zip"]
nitpicky = True  # a name that leads nowhere is an error
suppress_warnings = ["config.cache"]  # the gallery's settings hold functions

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autodoc_typehints = "none"  # the docstrings say what an argument is
autodoc_member_order = "bysource"
autosummary_generate = True
numpydoc_show_class_members = False
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = f"LoGoFair {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "show_prev_next": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {name: [] for name in ("index", "NOT-YET", "changelog")}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def draw_as_the_project_does(gallery: dict[str, Any], file: str) -> None:
    """Give the pictures of every example the look that all figures here have."""
    import matplotlib
    import matplotlib.style

    matplotlib.rcdefaults()
    matplotlib.use("agg")
    matplotlib.style.use(HERE / "look.mplstyle")
    matplotlib.rcParams.update({"figure.dpi": 110, "savefig.dpi": 170, "font.size": 9})


sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "filename_pattern": r"/plot_",
    "reset_modules": (draw_as_the_project_does,),
    "matplotlib_animations": False,
    "download_all_examples": False,
    "write_computation_times": False,  # how long they took here says nothing
    "min_reported_time": 1e6,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "plot_gallery": "True",
    "thumbnail_size": (480, 300),
    "parallel": 2,
}


def find_named(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.TextElement
) -> nodes.Node | None:
    """Find what a docstring names by its short name, or by another of its modules; what is not public is no link.

    A name that is neither on these pages nor in the code stays unfound, which is an error.
    """
    if node.get("refdomain") != "py":
        return None
    known = env.domains.python_domain.objects
    target = node["reftarget"].lstrip(".~")
    thing = named(target, node.get("py:module") or "logofair", node.get("py:class"))
    full = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
    entry = known.get(full) or next((known[name] for name in known if name.endswith(f".{target}")), None)
    if entry is None:
        return None if thing is None else text
    uri = f"{app.builder.get_relative_uri(node['refdoc'], entry.docname)}#{entry.node_id}"
    return nodes.reference("", "", text, refuri=uri, internal=True)


def named(target: str, module: str, cls: str | None) -> Any:
    """The thing a docstring of a module names; None where there is none."""
    for name in (f"{module}.{cls}.{target}", f"{module}.{target}", f"logofair.{target}", target):
        try:
            return resolve_name(name)
        except (ImportError, AttributeError, ValueError):
            with suppress(ImportError, AttributeError, ValueError):  # a field without default is no attribute
                owner, _, last = name.rpartition(".")
                if last in getattr(resolve_name(owner), "__dataclass_fields__", ()):
                    return last
    return None


def skip_routing(app: Sphinx, what: str, name: str, thing: object, skip: bool, options: object) -> bool | None:
    """Leave out the methods that scikit-learn gives every estimator."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def one_way(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Pages of code have no links back: a name is documented under its public module, which they do not know."""
    if page.startswith("_modules/") and "body" in context:
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context["body"])


def copy_recorded_page(app: Sphinx, error: Exception | None) -> None:
    """Put the recorded page of the reproduction where the results' page links to it."""
    if error is None and app.builder.format == "html":
        target = Path(app.outdir) / "reproduction"
        target.mkdir(exist_ok=True)
        shutil.copy(HERE.parent / "reproduction" / "records" / "page.html", target)


def setup(app: Sphinx) -> None:
    """Connect what this site adds."""
    app.connect("missing-reference", find_named)
    app.connect("autodoc-skip-member", skip_routing)
    app.connect("html-page-context", one_way)
    app.connect("build-finished", copy_recorded_page)
