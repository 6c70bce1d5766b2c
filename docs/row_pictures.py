"""The rows that FedDisk wants most and least of one client, as pictures. For simulations only: it needs the rows.

    python docs/row_pictures.py runs/NAME/FedDisk --client 99 --out rows.png --data-dir DIR

Records hold positions in the client's training part, never rows; the federation is built again from the run's
configuration and seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from potluck.config import load
from potluck.data.places import Places
from potluck.errors import BadInputError
from potluck.federation import Federation
from potluck.report.canvas import figure
from potluck.report.read import Run, read_run

ENDS = {"highest": "counts most", "lowest": "counts least"}


def positions(run: Run, seed: int, client: int, end: str) -> list[int]:
    """Return the recorded positions of a client's rows with the highest or lowest weights."""
    records = run.records
    mask = records.what.equals(f"row_weights/{end}") & records.who.equals(f"client/{client}")
    places = np.flatnonzero(mask & (records.seed == seed)).tolist()
    if not places:
        raise BadInputError(f"{run.path}: client {client} recorded no row weights for seed {seed}")
    return [int(position) for position in records.lists[places[-1]].tolist()]


def draw(run: Run, federation: Federation, seed: int, client: int) -> Figure:
    """Draw the rows with the highest weights above those with the lowest, each with its label."""
    table = federation.holders[client].train
    found = {end: positions(run, seed, client, end) for end in ENDS}
    columns = max(len(rows) for rows in found.values())
    canvas = figure(1.0 * columns, 2.8)
    for line, (end, rows) in enumerate(found.items()):
        for column, row in enumerate(rows):
            area = canvas.add_subplot(len(ENDS), columns, line * columns + column + 1)
            picture = table.x[row].numpy()
            area.imshow(picture.mean(axis=0) if picture.ndim == 3 else np.atleast_2d(picture), cmap="gray")
            area.set_title(_name(federation, int(table.y[row])), fontsize=8)
            area.set_axis_off()
            if not column:
                area.text(-0.2, 0.5, ENDS[end], rotation=90, va="center", ha="right", fontsize=8,
                          transform=area.transAxes)  # fmt: skip
    return canvas


def _name(federation: Federation, label: int) -> str:
    return federation.class_names[label] if federation.class_names else str(label)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what the command line asks for."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("run", type=Path)
    reader.add_argument("--client", type=int, required=True)
    reader.add_argument("--seed", type=int)
    reader.add_argument("--out", type=Path, required=True)
    reader.add_argument("--data-dir", type=Path, action="append", default=[])
    given = reader.parse_args(arguments)
    run = read_run(given.run)
    seed = run.seeds[0] if given.seed is None else given.seed
    federation = load(given.run / "config.toml").federation(seed, Places.usual(given.data_dir))
    draw(run, federation, seed, given.client).savefig(given.out)


if __name__ == "__main__":
    main()
