"""Progress: a live bar on a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from potluck.run import Progress as Standing
from potluck.run import Watcher


@contextmanager
def watching(console: Console, *, quiet: bool, total: int) -> Iterator[Watcher | None]:
    """Yield what a run should tell after each round; `total` counts the rounds of all its stages and seeds."""
    if quiet:
        yield None
    elif console.is_terminal:
        with _bar(console) as bar:
            yield Live(bar, total)
    else:
        yield Lines(console, total)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=10 if console.width < 100 else 28),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("left: {task.fields[now]}"),
        console=console,
        transient=True,
    )


class Live:
    """A bar over all rounds of a command."""

    def __init__(self, bar: Progress, total: int) -> None:
        self.bar = bar
        self.task = bar.add_task("starting", total=total, now="")

    def __call__(self, standing: Standing) -> None:
        """Move the bar."""
        self.bar.update(self.task, description=f"{standing.label}/{standing.seed}", now=_now(standing))
        self.bar.advance(self.task, standing.round if standing.resumed else min(standing.round, 1))


class Lines:
    """One line every few seconds."""

    def __init__(self, console: Console, total: int, every: float = 5.0) -> None:
        self.console, self.total, self.every = console, total, every
        self.played, self.last = 0, time.monotonic()

    def __call__(self, standing: Standing) -> None:
        """Print a line if the last one is old, or if a stage is over."""
        self.played += standing.round if standing.resumed else min(standing.round, 1)
        now = time.monotonic()
        over = standing.round == standing.rounds
        if standing.round and (over or standing.resumed or now - self.last >= self.every):
            self.last = now
            self.console.print(
                f"{standing.label} seed {standing.seed}: {_now(standing)}  [{self.played}/{self.total}]",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


def _now(standing: Standing) -> str:
    text = f"{standing.stage} {standing.round}/{standing.rounds}"
    if standing.participants:
        text += f", {standing.participants} clients"
    if standing.accuracy is not None:
        text += f", accuracy {standing.accuracy:.3f}"
    return text
