"""``logofair data``: which data sets there are, what to know about them, and how to prepare those that need files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.group import LazyGroup
from logofair.cli.options import examples, force_option, json_option, number_option, one_of, path_option, such_that
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair.datasets import Dataset

# Those of the catalogue, so that help need not import it.
NAMES = ("adult", "enem", "celeba", "acs", "generated")

_HERE = "logofair_reproduction.commands.data"
_COMMANDS = {
    "describe": (f"{_HERE}:describe", "Say what a data set is, its terms, harms and counts."),
    "list": (f"{_HERE}:list_all", "List the data sets and whether they are prepared."),
    "prepare": (f"{_HERE}:prepare", "Check official files and store what is needed of them."),
}
_FACTS = ("name", "title", "summary", "licence", "citation", "model", "natural_sites")
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
    from logofair.cli.console import grid, notes, page, print_json, print_page

    found = [_known(name, cache) for name in NAMES]
    if as_json:
        print_json(found)
        return
    table = grid("name", "what it is", "rows", "ready", left=2)
    for entry in found:
        ready = "built in" if entry["folder"] is None else "yes" if entry["ready"] else "no"
        table.add_row(entry["name"], entry["title"], f"{entry['rows']:,}" if entry["rows"] else "", ready)
    faults = [("Fault", entry["fault"]) for entry in found if entry["fault"] is not None]
    advice = "logofair data describe NAME says more, and where to get files."
    print_page([table, "", notes([*faults, ("Next", advice)])], page())


def _known(name: str, cache: Path | None) -> dict[str, Any]:
    """What is known of a data set without loading it, and whether it can be loaded."""
    from logofair_reproduction.datasets.catalogue import CATALOGUE
    from logofair_reproduction.datasets.preparing import cache_folder, cache_option, check_about, is_prepared

    entry, folder = CATALOGUE[name], cache_folder(name, cache)
    about, fault = None, None
    if entry.needs_files and is_prepared(folder):
        try:
            about = check_about(folder, name)
        except InputError as error:
            fault = str(error)
    found: dict[str, Any] = {fact: getattr(entry, fact) for fact in _FACTS}
    return found | {
        "known_harms": list(entry.known_harms),
        "sensitive": list(entry.sensitive),
        "where": [*entry.where[:-1], *(step + cache_option(name, folder) for step in entry.where[-1:])],
        "ready": not entry.needs_files or about is not None,
        "fault": fault,
        "rows": about["counts"]["rows kept"] if about else None,
        "folder": str(folder) if entry.needs_files else None,
    }


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
    from logofair.cli.console import grid, notes, page, print_json, print_page, showing_progress

    found = _known(name, cache)
    if found["fault"] is not None:
        raise InputError(found["fault"])
    if found["ready"]:
        with showing_progress(quiet=as_json) as progress:
            from logofair_reproduction.datasets import load

            (loaded,) = progress((load(name, sensitive=sensitive, cache=cache) for _ in "1"), "Reading the data", 1)
        found |= _counted(loaded)
    if as_json:
        print_json(found)
        return
    parts: list[Any] = [f"{name}: {found['title']}. {found['summary']}", ""]
    if found["ready"]:
        table = grid("group", "rows", "label 1", left=1)
        everyone = {"rows": found["rows"], "positive_rate": found["positive_rate"]}
        for group, own in {**found["groups"], "all": everyone}.items():
            table.add_row(group, f"{own['rows']:,}", f"{own['positive_rate']:.1%}")
        parts += [table, ""]
    print_page([*parts, notes(_lines(found))], page())


def _counted(loaded: Dataset) -> dict[str, Any]:
    """Rows, groups and sites of a data set."""
    import numpy as np

    groups = {str(group): loaded.labels[loaded.sensitive == group] for group in np.unique(loaded.sensitive)}
    sites = None
    if loaded.sites is not None:
        _, sizes = np.unique(loaded.sites, return_counts=True)
        sites = {"number": sizes.size, "smallest": int(sizes.min()), "largest": int(sizes.max())}
    return {
        "rows": len(loaded),
        "features": list(loaded.features.shape[1:]),
        "positive_rate": float(loaded.labels.mean()),
        "groups": {group: {"rows": own.size, "positive_rate": float(own.mean())} for group, own in groups.items()},
        "sites": sites,
        "notes": list(loaded.notes),
    }


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a page says of a data set, each sentence beside a word."""
    from logofair.cli.console import titled

    natural, sites = found["natural_sites"], found.get("sites")
    if sites is None:
        yield "Sites", "none natural: deal the rows to sites" if natural is None else f"each {natural} is one"
    else:
        sizes = f"{sites['smallest']:,} to {sites['largest']:,} rows"
        yield "Sites", f"{sites['number']:,}, each a {natural} of {sizes}"
    yield "Groups by", ", ".join(found["sensitive"]) or "any attribute of the files; Pale_Skin by default"
    yield "Model", found["model"]
    yield "Licence", found["licence"]
    if found["citation"]:
        yield "Cite", found["citation"]
    yield from titled("Harms", found["known_harms"])
    yield from titled("Note", found.get("notes", ()))
    if not found["ready"]:
        steps = (f"{place}. {step}" for place, step in enumerate(found["where"], start=1))
        yield from titled("Get it", steps)


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
@force_option()
def prepare(name: str, source: Path, cache: Path | None, force: bool, **choices: int | None) -> None:
    """Check the official files of a data set and store what is needed of them.

    Reads files of any size in batches, says how many rows were kept and why the
    others were not, and leaves the official files as they are.
    """
    from logofair.cli.console import grid, notes, page, print_page, showing_progress, titled

    with showing_progress() as progress:
        from logofair_reproduction.datasets.catalogue import CATALOGUE
        from logofair_reproduction.datasets.preparing import cache_folder, cache_option, check_about, is_prepared

        entry, folder = CATALOGUE[name], cache_folder(name, cache)
        if entry.prepare is None:
            raise InputError(f"{name}: needs no files and is ready; see logofair data describe {name}.")
        if is_prepared(folder) and not force:
            raise InputError(f"{folder}: {name} is prepared already; add --force to replace it.")
        given = {option: value for option, value in choices.items() if value is not None}
        if given and name != "celeba":
            raise click.UsageError(f"--{', --'.join(given)}: of images, for celeba alone; leave it out for {name}")
        counts = entry.prepare(source, folder, progress=progress, **given)
    table = grid(name, "count", left=1)
    for what, count in counts.items():
        table.add_row(what, f"{count:,}")
    lines = [*titled("Note", check_about(folder, name).get("notes", ())), ("Lies in", str(folder))]
    next_command = f"logofair data describe {name}{cache_option(name, folder)}"
    print_page([table, "", notes([*lines, ("Next", next_command)])], page())
