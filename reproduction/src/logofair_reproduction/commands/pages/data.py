"""Data sets as pages for people, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.cli.pages.console import grid, notes, print_page, titled
from logofair.datasets.table import Dataset, chosen
from logofair.errors import InputError
from logofair_reproduction.datasets.catalogue import CATALOGUE, DatasetInfo
from logofair_reproduction.datasets.preparing import cache_folder, cache_option, check_about, is_prepared

__all__ = ["described", "listed", "show_description", "show_list", "show_prepared"]


_SHORT_LICENCE = 34
_FACTS = ("name", "title", "summary", "licence", "citation", "model", "natural_clients")


def listed(cache: Path | None) -> list[dict[str, Any]]:
    """All data sets: name, what it is, licence, whether it is ready or what is wrong with it, rows where counted."""
    return [_line(entry, cache_folder(entry.name, cache)) for entry in CATALOGUE.values()]


def _line(entry: DatasetInfo, folder: Path) -> dict[str, Any]:
    about, fault = _about(entry, folder)
    ready = not entry.needs_files or about is not None
    return {
        "name": entry.name,
        "title": entry.title,
        "summary": entry.summary,
        "licence": entry.licence,
        "ready": ready,
        "fault": fault,
        "rows": about["counts"]["rows kept"] if about else None,
        "folder": str(folder) if entry.needs_files else None,
    }


def _about(entry: DatasetInfo, folder: Path) -> tuple[dict[str, Any] | None, str | None]:
    """What prepared data say of themselves, or what is wrong with them, without reading all of them."""
    if not entry.needs_files or not is_prepared(folder):
        return None, None
    try:
        return check_about(folder, entry.name), None
    except InputError as error:
        return None, str(error)


def show_list(found: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print all data sets."""
    table = grid("name", "what it is", "rows", "ready", "licence", left=2)
    for column in table.columns[3:]:
        column.justify, column.no_wrap = "left", False
    for line in found:
        built_in = line["folder"] is None
        ready = "built in" if built_in else "yes" if line["ready"] else "not yet" if line["fault"] is None else "no"
        rows = "" if line["rows"] is None else f"{line['rows']:,}"
        table.add_row(line["name"], line["title"], rows, ready, _shortened(line["licence"]))
    advice = "logofair data describe NAME says more, and where to get files; logofair data prepare NAME reads them."
    faults = [("Fault", line["fault"]) for line in found if line["fault"] is not None]
    print_page([table, "", *([_folded(faults), ""] if faults else []), Text(advice)], console)


def _shortened(licence: str) -> str:
    """The first clause of a licence."""
    first = licence.partition(";")[0].partition(":")[0]
    return first if len(first) <= _SHORT_LICENCE else first[: _SHORT_LICENCE - 3].rstrip() + "..."


def described(name: str, sensitive: str | None, cache: Path | None) -> dict[str, Any]:
    """All that is known about a data set; counts where it can be loaded."""
    entry, folder = CATALOGUE[name], cache_folder(name, cache)
    if sensitive is not None and entry.sensitive:
        chosen(sensitive, entry.sensitive, "--sensitive")
    found: dict[str, Any] = {fact: getattr(entry, fact) for fact in _FACTS}
    found |= {"known_harms": list(entry.known_harms), "sensitive": list(entry.sensitive), "where": list(entry.where)}
    found |= {key: value for key, value in _line(entry, folder).items() if key in ("ready", "folder")}
    if found["ready"] or is_prepared(folder):  # damaged data say themselves what is wrong
        wish = {} if sensitive is None else {"sensitive": sensitive}
        found |= _counted(entry.load(folder, **wish) if entry.needs_files else entry.load(**wish))
    return found


def _counted(data: Dataset) -> dict[str, Any]:
    """Rows, groups and clients of a data set."""
    groups = {str(group): data.labels[data.sensitive == group] for group in np.unique(data.sensitive)}
    return {
        "rows": len(data),
        "features": list(data.features.shape[1:]),
        "positive_rate": float(data.labels.mean()),
        "groups": {group: {"rows": own.size, "positive_rate": float(own.mean())} for group, own in groups.items()},
        "clients": None if data.clients is None else _sizes(data.clients),
        "notes": list(data.notes),
    }


def _sizes(clients: Any) -> dict[str, Any]:
    names, sizes = np.unique(clients, return_counts=True)
    ends = {"smallest": int(sizes.argmin()), "largest": int(sizes.argmax())}
    found = {end: {"client": str(names[place]), "rows": int(sizes[place])} for end, place in ends.items()}
    return {"number": names.size, "median_rows": float(np.median(sizes)), **found}


def show_description(found: Mapping[str, Any], console: Console) -> None:
    """Print what is known about a data set."""
    parts: list[Any] = [Text(f"{found['name']}: {found['title']}. {found['summary']}"), ""]
    if found["ready"]:
        table = grid("group", "rows", "label 1", left=1)
        for group, own in found["groups"].items():
            table.add_row(group, f"{own['rows']:,}", f"{own['positive_rate']:.1%}")
        table.add_row("all", f"{found['rows']:,}", f"{found['positive_rate']:.1%}")
        parts += [table, ""]
    print_page([*parts, _folded([*_counts(found), *_terms(found), *_steps(found)])], console)


def _folded(lines: Sequence[tuple[str, str]]) -> Table:
    """Sentences, each beside its word; addresses that are longer than a line go on in the next."""
    table = notes(lines)
    table.columns[1].overflow = "fold"
    return table


def _counts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Sentences on what a loaded data set holds."""
    if not found["ready"]:
        yield "Prepared", f"not yet (it would lie in {found['folder']})"
        return
    yield "Features", " x ".join(map(str, found["features"]))
    if (clients := found["clients"]) is not None:
        yield "Clients", _of_clients(clients, found["natural_clients"])
    if found["folder"] is not None:
        yield "Prepared", f"in {found['folder']}"
    yield from titled("Note", found["notes"])


def _of_clients(clients: Mapping[str, Any], natural: str) -> str:
    """How many natural clients there are, and of what size."""
    least, most = clients["smallest"], clients["largest"]
    if clients["number"] == 1:
        return f"one {natural} alone ({most['client']}): deal the rows to clients"
    return (
        f"{clients['number']:,}, each a {natural}; rows: {least['rows']:,} ({least['client']}) to {most['rows']:,} "
        f"({most['client']}), median {clients['median_rows']:,.0f}"
    )


def _terms(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Sentences on what holds whether it is loaded or not."""
    yield "Sensitive", ", ".join(found["sensitive"]) or "any attribute of the files; Pale_Skin by default"
    if not found["ready"] or found["clients"] is None:
        natural = found["natural_clients"]
        yield "Clients", "none natural: deal the rows to clients" if natural is None else f"each {natural} is one"
    yield "Model", found["model"]
    yield "Licence", found["licence"]
    if found["citation"]:
        yield "Cite", found["citation"]
    yield from titled("Harms", found["known_harms"])


def _steps(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How to get what is missing."""
    if found["ready"]:
        return
    *steps, command = found["where"]
    steps.append(command + cache_option(found["name"], Path(found["folder"])))
    yield from titled("Get it", (f"{place}. {step}" for place, step in enumerate(steps, start=1)))


def show_prepared(name: str, folder: Path, counts: Mapping[str, int], console: Console) -> None:
    """Print what was kept, what was dropped and why, and where it lies."""
    table = grid(name, "count", left=1)
    for what, count in counts.items():
        table.add_row(what, f"{count:,}")
    lines = [*titled("Note", check_about(folder, name).get("notes", ()))]
    lines += [("Lies in", str(folder)), ("Next", f"logofair data describe {name}{cache_option(name, folder)}")]
    print_page([table, "", _folded(lines)], console)
