"""The rows that count most and least at a client, for a report: in a simulation, or where the client's rows are.

A run's records hold positions only. The federation is built again from the run's configuration, and must be the one of
the run. Rows go into the page that is being written, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from potluck.config import load
from potluck.data.places import Places
from potluck.errors import BadInputError
from potluck.federation import Federation
from potluck.report.plot_rows import Extremes, positions, weighs
from potluck.report.read import Run


def extreme_rows(runs: Sequence[Run], clients: Sequence[int], places: Places | None = None) -> list[Extremes]:
    """Return the extreme rows of some clients for every run that weighs rows; of the first seed."""
    weighing = [run for run in runs if weighs(run)]
    if not weighing:
        raise BadInputError("--rows: no run here weighs rows; leave it out, or run feddisk")
    known: dict[str, Federation] = {}
    return [
        _of(run, _federation(run, places, known), client) for run in weighing for client in clients
    ]  # fmt: skip


def _federation(run: Run, places: Places | None, known: dict[str, Federation]) -> Federation:
    """Build the federation of a run's first seed; runs with the same partition share it."""
    seed = run.seeds[0]
    digest = str(run.mapping("partition_digest").get(str(seed)))
    if digest not in known:
        made = load(run.path / "config.toml").federation(seed, places)
        if made.digest() != digest:
            raise BadInputError(
                f"--rows: {run.path}: the data are not those of the run; point --data-dir at the same files"
            )
        known[digest] = made
    return known[digest]


def _of(run: Run, federation: Federation, client: int) -> Extremes:
    if not 0 <= client < len(federation.holders):
        raise BadInputError(
            f"--rows: client {client} does not exist; the clients are 0 to {len(federation.holders) - 1}"
        )
    table, names = federation.holders[client].train, federation.class_names
    found = positions(run, run.seeds[0], client)
    images = {end: table.x[rows].numpy().astype(np.float64) for end, rows in found.items()}
    labels = {
        end: [names[int(y)] if names else f"{y:g}" for y in table.y[rows].tolist()]
        for end, rows in found.items()
    }
    return Extremes(run.label, client, images, labels)
