"""What commands print: nothing that a terminal obeys, whatever names, cells and notes hold."""

from __future__ import annotations

import click
import polars
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from logofair.cli.console import lined, notes, page, print_page
from logofair.cli.group import LazyGroup, cli
from logofair.columns.harmless import harmless

NASTY = "no\x1b[2Jrth\x9b31m\x07\r\u202ex"


@given(st.text())
def test_only_tabs_and_line_feeds_are_left_of_control_characters(text):
    shown = harmless(text)
    assert not [character for character in shown if ord(character) < 32 and character not in "\t\n"]
    assert harmless(shown) == shown


def test_tables_notes_and_text_of_a_page_are_harmless(capsys):
    print_page([lined([["name", NASTY], [NASTY, "1"]]), notes([(NASTY, NASTY)]), Text(NASTY), NASTY], page())
    printed = capsys.readouterr().out
    assert "\\x1b[2J" in printed
    assert not set(printed) & set("\x1b\x9b\x07\r\u202e")


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
