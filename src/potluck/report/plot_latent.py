"""Figure of latent codes: each client's rows as the global encoder places them, against N(0, I).

The points come from the clients' own logs (at most 200 a client); in a real network these stay there, and
the figure shows the clients whose logs one has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.report.canvas import PALE, dress, figure, plain
from potluck.report.read import Run
from potluck.report.records import Floats
from potluck.report.series import number

SHARES = (0.5, 0.9, 0.99)
MOST_PANELS = 4
MOST_NAMES = 12


class Codes(NamedTuple):
    """One client's codes in the first two latent dimensions, and its distance from the prior."""

    across: Floats
    up: Floats
    distance: float


def latent(runs: Sequence[Run]) -> Figure | None:
    """Draw the codes of every client of the first seed, one panel for runs with the same codes."""
    shown: list[tuple[str, Mapping[int, Codes]]] = []
    for run in runs:
        found = codes(run, run.seeds[0]) if run.seeds else {}
        if found and not any(_same(found, other) for _, other in shown):
            shown.append((run.label, found))
    if not shown:
        return None
    shown = shown[:MOST_PANELS]
    canvas = figure(1.6 + 4.8 * len(shown), 5.0)
    panels = np.atleast_1d(np.asarray(canvas.subplots(1, len(shown))))
    for (label, found), area in zip(shown, panels, strict=True):
        title = "Latent codes of the clients" + (f": {plain(label)}" if len(shown) > 1 else "")
        dress(area, title, "first dimension", "second dimension")
        _panel(area, found)
    return canvas


def stage_of(run: Run) -> str:
    """Return the first stage whose clients wrote codes down: the one that weights come from, else the last one."""
    there = run.records.stage.codes[run.records.what.equals("latent/across")]
    return run.records.stage.names[there[0]] if len(there) else ""


def codes(run: Run, seed: int) -> Mapping[int, Codes]:
    """Return the codes that the clients wrote down, by client."""
    records = run.records
    mine = records.who.starts("client/") & (records.seed == seed) & records.stage.equals(stage_of(run))
    lists: dict[str, dict[int, Floats]] = {}
    for what in ("latent/across", "latent/up"):
        places = np.flatnonzero(mine & records.what.equals(what)).tolist()
        lists[what] = {number(records.who.names[records.who.codes[p]]): records.lists[p] for p in places}
    told = np.flatnonzero(mine & records.what.equals("discrepancy")).tolist()
    far = {number(records.who.names[records.who.codes[p]]): float(records.number[p]) for p in told}
    both = sorted(lists["latent/across"].keys() & lists["latent/up"].keys())
    return {
        client: Codes(lists["latent/across"][client], lists["latent/up"][client], far.get(client, math.nan))
        for client in both
    }


def _panel(area: Axes, found: Mapping[int, Codes]) -> None:
    colours = mpl.colormaps["tab20" if len(found) > 10 else "tab10"]
    for place, (client, own) in enumerate(found.items()):
        far = f", d {own.distance:.3f}" if math.isfinite(own.distance) else ""
        name = f"client {client}{far}" if place < MOST_NAMES else None
        area.scatter(own.across, own.up, s=7, lw=0, alpha=0.6, color=colours(place % colours.N), label=name)
    turn = np.linspace(0, 2 * np.pi, 181)
    for share in SHARES:
        radius = math.sqrt(-2 * math.log(1 - share))  # of the disc that holds this share of N(0, I)
        area.plot(radius * np.cos(turn), radius * np.sin(turn), color=PALE, lw=0.9, linestyle=(0, (4, 3)))
        area.annotate(f"{share:.0%}", (0, radius), (0, 2), textcoords="offset points", fontsize=7, color=PALE)
    area.set_aspect("equal", adjustable="datalim")
    area.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8, markerscale=2)


def _same(one: Mapping[int, Codes], other: Mapping[int, Codes]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[client].across, other[client].across, equal_nan=True) for client in one
    )
