"""The look that all figures share, made with matplotlib's Figure alone (no pyplot, no global state)."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from potluck.report.palette import Pen, pen
from potluck.report.read import Run

INK, PALE, GRID = "#22252b", "#6b7280", "#e3e6eb"


def figure(width: float = 7.2, height: float = 4.2) -> Figure:
    """Return an empty figure with a layout that makes room for its labels."""
    room = ConstrainedLayoutEngine(w_pad=0.14, h_pad=0.12, hspace=0.03, wspace=0.03)
    return Figure(figsize=(width, height), dpi=150, layout=room, facecolor="white")


def axes(canvas: Figure, title: str, across: str, up: str) -> Axes:
    """Return the one pair of axes of a figure, dressed."""
    return dress(canvas.add_subplot(), title, across, up)


def dress(area: Axes, title: str, across: str, up: str) -> Axes:
    """Give axes their title and labels, thin grid lines, and no frame above and at the right."""
    area.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=12)
    area.set_xlabel(across, color=PALE, fontsize=9.5)
    area.set_ylabel(up, color=PALE, fontsize=9.5)
    area.tick_params(colors=PALE, labelsize=9, length=0, pad=5)
    area.grid(True, color=GRID, linewidth=0.8)
    area.set_axisbelow(True)
    for side in ("top", "right", "left"):
        area.spines[side].set_visible(False)
    area.spines["bottom"].set_color("#b8bec8")
    return area


def dashed(style: Pen) -> Literal["solid"] | tuple[float, Sequence[float]]:
    """Return matplotlib's form of a pen's dash."""
    return (0.0, style.dash) if style.dash else "solid"


def plain(label: str) -> str:
    """Return a label that matplotlib does not take for a formula."""
    return label.replace("$", r"\$")


def titled(what: str, label: str, width: int = 38) -> str:
    """Return a title with a run's label below, broken where a column of panels is too narrow for it."""
    return "\n".join([what, *wrap(plain(label), width)])


def legend(canvas: Figure, runs: Sequence[Run], shown: Sequence[str], marker: bool = False) -> None:
    """Put the names of the shown methods beside the axes."""
    handles = []
    for place, run in enumerate(runs):
        if run.label in shown:
            style = pen(place)
            handle = Line2D(
                [], [], color=style.colour, linestyle=dashed(style), lw=2.2, label=plain(run.label)
            )
            if marker:
                handle.set(linestyle="none", marker=style.marker)
            handles.append(handle)
    missing = [plain(run.label) for run in runs if run.label not in shown]
    if missing:
        handles.append(Line2D([], [], linestyle="none", label=f"not defined for:\n{chr(10).join(missing)}"))
    canvas.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=9, labelcolor=INK)
