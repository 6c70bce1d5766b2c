"""`potluck report`: rebuild tables, figures and page from stored records alone."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from potluck import report as reports
from potluck.cli.options import data_dir, places
from potluck.extreme_rows import extreme_rows


@click.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Where to write [default: the first DIRECTORY].")
@click.option(
    "--rows",
    "clients",
    multiple=True,
    type=click.IntRange(min=0),
    metavar="CLIENT",
    help="Also draw this client's rows with the highest and the lowest weights (needs its data); repeatable.",
)
@data_dir
@click.option("--quiet", is_flag=True, help="No table.")
def report(
    directories: tuple[Path, ...],
    out: Path | None,
    clients: tuple[int, ...],
    data_dirs: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Rebuild the report of runs in DIRECTORIES (a run, or a folder of runs) from their records."""
    runs = reports.open_runs([run for directory in directories for run in reports.find(directory)])
    console = Console()
    rows = extreme_rows(runs, clients, places(data_dirs)) if clients else []
    page = reports.write(out or directories[0], runs, rows=rows)
    if not quiet:
        reports.render(runs, console)
        console.print(f"Report: {page}", soft_wrap=True, highlight=False)
