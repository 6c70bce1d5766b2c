"""The graph of a mesh: who is linked to whom, how well each peer does, and how much the others make of it."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib as mpl
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from potluck.report.canvas import INK, PALE, dress, figure, plain
from potluck.report.markup import text
from potluck.report.read import Run
from potluck.report.series import number

LABELLED = 60
ACCURACY = "global/accuracy"


class Peers(NamedTuple):
    """A mesh of one seed: its graph, and by client a value between 0 and 1 with its name."""

    graph: nx.Graph[int]
    values: Mapping[int, float]
    shown: str


def graph(runs: Sequence[Run]) -> Figure | None:
    """Draw the graph of every mesh (first seed), coloured by accuracy, or by weight where none was scored.

    One scale of colours serves all graphs that show the same, so that they can be compared.
    """
    found = [(run, own) for run in runs if (own := peers(run)) is not None]
    if not found:
        return None
    across = min(len(found), 3)
    down = -(-len(found) // across)
    canvas = figure(1.2 + 3.6 * across, 0.5 + 3.4 * down)
    panels = np.asarray(canvas.subplots(down, across, squeeze=False)).reshape(-1)
    for area in panels[len(found) :]:
        area.set_axis_off()
    for (run, own), area in zip(found, panels, strict=False):
        _draw(area, own, plain(run.label), scale([each for _, each in found], own.shown))
    for shown in dict.fromkeys(own.shown for _, own in found):
        areas = [area for (_, own), area in zip(found, panels, strict=False) if own.shown == shown]
        colours = ScalarMappable(scale([own for _, own in found], shown), mpl.colormaps["viridis"])
        canvas.colorbar(colours, ax=areas, shrink=0.75 / down, label=f"{shown}{unit(shown)[1]}")
    return canvas


def unit(shown: str) -> tuple[float, str]:
    """Return by what a value is multiplied to be shown, and its unit."""
    return (100.0, " (%)") if shown == "accuracy" else (1.0, "")


def scale(all_peers: Sequence[Peers], shown: str) -> Normalize:
    """Return the scale of colours of all graphs that show the same; equal values stand in its middle."""
    factor = unit(shown)[0]
    values = [factor * value for own in all_peers if own.shown == shown for value in own.values.values()]
    low, high = (min(values), max(values)) if values else (0.0, factor)
    room = max(0.0, 0.01 * factor - (high - low)) / 2
    return Normalize(low - room, high + room)


def picture(runs: Sequence[Run]) -> str:
    """Return the figure as an image inside a page, or nothing without a mesh."""
    drawn = graph(runs)
    if drawn is None:
        return ""
    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "potluck"}):
        drawn.savefig(out, format="svg", metadata={"Date": None})
    data = base64.b64encode(out.getvalue()).decode("ascii")
    names = ", ".join(run.label for run in runs if peers(run) is not None)
    style = "max-width:100%;height:auto"
    return f'<img style="{style}" alt="{text(f"Graph of {names}")}" src="data:image/svg+xml;base64,{data}">'


def peers(run: Run) -> Peers | None:
    """Return the graph of a run's first seed with the peers' last accuracies, or their mean weights."""
    records = run.records
    if not run.seeds:
        return None
    mine = records.seed == run.seeds[0]
    linked = mine & records.stage.equals("topology") & records.what.equals("neighbours")
    near = {
        number(records.who.names[records.who.codes[row]]): records.lists[row].astype(int).tolist()
        for row in np.flatnonzero(linked).tolist()
        if row in records.lists
    }
    drawn: nx.Graph[int] = nx.Graph()
    drawn.add_nodes_from(sorted(near))
    drawn.add_edges_from((client, other) for client in sorted(near) for other in near[client])
    if not drawn.number_of_edges():
        return None
    scored = mine & records.what.equals(ACCURACY) & records.who.starts("site/") & np.isfinite(records.number)
    if scored.any():
        last = np.flatnonzero(scored)
        owners = [number(records.who.names[code]) for code in records.who.codes[last]]
        return Peers(drawn, dict(zip(owners, records.number[last].tolist(), strict=True)), "accuracy")
    weighed = mine & records.what.ends("weight") & records.who.starts("client/")
    sums: dict[int, list[float]] = {}
    for row in np.flatnonzero(weighed & np.isfinite(records.number)).tolist():
        sums.setdefault(number(records.who.names[records.who.codes[row]]), []).append(records.number[row])
    return Peers(drawn, {client: float(np.mean(each)) for client, each in sums.items()}, "mean weight")


def _draw(area: Axes, own: Peers, title: str, colours: Normalize) -> None:
    dress(area, title, "", "")
    area.grid(False)
    area.spines["bottom"].set_visible(False)
    area.set_xticks([])
    area.set_yticks([])
    area.set_aspect("equal")
    place = layout(own.graph)
    for one, other in sorted(own.graph.edges):
        ends = np.array([place[one], place[other]])
        area.plot(ends[:, 0], ends[:, 1], color=PALE, lw=0.9, alpha=0.5, zorder=1)
    clients = sorted(own.graph.nodes)
    values = np.array([unit(own.shown)[0] * own.values.get(client, np.nan) for client in clients])
    shades = mpl.colormaps["viridis"]
    points = np.array([place[client] for client in clients])
    size = float(np.clip(4000 / len(clients), 20, 260))
    filled = [shades(colours(value)) if np.isfinite(value) else "#c8ccd3" for value in values]
    area.scatter(points[:, 0], points[:, 1], s=size, c=filled, edgecolors=INK, linewidths=0.6, zorder=2)
    if len(clients) <= LABELLED:
        for client, point, value in zip(clients, points, values, strict=True):
            dark = np.isfinite(value) and colours(value) < 0.55
            ink = "white" if dark else INK
            area.annotate(str(client), point, ha="center", va="center", fontsize=7.5, color=ink, zorder=3)
    area.margins(0.12)


def layout(drawn: nx.Graph[int]) -> Mapping[int, np.ndarray]:
    """Place the clients: by distances in the graph, or on a circle if it is large or in parts."""
    if len(drawn) <= 150 and nx.is_connected(drawn):
        return dict(nx.kamada_kawai_layout(drawn))
    return dict(nx.circular_layout(drawn))
