"""What commands print: nothing that a terminal obeys, whatever names, cells and notes hold."""

from __future__ import annotations

import click
import polars
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from logofair.cli.console import show, showing_progress
from logofair.cli.group import LazyGroup, cli
from logofair.columns.harmless import harmless
from logofair.words.sections import Page, Paragraph, Table

NASTY = "no\x1b[2Jrth\x9b31m\x07\r\u202ex"


@given(st.text())
def test_only_tabs_and_line_feeds_are_left_of_control_characters(text):
    shown = harmless(text)
    assert not [character for character in shown if ord(character) < 32 and character not in "\t\n"]
    assert harmless(shown) == shown


def test_pages_parts_and_progress_are_harmless(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    show(Page("Report", NASTY, table=Table(NASTY, ("name", NASTY), ((NASTY, "1"),), "lr"), beside=(Paragraph(NASTY),)))
    with showing_progress() as progress:
        assert list(progress([1, 2], NASTY, 2)) == [1, 2]
    printed = capsys.readouterr()
    assert "\\x1b[2J" in printed.out
    assert "\\x1b[2J" in printed.err
    assert not set(printed.out) & set("\x1b\x9b\x07\r\u202e")
    assert not set(printed.err) & set("\x9b\x07\u202e")  # progress moves the cursor itself


def test_what_any_command_prints_is_harmless_and_so_are_errors():
    group = LazyGroup("logofair", lazy={})

    @group.command()
    @click.argument("name")
    def say(name):
        click.echo(name)
        click.echo(name, err=True)
        raise click.UsageError(name)

    group.lazy = {"say": ("", "")}
    group.get_command = lambda context, name: say
    result = CliRunner().invoke(group, ["say", NASTY])
    assert result.output.count("\\x9b31m") == 3  # click itself drops colours where there is no terminal
    assert not set(result.output) & set("\x1b\x9b\x07\r\u202e")


def test_a_group_that_would_clear_the_screen_does_not(tmp_path):
    table = {"sex": [NASTY, "F"] * 40, "risk": [0.2, 0.8, 0.6, 0.4] * 20, "label": [0, 1] * 40}
    polars.DataFrame(table).write_parquet(tmp_path / "people.parquet")
    words = ("audit", tmp_path / "people.parquet", "--group", "sex", "--score", "risk", "--label", "label")
    result = CliRunner().invoke(cli, [str(word) for word in words], prog_name="logofair")
    assert result.exit_code == 0, result.output
    assert "\\x1b[2J" in result.output
    assert "\x1b[2J" not in result.output
