"""Natural partitions: one client for every writer, patient, source or device (spec SC-13; LEAF, 2018).

The rows stay with whoever produced them; nothing is drawn but, on request, which of them take part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from potluck.data.dataset import Rows
from potluck.errors import BadInputError
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.owner import Clients, column_of, deal


@dataclass(frozen=True, kw_only=True)
class ByGroup:
    """Make every value of a group column (writer, source, patient, client) one client.

    Only groups with at least `min_rows` rows take part. With `clients`, take that many of them: the
    `largest`, or a `random` draw by the seed. Clients are numbered by the group's value; negative values
    mean "no group".
    """

    column: str = "writer"
    min_rows: Clients = 1
    clients: Clients | None = None
    choose: Literal["largest", "random"] = "largest"

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Return the rows of the chosen groups."""
        column = column_of(labels, self.column)
        values, counts = np.unique(column, return_counts=True)
        able = np.flatnonzero((counts >= self.min_rows) & (values >= 0))
        wanted = len(able) if self.clients is None else self.clients
        if wanted > len(able) or wanted < 1:
            raise BadInputError(
                f"partition.clients: {len(able)} groups of column {self.column!r} have at least "
                f"{self.min_rows} rows, too few for {max(wanted, 1)} clients; lower clients or min_rows"
            )
        if self.choose == "largest":
            chosen = able[np.argsort(-counts[able], kind="stable")[:wanted]]
        else:
            chosen = key.numpy().permutation(able)[:wanted]
        client = np.full(len(values), -1, dtype=np.int32)
        client[np.sort(chosen)] = np.arange(wanted)
        return deal(client[np.searchsorted(values, column)], wanted)
