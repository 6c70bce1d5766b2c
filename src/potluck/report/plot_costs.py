"""Figures of cost: bytes up and down, and seconds, of one seed's run; every seed a dot."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from potluck.report.canvas import INK, dress, figure, plain
from potluck.report.palette import pen
from potluck.report.read import Run
from potluck.report.statistics import finals, summarise
from potluck.report.tables import human_bytes, human_seconds, written

PANELS = (("bytes_up", "Sent up"), ("bytes_down", "Sent down"), ("seconds", "Time"))


def costs(runs: Sequence[Run]) -> Figure | None:
    """Draw bars of bytes and seconds, or return None when none were recorded."""
    panels = [panel for panel in PANELS if any(finals(run, panel[0]) for run in runs)]
    if not panels:
        return None
    canvas = figure(1.4 + 2.6 * len(panels), 1.5 + 0.42 * len(runs))
    for column, (metric, title) in enumerate(panels, start=1):
        area = dress(canvas.add_subplot(1, len(panels), column), title, "", "")
        kind = "seconds" if metric == "seconds" else "bytes"
        write = human_seconds if kind == "seconds" else human_bytes
        for place, run in enumerate(runs):
            values = list(finals(run, metric).values())
            mean = summarise(values).mean
            if mean is None:
                continue
            row = len(runs) - 1 - place
            area.barh(row, mean, height=0.56, color=pen(place).colour, alpha=0.85)
            area.plot(values, [row] * len(values), "o", ms=3, color=INK, alpha=0.6)
            end = (max(mean, *values), row)
            note = written(mean, kind)
            area.annotate(note, end, (6, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK)
        area.set_yticks(
            range(len(runs)),
            [plain(run.label) for run in reversed(runs)] if column == 1 else [""] * len(runs),
        )
        area.tick_params(axis="y", labelcolor=INK)
        area.xaxis.set_major_formatter(FuncFormatter(lambda value, _, write=write: write(value)))
        area.locator_params(axis="x", nbins=3)
        area.grid(False, axis="y")
        area.margins(x=0.3)
        area.set_xlim(left=0)
    return canvas
