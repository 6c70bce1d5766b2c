"""The documentation is executed: Python blocks run, shell blocks are commands that exist, links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from potluck.cli import cli
from potluck.config import experiment

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=ids)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=ids)
def test_experiments_in_the_text_are_valid(page: Path) -> None:
    for block in blocks(page, "toml"):
        table = tomllib.loads(block)
        experiment({"name": "block", **table})


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")], ids=ids)
def test_commands_in_the_text_exist(page: Path) -> None:
    for line in "".join(blocks(page, "bash")).splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if words[:1] == ["potluck"]:
            command = cli.commands[words[1]]
            inner = getattr(command, "commands", {})
            command, arguments = (inner[words[2]], words[3:]) if inner else (command, words[2:])
            command.make_context(command.name, arguments)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=ids)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
