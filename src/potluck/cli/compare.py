"""`potluck compare`: several algorithms on the same federation."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from potluck import report
from potluck.cli.options import places, running
from potluck.cli.run import command, cores, seeded
from potluck.config import Experiment, load
from potluck.errors import BadInputError
from potluck.progress import watching
from potluck.run import Options, compare_all, total_rounds


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--algorithms", metavar="A,B,C", help="Algorithms to compare on one FILE.")
@running
def compare(
    files: tuple[Path, ...],
    algorithms: str | None,
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
    """Compare several FILES, or one FILE with --algorithms: same rows, initial weights and participants for all."""
    variants = {
        label: seeded(variant, seeds) for label, variant in gather(files, overrides, algorithms).items()
    }
    first = next(iter(variants.values()))
    out = out or Path("runs") / first.name
    console = Console()
    total = sum(total_rounds(variant) for variant in variants.values())
    with watching(console, quiet=quiet or as_json, total=total) as watch:
        options = Options(
            workers=cores() if workers is None else workers,
            resume=resume,
            overwrite=overwrite,
            places=places(data_dirs),
            watch=watch,
            command=command(),
        )
        results = compare_all(variants, out, options)
    runs = [out / label for label in results]
    page = report.write(out, runs, title=first.name)
    if as_json:
        click.echo(json.dumps(results))
    elif not quiet:
        report.render(runs, console)
        console.print(f"Report: {page}", soft_wrap=True, highlight=False)


def gather(
    files: tuple[Path, ...], overrides: tuple[str, ...], algorithms: str | None
) -> dict[str, Experiment]:
    """Return the experiments to compare, by label."""
    if len(files) == 1:
        chosen = [name.strip() for name in (algorithms or "").split(",") if name.strip()]
        return load(files[0], overrides).variants(chosen)
    if algorithms:
        raise BadInputError("--algorithms goes with one file; give either several files or one")
    out: dict[str, Experiment] = {}
    for file in files:
        experiment = load(file, overrides)
        if experiment.name in out:
            raise BadInputError(f"{file}: another file has the name {experiment.name!r} too; change one")
        out[experiment.name] = experiment
    return out
