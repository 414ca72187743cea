"""``logofair data``: which data sets there are, what to know about them, and how to prepare those that need files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from logofair.cli.group import LazyGroup
from logofair.cli.options import examples, force_option, json_option, number_option, one_of, path_option, such_that
from logofair.errors import InputError
from logofair_reproduction.commands import titled

# Those of the catalogue, so that help need not import it.
NAMES = ("adult", "enem", "celeba", "acs", "generated")

_HERE = "logofair_reproduction.commands.data"
_COMMANDS = {
    "describe": (f"{_HERE}:describe", "Say what a data set is, its terms and harms."),
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
    from logofair.cli.console import print_json, print_parts
    from logofair.words.sections import Facts, Table

    found = [_known(name, cache) for name in NAMES]
    if as_json:
        print_json(found)
        return
    lines = []
    for entry in found:
        ready = "built in" if entry["folder"] is None else "yes" if entry["ready"] else "no"
        lines.append((entry["name"], entry["title"], f"{entry['rows']:,}" if entry["rows"] else "", ready))
    faults = [("Fault", entry["fault"]) for entry in found if entry["fault"] is not None]
    advice = "logofair data describe NAME says more, and where to get files."
    table = Table("Data sets", ("name", "what it is", "rows", "ready"), tuple(lines), "llrl")
    print_parts(table, Facts((*faults, ("Next", advice))))


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
        "notes": about.get("notes", []) if about else [],
        "folder": str(folder) if entry.needs_files else None,
    }


@click.command(epilog=examples("logofair data describe adult", "logofair data describe enem --json"))
@_name
@_cache
@json_option()
def describe(name: str, cache: Path | None, as_json: bool) -> None:
    """Say what a data set is, its terms and known harms.

    Where it needs files and is not prepared yet, says how to get them.
    """
    from logofair.cli.console import print_json, print_parts
    from logofair.words.sections import Facts, Paragraph

    found = _known(name, cache)
    if found["fault"] is not None:
        raise InputError(found["fault"])
    if as_json:
        print_json(found)
        return
    natural, steps = found["natural_sites"], enumerate(found["where"], start=1)
    lines = (
        ("Sites", "none natural: deal the rows to sites" if natural is None else f"each {natural} is one"),
        ("Groups by", ", ".join(found["sensitive"]) or "any attribute of the files; Pale_Skin by default"),
        *((word, found[word.lower()]) for word in ("Model", "Licence")),
        *([("Cite", found["citation"])] if found["citation"] else []),
        *titled("Harms", found["known_harms"]),
        *titled("Note", found["notes"]),
        *titled("Get it", () if found["ready"] else (f"{place}. {step}" for place, step in steps)),
    )
    print_parts(Paragraph(f"{name}: {found['title']}. {found['summary']}"), Facts(lines))


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
    from logofair.cli.console import print_parts, showing_progress
    from logofair.words.sections import Facts

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
    table = Facts(tuple((f"{count:,}", what) for what, count in counts.items()))
    lines = [*titled("Note", check_about(folder, name).get("notes", ())), ("Lies in", str(folder))]
    next_command = f"logofair data describe {name}{cache_option(name, folder)}"
    print_parts(table, Facts((*lines, ("Next", next_command))))
