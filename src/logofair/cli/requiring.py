"""Options for what must hold: sentences, and the short way of a notion with two tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import NOTIONS, Decorator, constrained, costs_option, name_option, together, tolerance_option
from logofair.errors import InputError

if TYPE_CHECKING:
    pass


def _sentences(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """Read sentences, as they are typed or from files with one a line."""
    if not texts:
        return ()
    from logofair.files.documents import read_bytes  # these bring numpy: only where they are needed
    from logofair.requirement import Requirement, requirement_lines

    found: list[str] = []
    for text in texts:
        try:
            if text.startswith("@"):
                found += map(str, requirement_lines(read_bytes(Path(text[1:])).decode("utf-8-sig")))
            else:
                found.append(str(Requirement.parse(text)))
        except UnicodeDecodeError:
            raise click.BadParameter(f"{text[1:]}: is no text; write one requirement a line.", ctx, param) from None
        except InputError as error:
            where = f"{text[1:]}: " if text.startswith("@") else ""
            raise click.BadParameter(f"{where}{str(error).removeprefix('require: ')}", ctx, param) from None
    return tuple(dict.fromkeys(found))


def require_option(place: str = "site") -> Decorator[Any]:
    """Return the option for requirements, at participants of this word."""
    return click.option(
        "--require",
        metavar="SENTENCE",
        multiple=True,
        callback=_sentences,
        help="What must hold, such as 'true positive rate ratio >= 0.8 per site', 'selection rate of F >= 0.2 overall' "
        f"or 'accepted = 150 people at NAME', a {place}'s; may be given again; @FILE: one a line.",
    )


def short_way_options() -> Decorator[Any]:
    """Return the options for a notion with two tolerances."""
    return together(
        name_option(
            "--notion", NOTIONS, f"What is fair: {', '.join(NOTIONS)}.  [default: demographic_parity, if not --require]"
        ),
        tolerance_option("local", "inside each site", otherwise="0.02 with neither this nor --global"),
        tolerance_option("global", "over all sites together", otherwise="0.02 with neither this nor --local"),
    )


def requirement_options(place: str = "site") -> Decorator[Any]:
    """Return the options for all that is required, and for costs."""
    return together(short_way_options(), require_option(place), costs_option(place))


def short_way(options: dict[str, Any]) -> dict[str, Any]:
    """Take the short way out of a command's options, as the library takes it: what was not given is left out."""
    given = {name: options.pop(name) for name in ("notion", "local_tolerance", "global_tolerance")}
    tolerances = {
        name: constrained(given[name]) for name in ("local_tolerance", "global_tolerance") if given[name] is not None
    }
    return tolerances | ({} if given["notion"] is None else {"notion": given["notion"]})
