"""Generated parts of pages: the text between `<!-- NAME:begin -->` and `<!-- NAME:end -->` is replaced."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from potluck import report

HERE = Path(__file__).parent
RECORDS = HERE / "records"
PICTURES = HERE / "pictures"


def fill(page: Path, name: str, text: str) -> None:
    """Replace one generated block of a page."""
    before = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    if not pattern.search(before):
        raise SystemExit(f"{page}: has no block {name!r}")
    page.write_text(
        pattern.sub(lambda found: f"{found[1]}{text.rstrip()}\n{found[2]}", before), encoding="utf-8"
    )


def runs(name: str) -> list[Path]:
    """Return the stored runs of a name, in the order in which they were stored."""
    folder = RECORDS / name
    if (folder / "manifest.json").exists():
        return [folder]
    return list(report.find(folder))


def terminal(paths: Sequence[Path], width: int = 100) -> str:
    """Return the comparison table as the terminal shows it."""
    out = io.StringIO()
    report.render(paths, Console(file=out, width=width, color_system=None, force_terminal=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def picture(paths: Sequence[Path], what: str, name: str) -> str:
    """Draw one figure of stored runs and return its path below docs/."""
    PICTURES.mkdir(exist_ok=True)
    figure = report.plot(paths, what)
    figure.savefig(PICTURES / name, dpi=130, metadata={"Software": ""})
    return f"pictures/{name}"
