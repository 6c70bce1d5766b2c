"""A federation of awkward clients, to see what a system does with them (spec SC-15).

The only partition in which a client may be empty, and the only one in which a client may hold a row more
than once (the client of duplicates: one row, many times). No two clients ever share a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from potluck.data.dataset import Rows
from potluck.errors import BadInputError
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.owner import Clients

Kind = Literal["normal", "single_class", "single_row", "two_rows", "duplicates", "empty"]
KINDS: tuple[Kind, ...] = (*("normal",) * 4, "single_class", "single_row", "two_rows", "duplicates", "empty")


@dataclass(frozen=True, kw_only=True)
class Degenerate:
    """Deal to clients of the named kinds, in this order; a client of many rows has about `size`."""

    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = KINDS
    size: Clients | None = None

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Serve the single-class clients first, then everybody else from a permutation of what is left."""
        if not self.kinds:
            raise BadInputError("partition.kinds: name at least one kind of client")
        if len(labels) < 2 * len(self.kinds):
            raise BadInputError(
                f"partition: {len(self.kinds)} degenerate clients need {2 * len(self.kinds)} rows, "
                f"not {len(labels)}"
            )
        size = min(self.size or len(labels), len(labels) // len(self.kinds))
        rows = key.numpy().permutation(len(labels))
        dealt: dict[int, Rows] = {}
        for client, kind in enumerate(self.kinds):
            if kind == "single_class":
                label = int(np.bincount(labels.y[rows]).argmax())
                dealt[client] = rows[labels.y[rows] == label][-size:]  # the front stays mixed for the others
                rows = rows[~np.isin(rows, dealt[client])]
        for client, kind in enumerate(self.kinds):
            if client not in dealt:
                takes = {"normal": size, "single_row": 1, "two_rows": 2, "duplicates": 1}.get(kind, 0)
                mine, rows = rows[:takes], rows[takes:]
                dealt[client] = np.repeat(mine, size) if kind == "duplicates" else mine
        return [np.sort(dealt[client]) for client in range(len(self.kinds))]
