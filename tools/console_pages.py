"""Write what the commands of the pages with consoles print into these pages: python tools/console_pages.py [PAGE]."""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner

from logofair.cli.group import cli

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / name for name in ("reading-the-report.md", "case.md")]

_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$"
    r"|^(?P<console>```console\n)(?P<command>\$ (?:[^\n]*\\\n)*[^\n]*\n)(?P<shown>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def with_output(page: str) -> str:
    """Run the code and the commands of a page in the current folder, in order, and return it with what they print."""
    return _BLOCK.sub(_as_run, page)


def _as_run(block: re.Match[str]) -> str:
    if block["code"]:
        exec(compile(block["code"], "<page>", "exec"), {})
        return block[0]
    command = block["command"]
    words = shlex.split(command.removeprefix("$ ").replace("\\\n", " "))[1:]
    found = CliRunner(env={"COLUMNS": "80"}).invoke(cli, words, prog_name="logofair")
    if found.exit_code:
        raise SystemExit(f"{command}{found.stderr}")
    return f"{block['console']}{command}{found.stdout.strip()}\n```"


def main() -> None:
    """Bring every page up to date, or the ones that are named."""
    for path in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            path.write_text(with_output(page), encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main()
