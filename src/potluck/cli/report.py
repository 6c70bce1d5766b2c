"""`potluck report`: rebuild tables, figures and page from stored records alone."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from potluck import report as reports


@click.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to write [default: the first DIRECTORY].")
@click.option("--quiet", is_flag=True, help="No table.")
def report(directories: tuple[Path, ...], out: Path | None, quiet: bool) -> None:
    """Rebuild the report of runs in DIRECTORIES (a run, or a folder of runs) from their records."""
    runs = [run for directory in directories for run in reports.find(directory)]
    console = Console()
    page = reports.write(out or directories[0], runs)
    if not quiet:
        reports.render(runs, console)
        console.print(f"Report: {page}", soft_wrap=True, highlight=False)
