"""The demo's table and picture in the README, and its list of methods. The record is a run of `make demo`."""

from __future__ import annotations

from pathlib import Path

from blocks import HERE, fill, picture, runs, terminal

from potluck.algorithms import ALGORITHMS

README = HERE.parent / "README.md"


def main() -> None:
    """Fill the README."""
    stored = runs("demo")
    fill(README, "demo", f"```text\n{terminal(stored, width=90)}\n```")
    picture(stored, "accuracy", "demo.png")
    fill(README, "methods", methods())


def methods() -> str:
    """Name every method, with a link where it has a page."""
    return ", ".join(_linked(name) for name in sorted(ALGORITHMS)) + "."


def _linked(name: str) -> str:
    page = Path("docs/algorithms") / f"{name.replace('-', '_')}.md"
    return f"[{name}]({page})" if (HERE.parent / page).exists() else name


if __name__ == "__main__":
    main()
