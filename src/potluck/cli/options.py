"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from potluck.data.places import Places
from potluck.errors import BadInputError

Command = Callable[..., Any]


def running(command: Command) -> Command:
    """Add the options of commands that run experiments."""
    options: list[Callable[[Command], Command]] = [
        click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Override one setting."),
        click.option("--seeds", metavar="0,1,2", help="Seeds to run, instead of those of the file."),
        click.option(
            "--workers",
            type=click.IntRange(min=0),
            default=None,
            help="Worker processes; 0 works in this one. Changes no number. [default: one per core]",
        ),
        click.option(
            "--out", type=click.Path(path_type=Path), help="Directory to write to [default: runs/NAME]."
        ),
        click.option("--resume", is_flag=True, help="Go on with a run that was stopped."),
        click.option("--overwrite", is_flag=True, help="Start anew where the directory holds a run already."),
        data_dir,
        click.option("--quiet", is_flag=True, help="No progress and no table."),
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else."),
    ]
    return functools.reduce(lambda inner, option: option(inner), reversed(options), command)


def data_dir(command: Command) -> Command:
    """Add the option that says where data files lie."""
    return click.option(
        "--data-dir",
        "data_dirs",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Folder with data files, before $POTLUCK_DATA and the user's cache; repeatable.",
    )(command)


def places(folders: tuple[Path, ...]) -> Places:
    """Return where data are looked for; a folder that was named must exist."""
    for folder in folders:
        if not folder.is_dir():
            raise BadInputError(f"--data-dir: {folder} is not a folder")
    return Places.usual(folders)


def seed_list(text: str | None) -> list[int] | None:
    """Read `0,1,2`."""
    if text is None:
        return None
    try:
        seeds = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise BadInputError(f"--seeds: must be whole numbers such as 0,1,2, got {text!r}") from error
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise BadInputError(f"--seeds: must be different whole numbers from 0 up, got {text!r}")
    return seeds
