"""Curves of many methods: one small panel each, with all others in grey behind, so that each can be told apart.

Lines that lie on each other (the effective number of clients of all methods that weigh by rows) hide all but the last
where they share one panel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from potluck.report.canvas import INK, PALE, dress, figure, plain
from potluck.report.palette import Pen
from potluck.report.records import Floats, Ints

BEHIND = "#cdd2da"
COLUMNS = 3
Line = tuple[Ints, Floats]


def panels(title: str, up: str, names: Mapping[str, Pen], absent: Sequence[str]) -> dict[str, Axes]:
    """Return axes by name, all on one scale, in a new figure; `absent` are told behind the title."""
    rows = math.ceil(len(names) / COLUMNS)
    canvas = figure(3.1 * COLUMNS, 0.9 + 2.0 * rows)
    note = f" (not defined for {', '.join(absent)})" if absent else ""
    canvas.suptitle(plain(title + note), x=0.02, ha="left", fontsize=12, fontweight="bold", color=INK)
    canvas.supylabel(up, color=PALE, fontsize=9.5)
    areas = np.asarray(canvas.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False)).ravel()
    for place, (name, style) in enumerate(names.items()):
        lowest = place + COLUMNS >= len(names)
        dress(areas[place], "", "round" if lowest else "", "")
        areas[place].set_title(plain(name), loc="left", fontsize=10, fontweight="bold", color=style.colour)
        areas[place].tick_params(labelbottom=lowest)
        areas[place].xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    for area in areas[len(names) :]:
        area.remove()
    return dict(zip(names, areas, strict=False))


def behind(area: Axes, others: Mapping[str, Line]) -> None:
    """Draw the other methods in grey."""
    for rounds, values in others.values():
        area.plot(rounds, values, color=BEHIND, lw=0.9, zorder=1)


def drawn_on(areas: Mapping[str, Axes]) -> Figure:
    """Return the figure that holds the panels."""
    canvas = next(iter(areas.values())).get_figure(root=True)
    assert canvas is not None
    return canvas
