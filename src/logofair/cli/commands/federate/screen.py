"""What a federate command that runs for long prints while it runs: one line per event, on standard error."""

from __future__ import annotations

import json

import click

from logofair.engines.events import Event

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
