"""Check a built site: python tools/check_site.py FOLDER, a part of ``make docs``.

Every link inside the site leads to a file and a place that are there, and nothing is loaded from elsewhere when a
page is read: no script, style, font or picture.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": ("src",), "img": ("src", "srcset"), "source": ("src", "srcset"), "iframe": ("src",)}
_NEIGHBOURS = ("index", "next", "prev", "search")
_STYLE_URL = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what matters of a tag."""
        given = {name: value or "" for name, value in attrs}
        self.places.update(given[name] for name in ("id", "name") if name in given)
        self.loaded += [given[name].split(" ")[0] for name in _LOADED.get(tag, ()) if given.get(name)]
        self.loaded += styled(given.get("style", ""))
        if tag == "link" and "canonical" not in given.get("rel", ""):
            (self.links if given.get("rel") in _NEIGHBOURS else self.loaded).append(given["href"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


def styled(text: str) -> list[str]:
    """What a style sheet loads."""
    return [first or second for first, second in _STYLE_URL.findall(text)]


@cache
def page_at(path: Path) -> Page:
    """The page of a file, read once."""
    return Page(path)


def faults(root: Path) -> Iterator[str]:
    """Sentences on what is wrong with a site."""
    pages = (path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts)  # templates of the theme
    for path in pages:
        page, name = page_at(path), path.relative_to(root).as_posix()
        yield from (f"{name}: loads {url} from elsewhere." for url in page.loaded if urlsplit(url).netloc)
        yield from (f"{name}: {url} is not there." for url in page.links + page.loaded if missing(url, path))
    for path in sorted(root.rglob("*.css")):
        for url in styled(path.read_text("utf-8")):
            if urlsplit(url).netloc or missing(url, path):
                yield f"{path.relative_to(root).as_posix()}: {url} is elsewhere or not there."


def missing(url: str, path: Path) -> bool:
    """Whether a link of a page leads to no file, or to no place in it."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return False
    file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not file.is_file():
        return not (file / "index.html").is_file()
    anchor = unquote(parts.fragment)
    return bool(anchor) and file.suffix == ".html" and anchor not in page_at(file).places


def main(folder: str) -> int:
    """Check every page; print what was found."""
    found = list(faults(Path(folder)))
    print("\n".join(found) or "Every link leads somewhere, and nothing is loaded from elsewhere.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
