"""Write what the commands of docs/formats/*.md print into these pages: python tools/format_pages.py."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner

from logofair.cli.group import cli

PAGES = sorted((Path(__file__).parents[1] / "docs" / "formats").glob("*.md"))

_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SHOWN = re.compile(r"^(~~~~markdown (\S+)\n)(.*?)^~~~~$", re.DOTALL | re.MULTILINE)


def run_commands(page: str, done: set[str]) -> None:
    """Run the commands of a page in the current folder, but for those that are done already; ``> FILE`` works."""
    for line in "".join(_COMMANDS.findall(page)).splitlines():
        words, _, file = line.partition(" > ")
        if line in done:
            continue
        found = CliRunner().invoke(cli, shlex.split(words)[1:], prog_name="logofair")
        if found.exit_code:
            raise SystemExit(f"{line}: {found.stderr}")
        if file:
            Path(file).write_text(found.stdout, encoding="utf-8")
        done.add(line)


def with_output(page: str) -> str:
    """Return the page with the files that its commands wrote in the current folder."""
    return _SHOWN.sub(lambda block: f"{block[1]}{Path(block[2]).read_text(encoding='utf-8')}~~~~", page)


def main() -> None:
    """Bring every page up to date."""
    done: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for path in PAGES:
            page = path.read_text(encoding="utf-8")
            run_commands(page, done)
            path.write_text(with_output(page), encoding="utf-8")
            print(os.path.relpath(path, path.parents[2]))


if __name__ == "__main__":
    main()
