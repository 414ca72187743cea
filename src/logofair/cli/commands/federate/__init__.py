"""``logofair federate``: policies for sites that keep their rows. Its commands are imported when they run.

Those that run for long print on standard error what happens meanwhile, a line for each event.
"""

from __future__ import annotations

import json

import click

from logofair.cli.group import LazyGroup
from logofair.cli.options import examples
from logofair.engines.events import Event

__all__ = ["Screen", "federate", "quiet_option"]

_COMMANDS = {
    "client": ("logofair.cli.commands.federate.client:client", "Take part as one site, with its own file and key."),
    "example": ("logofair.cli.commands.federate.setup:example", "Write the files of four sites, from the Adult data."),
    "join": ("logofair.cli.commands.federate.client:join", "Make the policy of a site that comes later."),
    "keys": ("logofair.cli.commands.federate.setup:keys", "Make the certificate of a server, or the key of a site."),
    "plan": ("logofair.cli.commands.federate.client:show_plan", "Show a plan and its digest."),
    "server": ("logofair.cli.commands.federate.server:server", "Run a plan with sites that connect, or resume it."),
    "simulate": ("logofair.cli.commands.federate.simulate:simulate", "Rehearse a run with the sites of one file."),
}


federate = LazyGroup(
    "federate",
    lazy=_COMMANDS,
    help="""Make fair policies for sites that keep their rows.

    A server runs a plan with sites that connect to it: sums travel, rows stay.
    Every site ends with a policy of its own, and all of them together meet the
    requirements over all sites.
    """,
    epilog=examples(
        "logofair federate simulate data/together.csv --site site --score score --label label --group sex --folder try",
        "logofair federate server --help",
        "logofair federate client --help",
    ),
)

_ALWAYS = ("problem", "lost", "plan", "forged")

quiet_option = click.option(
    "--quiet", is_flag=True, help="Print the plan, problems and the result alone, and no line per exchange."
)


class Screen:
    """Prints events: as sentences, or as one JSON object a line; ``quiet``: plans and problems alone."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False, err: bool = True) -> None:
        self.quiet, self.as_json, self.err = quiet, as_json, err
        self.under_way = ""

    def __call__(self, event: Event) -> None:
        """Print one event."""
        if self.quiet and event.kind not in _ALWAYS:
            return
        if self.as_json:
            click.echo(json.dumps(event.as_dict()), err=self.err)
        elif event.kind == "request":  # said when it takes long, and when it is done
            self.under_way = f"exchange {event.values['exchange']} ({event.values['purpose']}): "
        else:
            before = {"problem": "Problem: ", "waiting": self.under_way}.get(event.kind, "")
            # One line, whatever names it holds: a group called "M\nSums: Secure" would forge what people agree to.
            click.echo(before + " ".join(event.sentence.split()), err=self.err)
