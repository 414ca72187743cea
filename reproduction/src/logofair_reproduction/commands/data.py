"""``logofair data``: which data sets there are, what to know about them, and how to prepare those that need files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logofair.cli.group import LazyGroup
from logofair.cli.options import examples, force_option, json_option, number_option, one_of, path_option, such_that
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair_reproduction.datasets.catalogue import DatasetInfo

__all__ = ["NAMES", "data", "describe", "list_all", "prepare"]


# Those of logofair.datasets.CATALOGUE, so that help need not import it.
NAMES = ("adult", "enem", "celeba", "acs", "generated")

_COMMANDS = {
    "describe": (
        "logofair_reproduction.commands.data:describe",
        "Say what a data set is, its terms, harms and counts.",
    ),
    "list": ("logofair_reproduction.commands.data:list_all", "List the data sets and whether they are prepared."),
    "prepare": (
        "logofair_reproduction.commands.data:prepare",
        "Check official files and store what is needed of them.",
    ),
}

_name = click.argument("name", metavar="NAME", callback=one_of(NAMES))
_cache = path_option("--cache", "Folder of prepared data.  [default: LOGOFAIR_CACHE, else ~/.cache/logofair]")
_at_least_one = such_that(lambda n: n >= 1, "pass a whole number from 1")


data = LazyGroup(
    "data",
    lazy=_COMMANDS,
    help="""List, describe and prepare data sets.

    Adult and a generator are part of the package. The others are read from official
    files, which you download yourself: describe says where from, prepare checks them
    and stores what is needed, once.
    """,
    epilog=examples(
        "logofair data list",
        "logofair data describe enem",
        "logofair data prepare enem --from microdados_enem_2020.zip",
    ),
)


@click.command("list", epilog=examples("logofair data list", "logofair data list --json"))
@_cache
@json_option()
def list_all(cache: Path | None, as_json: bool) -> None:
    """List the data sets, their terms, and whether they are prepared."""
    from logofair.cli.pages.console import page, print_json
    from logofair_reproduction.commands.pages.data import listed, show_list

    found = listed(cache)
    if as_json:
        print_json(found)
    else:
        show_list(found, page())


@click.command(
    epilog=examples("logofair data describe adult", "logofair data describe enem --sensitive race5 --json"),
)
@_name
@click.option("--sensitive", metavar="NAME", help="Attribute whose groups are counted.")
@_cache
@json_option()
def describe(name: str, sensitive: str | None, cache: Path | None, as_json: bool) -> None:
    """Say what a data set is, its terms, known harms and counts.

    Where it needs files and is not prepared yet, says how to get them.
    """
    from logofair.cli.pages.console import page, print_json, showing_progress

    with showing_progress(quiet=as_json) as progress:
        from logofair_reproduction.commands.pages.data import (  # here, while the reader sees progress
            described,
            show_description,
        )

        (found,) = progress(map(described, [name], [sensitive], [cache]), "Reading the data", total=1)
    if as_json:
        print_json(found)
    else:
        show_description(found, page())


@click.command(
    epilog=examples(
        "logofair data prepare enem --from microdados_enem_2020.zip",
        "logofair data prepare acs --from data/2018/1-Year",
        "logofair data prepare celeba --from celeba --size 64 --limit 100000",
    )
)
@_name
@click.option(
    "--from", "source", type=click.Path(path_type=Path), required=True, help="The official files: see describe."
)
@_cache
@number_option("--size", int, _at_least_one, "celeba: width of the images in pixels.  [default: 128]")
@number_option("--limit", int, _at_least_one, "celeba: prepare only the first so many images.")
@number_option("--workers", int, _at_least_one, "celeba: processes that decode.  [default: 1]")
@force_option()
def prepare(name: str, source: Path, cache: Path | None, force: bool, **choices: int | None) -> None:
    """Check the official files of a data set and store what is needed of them.

    Reads files of any size in batches, says how many rows were kept and why the
    others were not, and leaves the official files as they are.
    """
    from logofair.cli.pages.console import page, showing_progress

    with showing_progress() as progress:
        from logofair_reproduction.commands.pages.data import show_prepared
        from logofair_reproduction.datasets.catalogue import CATALOGUE
        from logofair_reproduction.datasets.preparing import cache_folder

        entry, folder = CATALOGUE[name], cache_folder(name, cache)
        given = {option: value for option, value in choices.items() if value is not None}
        counts = _preparation(entry, folder, force, given)(source, folder, progress=progress, **given)
    show_prepared(name, folder, counts, page())


def _preparation(
    entry: DatasetInfo, folder: Path, force: bool, given: Iterable[str]
) -> Callable[..., Mapping[str, int]]:
    """How to prepare a data set; raise where it needs none, is there already, or does not take an option given."""
    from logofair_reproduction.datasets.catalogue import choices_of
    from logofair_reproduction.datasets.preparing import is_prepared

    if entry.prepare is None:
        raise InputError(f"{entry.name}: needs no files and is ready; see logofair data describe {entry.name}.")
    if is_prepared(folder) and not force:
        raise InputError(f"{folder}: {entry.name} is prepared already; add --force to replace it.")
    for option in given:
        if option not in choices_of(entry.prepare):
            raise click.UsageError(f"--{option} is for celeba; leave it out for {entry.name}")
    return entry.prepare
