"""`potluck run`: one experiment."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import click
from rich.console import Console

from potluck import report
from potluck.cli.options import places, running, seed_list
from potluck.config import Experiment, load
from potluck.progress import watching
from potluck.run import Options, total_rounds
from potluck.run import run as play


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@running
def run(
    file: Path,
    overrides: tuple[str, ...],
    seeds: str | None,
    workers: int | None,
    out: Path | None,
    resume: bool,
    overwrite: bool,
    data_dirs: tuple[Path, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Run one experiment FILE (TOML) and write its records, its result and a report."""
    experiment = seeded(load(file, overrides), seeds)
    out = out or Path("runs") / experiment.name
    console = Console()
    with watching(console, quiet=quiet or as_json, total=total_rounds(experiment)) as watch:
        options = Options(
            workers=cores() if workers is None else workers,
            resume=resume,
            overwrite=overwrite,
            places=places(data_dirs),
            watch=watch,
            command=command(),
        )
        result = play(experiment, out, options)
    page = report.write(out, [out])
    if as_json:
        click.echo(json.dumps(result))
    elif not quiet:
        report.render([out], console)
        console.print(f"Report: {page}", soft_wrap=True, highlight=False)


def seeded(experiment: Experiment, seeds: str | None) -> Experiment:
    """Return the experiment with the seeds of the command line."""
    chosen = seed_list(seeds)
    return experiment if chosen is None else experiment.model_copy(update={"seeds": chosen})


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def command() -> str:
    """Return the command as it was typed."""
    return shlex.join(["potluck", *sys.argv[1:]])
