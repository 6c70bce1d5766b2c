"""`potluck export`: a run's final model as a safetensors file."""

from __future__ import annotations

from pathlib import Path

import click

from potluck.export import export as write


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Which seed's model.")
def export(directory: Path, out: Path, seed: int) -> None:
    """Write the final model of the run in DIRECTORY to OUT (safetensors), to start from or to build on."""
    click.echo(write(directory, seed, out))
