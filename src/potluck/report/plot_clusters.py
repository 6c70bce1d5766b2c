"""Figure of a clustering: clients in the plane of two spectral coordinates, and the classes that clusters hold.

The plane is drawn twice: coloured by cluster, and by truth, which is the group of a client where the data know groups
(sources, writers) and else the class that it holds most of. FedEx (Miles et al., University of Michigan, 2024, figures
2 and 3) shows the classes by cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.report.canvas import INK, dress, figure, plain, titled
from potluck.report.palette import pen
from potluck.report.read import Run
from potluck.report.records import Floats, Ints, Mask
from potluck.report.series import Partition, number, partition

MOST = 4
NONE = "several"
PLANE = ("second eigenvector", "third eigenvector")


class Sorted(NamedTuple):
    """A run's clusters in one seed: by client its cluster, its place in the plane, and its group ("" if unknown)."""

    clients: tuple[int, ...]
    labels: Ints
    plane: Floats
    groups: tuple[str, ...]


def clusters(runs: Sequence[Run]) -> Figure | None:
    """Draw up to four runs that sorted their clients: the plane by cluster and by truth, the classes by cluster."""
    found = [(run, one) for run in runs if (one := sorted_clients(run, run.seeds[0] if run.seeds else 0))]
    if not found:
        return None
    found = found[:MOST]
    canvas = figure(1.2 + 4.4 * len(found), 10.5)
    areas = np.asarray(canvas.subplots(3, len(found), squeeze=False))
    for column, (run, one) in enumerate(found):
        own = partition(run, run.seeds[0] if run.seeds else 0)
        names = tuple(f"cluster {label}" for label in one.labels.tolist())
        _plane(areas[0, column], titled("Clusters of clients", run.label), one, names)
        _plane(areas[1, column], *_truth(one, own))
        _classes(areas[2, column], one, own)
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


def _plane(area: Axes, title: str, one: Sorted, names: Sequence[str]) -> None:
    """Draw the clients in the plane, one colour and one shape for each name."""
    dress(area, title, *PLANE)
    order = sorted(set(names), key=lambda name: (len(name), name))
    for place, name in enumerate(order):
        mine = np.array([other == name for other in names])
        style = pen(place)
        area.scatter(
            one.plane[mine, 0],
            one.plane[mine, 1],
            s=34,
            alpha=0.8,
            lw=0.4 if style.filled else 1.4,
            edgecolor="white" if style.filled else style.colour,
            facecolor=style.colour if style.filled else "none",
            marker=style.marker,
            label=f"{plain(name)} ({int(mine.sum())})",
        )
    if names:
        columns = 2 if len(order) > MOST else 1
        area.legend(frameon=False, fontsize=8, labelcolor=INK, ncols=columns, handletextpad=0.2)


def _truth(one: Sorted, own: Partition | None) -> tuple[str, Sorted, tuple[str, ...]]:
    """Return a title and what is known about each client: its group, or the class that it holds most of."""
    if any(one.groups) or own is None:
        return "The same by group", one, tuple(group or NONE for group in one.groups)
    row = {client: place for place, client in enumerate(own.clients)}
    known = [client for client in one.clients if client in row]
    most = {client: own.classes[int(own.counts[row[client]].argmax())] for client in known}
    return "The same by main class", one, tuple(most.get(client, NONE) for client in one.clients)


def _classes(area: Axes, one: Sorted, own: Partition | None) -> None:
    """Draw bars of the rows of each class, side by side for the clusters."""
    dress(area, "Rows of each class by cluster", "class", "rows")
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
