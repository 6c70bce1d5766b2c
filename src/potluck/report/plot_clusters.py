"""Figure of a clustering: clients in the plane of two spectral coordinates, and the classes that clusters hold.

FedEx (Miles et al., University of Michigan, 2024, figures 2 and 3) shows the classes by cluster. Where the data know
groups of clients (sources, writers), marker shapes tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.report.canvas import INK, dress, figure, plain
from potluck.report.palette import MARKERS, pen
from potluck.report.read import Run
from potluck.report.records import Floats, Ints, Mask
from potluck.report.series import number, partition

MOST = 4
NONE = "several"


class Sorted(NamedTuple):
    """A run's clusters in one seed: by client its cluster, its place in the plane, and its group ("" if unknown)."""

    clients: tuple[int, ...]
    labels: Ints
    plane: Floats
    groups: tuple[str, ...]


def clusters(runs: Sequence[Run]) -> Figure | None:
    """Draw up to four runs that sorted their clients: the plane above, the classes of each cluster below."""
    found = [(run, one) for run in runs if (one := sorted_clients(run, run.seeds[0] if run.seeds else 0))]
    if not found:
        return None
    found = found[:MOST]
    canvas = figure(1.2 + 4.4 * len(found), 7.0)
    areas = np.asarray(canvas.subplots(2, len(found), squeeze=False))
    for column, (run, one) in enumerate(found):
        _plane(areas[0, column], run, one)
        _classes(areas[1, column], run, one)
    return canvas


def sorted_clients(run: Run, seed: int) -> Sorted | None:
    """Return a seed's clusters with coordinates, or None when clients were not sorted."""
    records = run.records
    mask = records.who.starts("client/") & (records.seed == seed)
    planes = {
        client: records.lists[place]
        for client, place in _by_client(run, mask & records.what.equals("coordinates")).items()
        if place in records.lists
    }
    labels = {
        client: int(records.number[place])
        for client, place in _by_client(run, mask & records.what.equals("cluster")).items()
    }
    clients = tuple(client for client in sorted(planes) if client in labels)
    if not clients:
        return None
    groups = _by_client(run, mask & records.what.starts("group/"))
    known = tuple(records.texts.get(groups.get(client, -1), "") for client in clients)
    return Sorted(
        clients, np.array([labels[k] for k in clients]), np.stack([planes[k] for k in clients]), known
    )


def _by_client(run: Run, mask: Mask) -> dict[int, int]:
    """Return the last row of each client."""
    names, codes = run.records.who.names, run.records.who.codes
    return {number(names[codes[place]]): place for place in np.flatnonzero(mask).tolist()}


def _plane(area: Axes, run: Run, one: Sorted) -> None:
    dress(area, f"Clusters of clients ({plain(run.label)})", "second eigenvector", "third eigenvector")
    groups = list(dict.fromkeys(one.groups))
    for cluster in np.unique(one.labels).tolist():
        for shape, group in enumerate(groups):
            mine = (one.labels == cluster) & np.array([name == group for name in one.groups])
            if mine.any():
                name = f"cluster {cluster}" + (f", {plain(group or NONE)}" if len(groups) > 1 else "")
                area.scatter(
                    one.plane[mine, 0],
                    one.plane[mine, 1],
                    s=34,
                    alpha=0.8,
                    lw=0.4,
                    edgecolor="white",
                    color=pen(cluster).colour,
                    marker=MARKERS[shape % len(MARKERS)],
                    label=f"{name} ({int(mine.sum())})",
                )
    area.legend(frameon=False, fontsize=8, labelcolor=INK)


def _classes(area: Axes, run: Run, one: Sorted) -> None:
    """Draw bars of the rows of each class, side by side for the clusters."""
    dress(area, "Rows of each class by cluster", "class", "rows")
    own = partition(run, run.seeds[0] if run.seeds else 0)
    if own is None:
        return
    found = np.unique(one.labels)
    where = {client: row for row, client in enumerate(own.clients)}
    width = 0.84 / len(found)
    for place, cluster in enumerate(found.tolist()):
        rows = [where[k] for k, label in zip(one.clients, one.labels, strict=True) if label == cluster]
        at = np.arange(len(own.classes)) + (place - (len(found) - 1) / 2) * width
        area.bar(at, own.counts[rows].sum(axis=0), width=width, color=pen(cluster).colour)
    names = [plain(name) for name in own.classes]
    long = max(map(len, names)) > 3
    area.set_xticks(range(len(names)), names, rotation=60 if long else 0, ha="right" if long else "center")
