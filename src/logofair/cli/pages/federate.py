"""The end of a run as a page for people: the sentences of its result as a table, and a site's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from logofair.federation import RunResult
    from logofair.policy.policy import Policy

__all__ = ["show_policy", "show_result"]


def show_result(result: RunResult, console: Console) -> None:
    """Print the sentences of a result as a table."""
    with console.capture() as captured:
        console.print(result.heading, end="\n\n", soft_wrap=True)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        last = ""
        for label, sentence in result.sentences():
            table.add_row("" if label == last else label, sentence)
            last = label
        console.print(table)
    console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show_policy(policy: Policy, where: object, console: Console) -> None:
    """Print a site's rules, and what it should know of them."""
    calibrated = policy.calibrator.method != "none"
    console.print(f"{where}:", soft_wrap=True)
    console.print(str(policy.rules), soft_wrap=True)
    if calibrated:
        console.print("(Scores here are calibrated ones; policy.decide takes the scores as they are.)", soft_wrap=True)
    for sentence in policy.info.warnings:
        console.print(f"Warning: {sentence}", soft_wrap=True)
    if policy.info.note is not None:
        console.print(f"Note: {policy.info.note}", soft_wrap=True)
