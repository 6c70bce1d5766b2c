"""Figures over clients: the spread of their accuracies, who holds which classes, and the weights they got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from potluck.report.canvas import INK, PALE, axes, dress, figure, legend, plain
from potluck.report.palette import pen
from potluck.report.read import Run
from potluck.report.records import Floats, Ints
from potluck.report.series import Partition, client_finals, client_means, partitions

MOST_BUBBLES = 40
MOST_TICKS = 34
MOST_MARKS = 160


def boxes(runs: Sequence[Run]) -> Figure | None:
    """Draw the accuracies of all clients at the last evaluated round, every client of every seed a dot."""
    found = {run.label: client_finals(run) for run in runs}
    shown = [(place, run) for place, run in enumerate(runs) if found[run.label]]
    if not shown:
        return None
    canvas = figure(7.2, 1.7 + 0.68 * len(shown))
    area = axes(canvas, "Clients' accuracy at the last evaluated round", "accuracy (%)", "")
    for row, (place, run) in enumerate(reversed(shown)):
        _box(area, row, pen(place).colour, found[run.label])
    area.set_yticks(range(len(shown)), [plain(run.label) for _, run in reversed(shown)])
    area.tick_params(axis="y", labelcolor=INK)
    area.grid(False, axis="y")
    area.set_ylim(-0.75, len(shown) - 0.4)
    return canvas


def _box(area: Axes, row: int, colour: str, seeds: Mapping[int, tuple[Ints, Floats]]) -> None:
    values = 100 * np.concatenate([own for _, own in seeds.values()])
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    area.plot([values.min(), values.max()], [row, row], color=colour, lw=1.2, zorder=2)
    area.barh(
        row, high - low, left=low, height=0.44, color=colour, alpha=0.25, edgecolor=colour, lw=1.2, zorder=3
    )
    area.plot([middle, middle], [row - 0.22, row + 0.22], color=colour, lw=2.4, zorder=4)
    step = np.linspace(-0.15, 0.15, num=7)[np.arange(len(values)) % 7]
    area.scatter(values, row + step, s=9, color=colour, alpha=0.55, lw=0, zorder=5)
    clients = np.concatenate([own for own, _ in seeds.values()])
    worst = int(values.argmin())
    note = f"worst: client {clients[worst]}, {values[worst]:.1f}"
    area.annotate(note, (values[worst], row), (0, -18), textcoords="offset points", fontsize=7.5, color=PALE)


def partition_figure(runs: Sequence[Run]) -> Figure | None:
    """Draw who holds which classes: bubbles for few clients, a heat map for many, rows a client above."""
    found = partitions(runs)
    if not found:
        return None
    title, own = found[0].title, found[0].partition
    clients, classes = len(own.clients), len(own.classes)
    width = float(np.clip(1.6 + 0.28 * clients, 5.2, 14))
    canvas = figure(width, float(np.clip(2.2 + 0.24 * classes, 3.4, 11)))
    upper, lower = np.asarray(canvas.subplots(2, 1, sharex=True, height_ratios=[1, 4]))
    dress(upper, f"Rows of each class at each client ({plain(title)})", "", "rows")
    upper.bar(np.arange(clients), own.counts.sum(axis=1), width=0.72, color="#9aa3b2")
    dress(lower, "", "client", "class")
    if clients <= MOST_BUBBLES and classes <= MOST_BUBBLES:
        _bubbles(lower, own, width)
    else:
        lower.imshow(own.counts.T, aspect="auto", cmap="Blues", norm=PowerNorm(0.5), interpolation="nearest")
        lower.grid(False)
    step, skip = -(-clients // MOST_TICKS), -(-classes // MOST_TICKS)
    lower.set_xticks(range(0, clients, step), [str(name) for name in own.clients[::step]])
    lower.set_yticks(range(0, classes, skip), [plain(name) for name in own.classes[::skip]])
    lower.set_xlim(-0.7, clients - 0.3)
    lower.set_ylim(classes - 0.4, -0.6)
    return canvas


def _bubbles(area: Axes, own: Partition, width: float) -> None:
    clients, classes = np.nonzero(own.counts)
    counts = own.counts[clients, classes]
    cell = min(72 * (width - 1.4) / max(len(own.clients), 1), 72 * 0.24)
    sizes = (0.96 * cell) ** 2 * counts / max(float(own.counts.max()), 1.0)
    area.scatter(clients, classes, s=np.maximum(sizes, 1.0), color=pen(0).colour, alpha=0.85, lw=0)


def weights(runs: Sequence[Run]) -> Figure | None:
    """Draw the mean aggregation weight of every client over the rounds of the first seed."""
    found = {run.label: client_means(run, "weight", run.seeds[0]) for run in runs if run.seeds}
    shown = [label for label, (clients, _) in found.items() if len(clients)]
    if not shown:
        return None
    widest = max(len(found[label][0]) for label in shown)
    if widest * len(shown) > MOST_MARKS:
        return _weight_map([run for run in runs if run.label in shown], found)
    canvas = figure(float(np.clip(3.2 + 0.16 * widest, 7.2, 14)))
    area = axes(canvas, "Aggregation weight of each client", "client", "mean weight when it took part")
    for place, run in enumerate(runs):
        if run.label in shown:
            clients, means = found[run.label]
            shift = 0.5 * (place - (len(runs) - 1) / 2) / max(len(runs), 1)
            style = pen(place)
            area.vlines(clients + shift, 0, means, color=style.colour, lw=1, alpha=0.35)
            area.plot(clients + shift, means, style.marker, color=style.colour, ms=4.5 if widest <= 40 else 3)
    area.set_ylim(bottom=0)
    area.xaxis.set_major_locator(MaxNLocator(nbins=MOST_TICKS, integer=True))
    area.grid(False, axis="x")
    legend(canvas, runs, shown, marker=True)
    return canvas


def _weight_map(runs: Sequence[Run], found: Mapping[str, tuple[Ints, Floats]]) -> Figure:
    """Draw one row of shades a method, for more clients than markers can show."""
    clients = np.unique(np.concatenate([found[run.label][0] for run in runs]))
    shades = np.full((len(runs), len(clients)), np.nan)
    for row, run in enumerate(runs):
        own, means = found[run.label]
        shades[row, np.searchsorted(clients, own)] = means
    canvas = figure(12, 1.8 + 0.34 * len(runs))
    area = axes(canvas, "Aggregation weight of each client", "client", "")
    picture = area.imshow(shades, aspect="auto", cmap="Blues", vmin=0, interpolation="nearest")
    canvas.colorbar(picture, ax=area, label="mean weight when it took part")
    area.grid(False)
    step = -(-len(clients) // MOST_TICKS)
    area.set_xticks(range(0, len(clients), step), [str(client) for client in clients[::step]])
    area.set_yticks(range(len(runs)), [plain(run.label) for run in runs])
    area.tick_params(axis="y", labelcolor=INK)
    return canvas
