"""What every result can be asked for: a summary, a report, a picture and a notebook's view; words are loaded then."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from logofair.records import Result

if TYPE_CHECKING:
    from logofair.words import About, Page, Svg


class Reportable(Result):
    """A result that people can read; all its sentences are made in :mod:`logofair.words`."""

    def page(self, about: About | None = None) -> Page:
        """Return the page of the result, a tree of sections that a terminal, a browser and a notebook show."""
        from logofair.words import page_of

        return page_of(self, about)

    def summary(self, *, verbose: bool = False) -> str:
        """Return the result as text for people: the verdict first; with ``verbose`` everything there is to say."""
        return self.page().text(verbose=verbose)

    def report(self, path: str | os.PathLike[str], about: About | None = None) -> None:
        """Write the report, one HTML page that opens offline; ``about`` has its title, purpose and author."""
        self.page(about).save(path)

    def plot(self) -> Svg:
        """Return the picture of the result, which a notebook shows and ``.save(path)`` writes."""
        return self.page().plot()

    def _repr_html_(self) -> Any:
        return self.page()._repr_html_()
