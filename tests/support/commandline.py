"""The command line in process: what a command prints, tells as JSON, or refuses in one sentence."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from logofair.cli.group import cli


def run(*words: object) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    result = CliRunner().invoke(cli, [*map(str, words)], prog_name="logofair")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def printed(*words: object) -> str:
    """What a command that succeeds prints."""
    code, output, error = run(*words)
    assert code == 0, error
    return output


def json_of(*words: object) -> Any:
    """What a command that succeeds says with ``--json``."""
    return json.loads(printed(*words, "--json"))


def refused(*words: object) -> str:
    """The one sentence with which a command refuses."""
    code, output, error = run(*words)
    assert (code, output) == (2, ""), error
    assert error.count("\n") == 1
    return error.strip()
