"""The comparison table: one line a method, for notebooks as plain rows, for the terminal through rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from potluck.report.read import Run, open_runs
from potluck.report.series import curve
from potluck.report.statistics import (
    FINALS,
    Difference,
    Summary,
    fallback_sentence,
    finals,
    paired,
    rounds_to_of,
    summarise,
)

SHARE_OF_BEST = 0.95
WIDE = 150
NARROW = ("accuracy", "local_accuracy_mean", "local_accuracy_worst", "rounds_to", "bytes_up", "seconds")
MISSING = "\u2013"


class Line(NamedTuple):
    """One method of a comparison: every figure as mean and standard deviation over seeds."""

    method: str
    seeds: int
    accuracy: Summary
    accuracy_macro: Summary
    f1_macro: Summary
    loss: Summary
    local_accuracy: Summary
    local_accuracy_mean: Summary
    local_accuracy_worst: Summary
    rounds_to: Summary
    bytes_up: Summary
    bytes_down: Summary
    seconds: Summary


class Heading(NamedTuple):
    """A column of the table: its field of `Line`, its title, how it is written, and which end is good."""

    field: str
    title: str
    kind: str
    best: str
    meaning: str


HEADINGS = (
    Heading("accuracy", "Accuracy", "percent", "high", "share of right answers on the global test set"),
    Heading("accuracy_macro", "Macro acc.", "percent", "high", "mean recall over classes, global test set"),
    Heading("f1_macro", "F1", "percent", "high", "F1 averaged over classes, global test set"),
    Heading("loss", "Loss", "number", "low", "mean loss on the global test set"),
    Heading(
        "local_accuracy", "Local, weighted", "percent", "high", "clients' own test sets, weighted by rows"
    ),
    Heading(
        "local_accuracy_mean", "Local mean", "percent", "high", "clients' own test sets, each client once"
    ),
    Heading("local_accuracy_worst", "Worst", "percent", "high", "the client with the lowest accuracy"),
    Heading("rounds_to", "To 95\u00a0%", "count", "low", "rounds to 95 % of the best final accuracy"),
    Heading("bytes_up", "Up", "bytes", "low", "bytes from the clients, all rounds of one seed"),
    Heading("bytes_down", "Down", "bytes", "low", "bytes to the clients, all rounds of one seed"),
    Heading("seconds", "Time", "seconds", "low", "wall clock of one seed"),
)


def table(runs: Iterable[Run | Path | str]) -> list[Line]:
    """Return the comparison as plain rows, in the order of the runs."""
    opened = open_runs(runs)
    metric, target = metric_of(opened), target_of(opened)
    return [_line(run, metric, target) for run in opened]


def target_of(runs: Sequence[Run]) -> float | None:
    """Return 95 % of the best final accuracy, if it is accuracies that the methods are compared by."""
    metric = metric_of(runs)
    if metric == "loss":
        return None
    means = [summarise(list(finals(run, metric).values())).mean for run in runs]
    there = [mean for mean in means if mean is not None]
    return SHARE_OF_BEST * max(there) if there else None


def metric_of(runs: Sequence[Run]) -> str:
    """Return what methods are compared by: an accuracy, or the loss where no method has one (autoencoders)."""
    wanted = ("accuracy", "local_accuracy", "loss")
    return next((name for name in wanted if any(finals(run, name) for run in runs)), "local_accuracy")


def _line(run: Run, metric: str, target: float | None) -> Line:
    figures = {heading.field: summarise(list(finals(run, heading.field).values())) for heading in HEADINGS}
    figures["rounds_to"] = rounds_to_of(curve(run, FINALS[metric]), target)
    return Line(method=run.label, seeds=len(run.seeds), **figures)


def differences(runs: Sequence[Run], metric: str) -> list[tuple[str, str, Difference]]:
    """Return, for each method, its difference to the first method that has the figure.

    Runs on different partitions are not paired: their difference gets no interval.
    """
    having = [run for run in runs if finals(run, metric)]
    if not having:
        return []
    base = having[0]
    return [(run.label, base.label, _difference(run, base, metric)) for run in having[1:]]


def _difference(run: Run, base: Run, metric: str) -> Difference:
    gap = paired(finals(run, metric), finals(base, metric))
    if run.shares_partition(base):
        return gap
    return gap._replace(low=None, high=None, verdict="different partitions: not paired")


def written(value: float, kind: str) -> str:
    """Return a figure as people read it."""
    match kind:
        case "percent":
            return f"{100 * value:.2f}"
        case "bytes":
            return human_bytes(value)
        case "seconds":
            return human_seconds(value)
        case "count":
            return f"{value:.1f}".removesuffix(".0")
        case _:
            return f"{value:.4f}" if abs(value) < 1000 else f"{value:.3g}"


def cell(summary: Summary, kind: str) -> str:
    """Return mean ± standard deviation; a dash where a method has no such figure."""
    if summary.mean is None:
        return MISSING
    if summary.std is None or kind in ("bytes", "seconds"):
        return written(summary.mean, kind)
    return f"{written(summary.mean, kind)} ± {written(summary.std, kind)}"


def _short(summary: Summary, kind: str) -> str:
    """Return a figure for the terminal: percentages with one decimal, spread only where it matters."""
    if kind == "percent" and summary.mean is not None:
        spread = "" if summary.std is None else f" ± {100 * summary.std:.1f}"
        return f"{100 * summary.mean:.1f}{spread}"
    return cell(summary._replace(std=None), kind)


def human_bytes(value: float) -> str:
    """Return a number of bytes with a decimal unit."""
    size = float(value)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(size) < 999.5 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError("unreachable: the last unit always returns")


def human_seconds(value: float) -> str:
    """Return a duration: seconds, minutes or hours."""
    if value < 60:
        return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"
    if value < 3600:
        return f"{value / 60:.3g} min"
    return f"{value / 3600:.3g} h"


def best_of(lines: Sequence[Line], heading: Heading) -> frozenset[str]:
    """Return the methods with the best mean of a column; none when all are equal."""
    means = {line.method: getattr(line, heading.field).mean for line in lines}
    there = {method: mean for method, mean in means.items() if mean is not None}
    if len(set(there.values())) < 2:
        return frozenset()
    top = max(there.values()) if heading.best == "high" else min(there.values())
    return frozenset(method for method, mean in there.items() if mean == top)


def render(runs: Iterable[Run | Path | str], console: Console) -> None:
    """Print the comparison table, the paired differences and the warnings to a terminal."""
    opened = open_runs(runs)
    lines = table(opened)
    shown = [heading for heading in HEADINGS if any(getattr(line, heading.field).seeds for line in lines)]
    if console.width < WIDE:
        shown = [heading for heading in shown if heading.field in (metric_of(opened), *NARROW)]
    console.print(_grid(lines, shown))
    metric = metric_of(opened)
    for method, base, gap in differences(opened, metric):
        console.print(
            f"{method} minus {base}: {sentence(gap, metric)}", markup=False, highlight=False, soft_wrap=True
        )
    for run in opened:
        warning = fallback_sentence(run)
        if warning:
            console.print(warning, markup=False, highlight=False, soft_wrap=True)
        for remark in run.remarks():
            console.print(f"note: {remark}", markup=False, highlight=False, soft_wrap=True)


def _grid(lines: Sequence[Line], headings: Sequence[Heading]) -> RichTable:
    seeds = max(line.seeds for line in lines)
    what = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "one seed"
    units = "Accuracies in %; " if any(heading.kind == "percent" for heading in headings) else ""
    grid = RichTable(caption=units + what, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column("Method", no_wrap=True)
    for heading in headings:
        grid.add_column(heading.title, justify="right", no_wrap=True)
    for line in lines:
        figures = [_marked(line, heading, best_of(lines, heading)) for heading in headings]
        grid.add_row(Text(line.method), *figures)
    return grid


def _marked(line: Line, heading: Heading, best: frozenset[str]) -> Text:
    return Text(_short(getattr(line, heading.field), heading.kind), "bold" if line.method in best else "")


def sentence(gap: Difference, metric: str = "accuracy") -> str:
    """Return a paired difference in words: accuracies in percentage points, losses as they are."""
    factor, unit = (1, " loss") if metric == "loss" else (100, " points")
    if gap.mean is None:
        return gap.verdict
    if gap.low is None or gap.high is None:
        return f"{factor * gap.mean:+.2f}{unit}; {gap.verdict}"
    interval = f"95 % interval {factor * gap.low:+.2f} to {factor * gap.high:+.2f}"
    return f"{factor * gap.mean:+.2f}{unit}, {interval}, {gap.seeds} seeds; {gap.verdict}"


__all__ = ["HEADINGS", "Heading", "Line", "cell", "differences", "render", "table", "target_of"]
