"""``logofair train``: train a model over sites by a federated method, and write the scores of the other rows."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.options import (
    examples,
    force_option,
    json_option,
    name_option,
    notion_option,
    number_option,
    path_option,
    seed_option,
    such_that,
)
from logofair.errors import InputError
from logofair.files.writing import TABLE, check_output, replacing, sink
from logofair_reproduction.commands import need_torch
from logofair_reproduction.commands.data import NAMES

if TYPE_CHECKING:
    from logofair.auditing import Audit
    from logofair.auditing.measure import Measured
    from logofair_reproduction.experiments.scores import SplitData

METHODS = ("fedavg", "fairfed", "fedfb", "fcfl")
_ROUNDS = {"fcfl": 1600}
_USUAL_ROUNDS, _USUAL_SITES, _USUAL_ALPHA = 20, 5, 0.5
_count = such_that(lambda n: n >= 1, "pass a whole number from 1")
_OPTIONS = {"n_sites": "--sites", "rows": "--limit", "sensitive": "--sensitive", "alpha": "--alpha"}


def _settings(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """Values by the names of a method's settings: numbers where they are numbers, else texts."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is no NAME=VALUE, such as learning_rate=0.005")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


@click.command(
    epilog=examples(
        "logofair train --method fedavg --data generated --rounds 5 --out scores.csv",
        "logofair train --method fairfed --data adult --set beta=0.5 --out scores.parquet",
        "logofair train --method fedfb --data enem --notion equalized_odds --rounds 50 --out scores.csv",
        "logofair train --method fcfl --data acs --partition natural --set step_size=0.5 --out scores.parquet",
    )
)
@name_option("--method", METHODS, f"{', '.join(METHODS)}.", required=True)
@name_option("--data", NAMES, f"{', '.join(NAMES)}.", required=True)
@path_option("--cache", "Folder of prepared data, as of logofair data.")
@click.option("--sensitive", metavar="NAME", help="Attribute whose groups are compared.  [default: the data set's]")
@number_option("--limit", int, _count, "Take only so many rows.")
@notion_option
@name_option(
    "--partition",
    ("sensitive", "natural"),
    "Sites that differ in groups (sensitive), or the data set's own (natural).",
    "sensitive",
)
@number_option("--sites", int, _count, "Number of sites.  [default: 5, or all natural ones]")
@number_option(
    "--alpha",
    float,
    such_that(lambda x: 0 < x < math.inf, "pass a number above 0"),
    "Evenness of the sites, the smaller the less even.  [default: 0.5]",
)
@name_option("--scheme", ("plain", "authors"), "How rows are dealt: plain, or as in the paper's code.", "plain")
@number_option("--rounds", int, _count, "Rounds in all.  [default: 20; fcfl: 1600]")
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_settings,
    help="A setting of the method (such as alpha of fedfb, tolerance of fcfl) or of local steps (learning_rate, "
    "local_epochs, batch_size, optimiser); may be given again.  [default: the first that experiments try]",
)
@seed_option("Of the dealing, the splitting and the training.")
@name_option("--device", ("auto", "cpu", "cuda"), "auto (a GPU where there is one), cpu or cuda.", "auto")
@path_option("--out", "Where to write the scores; the ending says how: Parquet, CSV or Arrow.", required=True)
@force_option()
@json_option()
def train(out: Path, force: bool, as_json: bool, cache: Path | None, device: str, **options: Any) -> None:
    """Train a model over sites, and write the scores of the rows not trained on.

    As in the paper 35 % of the rows are trained on, 35 % are for calibration and 30 %
    for testing. The scores have the columns id (the row's number in the data set),
    part, site, group, label and score; logofair audit and logofair fit read them as
    they are. fedavg trains for accuracy alone; fairfed, fedfb and fcfl also for
    fairness. The same seed gives the same scores.
    """
    check_output(out, force=force, endings=TABLE)
    split_options = {name: options[name] for name in ("data", "sensitive", "limit", "scheme")}
    natural = options["partition"] == "natural"
    if natural and options["alpha"] is not None:
        raise InputError("--alpha: natural sites are not dealt by chance; leave it out.")
    from logofair.cli.console import print_json, showing_progress

    need_torch()
    with showing_progress(quiet=as_json) as progress:
        from logofair_reproduction.experiments.experiment import Split, Trial, first_setting
        from logofair_reproduction.experiments.scores import split_data, train_trial
        from logofair_reproduction.training.rows import device_named

        n_sites, alpha = options["sites"], options["alpha"]
        if not natural:
            n_sites, alpha = n_sites or _USUAL_SITES, alpha or _USUAL_ALPHA
        split = Split(random_state=options["seed"], clients=n_sites, alpha=alpha, **split_options)
        method, rounds = options["method"], options["rounds"] or _ROUNDS.get(options["method"], _USUAL_ROUNDS)
        setting = first_setting(options["data"], method) | options["settings"]
        if method == "fcfl" and "first_stage" not in options["settings"]:
            setting["first_stage"] = min(800, rounds // 2)
        try:
            rows = split_data(split, cache)
            ((_, scores),) = train_trial(
                rows,
                rows.parts["train"],
                [rows.parts["calibration"], rows.parts["test"]],
                method,
                options["notion"],
                Trial(setting, (rounds,)),
                device=device_named(device).type,
                progress=progress,
            )
        except InputError as error:
            raise error.renamed(lambda name: _OPTIONS.get(name, name)) from None
    import numpy as np
    import polars

    kept = [rows.parts["calibration"], rows.parts["test"]]
    places = np.concatenate(kept)
    table = {
        "id": rows.data.row_numbers[places],
        "part": np.repeat(["calibration", "test"], [part.size for part in kept]).tolist(),
        "site": rows.sites[places].tolist(),
        "group": rows.data.sensitive[places].tolist(),
        "label": rows.data.labels[places],
        "score": np.concatenate(scores),
    }
    with replacing(out) as neighbour:
        sink(polars.LazyFrame(table), neighbour)
    measured = rows.rows("test").audit(scores[1] >= 0.5, options["notion"])
    if as_json:
        sizes = {part: int(places.size) for part, places in rows.parts.items()}
        wanted = {name: options[name] for name in ("method", "notion", "partition", "seed")}
        settings = {**wanted, **split_options, "sites": n_sites, "alpha": alpha, "rounds": rounds, "setting": setting}
        print_json({"out": str(out), "settings": settings, "rows": sizes, "test": measured.as_dict()})
    else:
        _show(rows, measured, options["notion"], f"{method}, {rounds:,} rounds, seed {options['seed']}", out)


def _show(rows: SplitData, test: Audit, notion: str, trained: str, out: Path) -> None:
    """Print what was trained on what, how it does on the test rows, and what to type next."""
    from logofair.cli.console import print_parts
    from logofair.words.phrases import counted, points
    from logofair.words.sections import Facts

    sizes, name = {part: places.size for part, places in rows.parts.items()}, shlex.quote(str(out))
    n_sites = len(set(rows.rows("train").sites.tolist()))
    figures = [
        ("Trained", f"{trained}, on {sizes['train']:,} rows of {rows.data.name} at {counted(n_sites, 'site')}"),
        ("Tested", f"on {sizes['test']:,} other rows; accuracy {points(test.accuracy)} %, score >= 1/2"),
        ("Gap", f"{_points(test.headline_global.value)} over all sites ({notion.replace('_', ' ')})"),
    ]
    if n_sites > 1:
        figures.append(("", f"{_points(test.headline_local.value)} at the site where it is largest"))
    if test.accepted in (0.0, 1.0):
        figures.append(("!", "All test rows are decided alike: a gap of 0 then says nothing about fairness."))
    if rows.data.licence:
        figures.append(("Licence", f"{rows.data.licence.rstrip('.')}; harms: logofair data describe {rows.data.name}"))
    figures.append(("Wrote", f"{out}, with {sizes['calibration']:,} rows for logofair fit beside the test rows"))
    columns = "    --score score --label label --group group --site site"
    wanted = "" if notion == "demographic_parity" else f" --notion {notion}"
    commands = [
        f"logofair fit {name}{wanted} \\",
        f"{columns} \\",
        "    --where part=calibration --test-where part=test --out policy.json",
    ]
    print_parts(Facts(tuple(figures)))
    click.echo("\n".join(["", "Next:", *commands]))


def _points(gap: Measured | None) -> str:
    """A gap in percentage points, with what it could be."""
    from logofair.words.phrases import points, span

    return "undefined" if gap is None else f"{points(gap)} points (could be {span(gap.low, gap.high)})"
