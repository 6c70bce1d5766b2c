"""Figures over rounds: a thin line for every seed, the mean, and a band of one standard deviation.

A few methods share one pair of axes; more than that get a panel each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from potluck.report.canvas import axes, dashed, dress, figure, legend, plain
from potluck.report.palette import Pen, pen
from potluck.report.plot_panels import behind, drawn_on, panels
from potluck.report.read import Run
from potluck.report.series import Curve, curve, site_curves

FEW_ROUNDS = 3
SITES_ACROSS = 3
FEW_METHODS = 6


class Quantity(NamedTuple):
    """Something recorded over rounds: its name in the records, its title, its axis, and the axis' factor."""

    what: str
    title: str
    up: str
    factor: float


QUANTITIES = {
    "accuracy": Quantity("global/accuracy", "Accuracy on the global test set", "accuracy (%)", 100),
    "accuracy_macro": Quantity(
        "global/accuracy_macro", "Macro accuracy on the global test set", "macro accuracy (%)", 100
    ),
    "f1_macro": Quantity("global/f1_macro", "F1 on the global test set", "F1, macro (%)", 100),
    "loss": Quantity("global/loss", "Loss on the global test set", "loss", 1),
    "local_accuracy": Quantity(
        "local/weighted/accuracy", "Accuracy on the clients' own test sets", "accuracy (%)", 100
    ),
    "local_accuracy_worst": Quantity(
        "local/min/accuracy", "Accuracy of the worst client", "accuracy (%)", 100
    ),
    "effective_clients": Quantity(
        "effective_clients", "Effective number of clients", "1 / sum of squared weights", 1
    ),
    "consensus": Quantity("consensus", "Distance from consensus", "mean distance to the mean model", 1),
}


def quantity(what: str) -> Quantity:
    """Return a known quantity, or a plain one for whatever a method logged."""
    if what in QUANTITIES:
        return QUANTITIES[what]
    return Quantity(what, what, what, 1)


def curves(runs: Sequence[Run], what: str) -> Figure | None:
    """Draw one quantity of every method, or return None when none recorded it."""
    kind = quantity(what)
    found = {run.label: curve(run, kind.what) for run in runs}
    if not any(found.values()):
        return None
    if sum(own is not None for own in found.values()) > FEW_METHODS:
        return _apart(kind, found)
    canvas = figure(8.4 if len(runs) > 1 else 7.2)
    area = axes(canvas, plain(kind.title), "round", plain(kind.up))
    for place, run in enumerate(runs):
        own = found[run.label]
        if own is not None:
            _method(area, own, pen(place), kind.factor)
    area.xaxis.set_major_locator(MaxNLocator(integer=True))
    area.margins(x=0.02)
    legend(canvas, runs, [label for label, own in found.items() if own is not None])
    return canvas


def _apart(kind: Quantity, found: Mapping[str, Curve | None]) -> Figure:
    """Draw every method in a panel of its own, the means of the others behind it."""
    pens = {label: pen(place) for place, label in enumerate(found)}
    there = {label: own for label, own in found.items() if own is not None}
    means = {label: (own.rounds, kind.factor * own.mean()) for label, own in there.items()}
    absent = [label for label in found if label not in there]
    areas = panels(kind.title, plain(kind.up), {label: pens[label] for label in there}, absent)
    for label, own in there.items():
        behind(areas[label], {name: line for name, line in means.items() if name != label})
        _method(areas[label], own, pens[label]._replace(dash=()), kind.factor)
    return drawn_on(areas)


def _method(area: Axes, own: Curve, style: Pen, factor: float) -> None:
    """Draw a method: dots instead of lines where there are hardly any rounds."""
    mark = "o" if len(own.rounds) <= FEW_ROUNDS else ""
    mean, std = factor * own.mean(), factor * own.std()
    for seed in own.seeds if len(own.seeds) > 1 else ():
        rounds, values = own.seed(seed)
        area.plot(rounds, factor * values, color=style.colour, lw=0.7, alpha=0.45, marker=mark, ms=3)
    if len(own.seeds) > 1:
        area.fill_between(own.rounds, mean - std, mean + std, color=style.colour, alpha=0.13, lw=0)
    area.plot(own.rounds, mean, color=style.colour, lw=2, linestyle=dashed(style), marker=mark, ms=5)


def sites(runs: Sequence[Run]) -> Figure | None:
    """Draw the accuracy of every site of a mesh, one panel a method, or return None without a mesh."""
    what = QUANTITIES["accuracy"].what
    meshes = [(place, run, site_curves(run, what)) for place, run in enumerate(runs)]
    meshes = [(place, run, found) for place, run, found in meshes if found]
    if not meshes:
        return None
    across = min(len(meshes), SITES_ACROSS)
    down = -(-len(meshes) // across)
    canvas = figure(1.2 + 3.4 * across, 0.6 + 3.2 * down)
    panels = np.asarray(canvas.subplots(down, across, sharex=True, sharey=True, squeeze=False)).reshape(-1)
    for area in panels[len(meshes) :]:
        area.set_axis_off()
    for number, ((place, run, found), area) in enumerate(zip(meshes, panels, strict=False)):
        lowest = number + across >= len(meshes)
        first = number % across == 0
        dress(area, plain(run.label), "round" if lowest else "", "accuracy of each site (%)" if first else "")
        area.tick_params(labelbottom=lowest)
        for own in found.values():
            area.plot(own.rounds, 100 * own.mean(), color=pen(place).colour, lw=0.9, alpha=0.6)
        area.xaxis.set_major_locator(MaxNLocator(integer=True))
    return canvas
