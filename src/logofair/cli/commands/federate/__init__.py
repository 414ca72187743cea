"""``logofair federate``: policies for sites that keep their rows. Its commands are imported when they run."""

from __future__ import annotations

from logofair.cli.group import LazyGroup
from logofair.cli.options import examples

__all__ = ["federate"]


_COMMANDS = {
    "client": ("logofair.cli.commands.federate.client:client", "Take part as one site, with its own file and key."),
    "example": (
        "logofair.cli.commands.federate.setup:example",
        "Write the files of four sites, from the Adult data.",
    ),
    "join": ("logofair.cli.commands.federate.client:join", "Make the policy of a site that comes later."),
    "keys": ("logofair.cli.commands.federate.setup:keys", "Make the certificate of a server, or the key of a site."),
    "plan": ("logofair.cli.commands.federate.client:show_plan", "Show a plan and its digest."),
    "server": (
        "logofair.cli.commands.federate.server:server",
        "Run a plan with sites that connect, or resume it.",
    ),
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
