"""`potluck skew FILE`: how much the clients of an experiment (or of label histograms) differ, and what to try."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from potluck.cli.options import data_dir, places
from potluck.config import load
from potluck.errors import BadInputError
from potluck.federation import Federation
from potluck.skew.advice import Advice, advise
from potluck.skew.draw import figures
from potluck.skew.histogram import read_histogram
from potluck.skew.measure import Skew, describe
from potluck.skew.page import write
from potluck.skew.record import record, summary

MOST = 6


@click.command("skew")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Override one setting.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write skew.html and pictures into this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the measures and the advice as JSON.")
@data_dir
def skew(
    file: Path, overrides: tuple[str, ...], out: Path | None, as_json: bool, data_dirs: tuple[Path, ...]
) -> None:
    """Measure how much clients differ and name the methods made for it.

    FILE is an experiment (.toml), or label histograms, clients down and classes across (.csv, .json).
    """
    federation: Federation | None = None
    if file.suffix.lower() in (".csv", ".json"):
        if overrides:
            raise BadInputError(f"--set {overrides[0]}: {file} holds histograms, not an experiment")
        measured = read_histogram(file)
    else:
        experiment = load(file, overrides)
        federation = experiment.federation(experiment.seeds[0], places(data_dirs))
        measured = describe(federation)
    advice = advise(measured)
    if as_json:
        click.echo(json.dumps(record(measured, advice), indent=1, allow_nan=False))
    else:
        show(measured, advice, Console())
    if out is not None:
        written = write(out, measured, advice, figures(measured, federation))
        click.echo(f"page: {written}", err=as_json)


def show(measured: Skew, advice: Advice, console: Console) -> None:
    """Print the measures in one table, then the findings and the methods."""
    grid = Grid(title=escape(f"skew of {measured.name}"), title_justify="left", show_header=False)
    for name, value in summary(measured).items():
        grid.add_row(name, value)
    console.print(grid)
    for finding in advice.findings:
        console.print(f"- {finding.sentence}", highlight=False, markup=False, soft_wrap=True)
    console.print(advice.verdict, style="bold", highlight=False, markup=False, soft_wrap=True)
    for method in advice.methods[:MOST]:
        console.print(
            f"  {method.title}: {method.reason} ({method.reference})",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if len(advice.methods) > MOST:
        others = ", ".join(method.title for method in advice.methods[MOST:])
        console.print(f"  also: {others}", highlight=False, markup=False, soft_wrap=True)
