"""Figure of the rows that count most and least at one client, where a method weighs rows (FedDisk).

Records hold positions in the client's training part, never rows. Whoever has the rows hands them in: a simulation, or
the client itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.errors import BadInputError
from potluck.report.canvas import INK, PALE, figure, plain
from potluck.report.read import Run
from potluck.report.records import Floats

ENDS = {"highest": "counts most", "lowest": "counts least"}


class Extremes(NamedTuple):
    """Rows of one client of one run: images (rows x channels x height x width, or rows x inputs) and labels by end."""

    run: str
    client: int
    images: Mapping[str, Floats]
    labels: Mapping[str, Sequence[str]]


def positions(run: Run, seed: int, client: int) -> Mapping[str, list[int]]:
    """Return the recorded positions of a client's rows with the highest and with the lowest weights."""
    records, found = run.records, {}
    for end in ENDS:
        mask = records.what.equals(f"row_weights/{end}") & records.who.equals(f"client/{client}")
        places = np.flatnonzero(mask & (records.seed == seed)).tolist()
        if not places:
            raise BadInputError(f"{run.path}: client {client} recorded no row weights for seed {seed}")
        found[end] = [int(position) for position in records.lists[places[-1]].tolist()]
    return found


def weighs(run: Run) -> bool:
    """Tell whether a run recorded weights of rows."""
    return bool(run.records.what.equals("row_weights/highest").any())


def extremes(shown: Extremes) -> Figure:
    """Draw the rows that count most above those that count least, each with its label, on one scale."""
    columns = max(len(rows) for rows in shown.images.values())
    canvas = figure(0.95 * columns + 0.4, 2.9)
    canvas.suptitle(
        f"{plain(shown.run)}, client {shown.client}", x=0.02, ha="left", fontsize=11, color=INK, weight="bold"
    )
    together = np.concatenate([rows.reshape(-1) for rows in shown.images.values()])
    low, high = float(together.min()), float(max(together.max(), together.min() + 1e-9))
    for line, (end, name) in enumerate(ENDS.items()):
        for column, row in enumerate(shown.images[end]):
            area = canvas.add_subplot(len(ENDS), columns, line * columns + column + 1)
            _image(area, (row - low) / (high - low))
            area.set_title(plain(shown.labels[end][column]), fontsize=8, color=PALE, pad=3)
            if not column:
                area.set_ylabel(name, fontsize=9, color=INK)
    return canvas


def _image(area: Axes, row: Floats) -> None:
    """Draw one row: an image in grey or colour; anything else as a strip."""
    if row.ndim == 3 and row.shape[0] == 3:
        area.imshow(np.moveaxis(row, 0, -1), interpolation="nearest")
    else:
        flat = row.mean(axis=0) if row.ndim == 3 else np.atleast_2d(row)
        area.imshow(flat, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    area.set_xticks([])
    area.set_yticks([])
    for side in area.spines.values():
        side.set_visible(False)
