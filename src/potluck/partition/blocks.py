"""Blocks within sources: every client holds rows of one source only (spec SC-14, A-2.18; FedDisk).

Each source (hospital, device) is cut into blocks of about `size` rows, as many as it yields; no row is used
twice, so that the number of clients follows from the data and is not wished for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from potluck.data.dataset import Rows
from potluck.errors import BadInputError
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.owner import Clients, Owners, column_of, deal, even, hand_out, nobody


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Cut each value of `column` into clients of about `size` rows; `keep` names what is never split.

    `keep` is a column such as "patient". With `clients`, a seeded draw of that many blocks takes part;
    the rest is dropped.
    """

    column: str = "source"
    size: Clients = 325
    keep: str | None = None
    clients: Clients | None = None

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Cut source after source; clients of the first source come first."""
        column = column_of(labels, self.column)
        kept = None if self.keep is None else column_of(labels, self.keep)
        owner, blocks = nobody(len(labels)), 0
        for value in np.unique(column[column >= 0]):
            rows = np.flatnonzero(column == value)
            many = max(1, round(len(rows) / self.size))
            draw = (key / "source" / int(value)).numpy()
            if kept is None:
                hand_out(owner, draw.permutation(rows), even(len(rows), many), blocks)
                blocks += many
            else:
                blocks += _whole(owner, rows, kept[rows], many, blocks, draw)
        if self.clients is None:
            return deal(owner, blocks)
        return deal(self._some(owner, blocks, key), self.clients)

    def _some(self, owner: Owners, blocks: int, key: Key) -> Owners:
        """Keep a seeded draw of `clients` blocks, in order."""
        wanted = self.clients or blocks
        if wanted > blocks:
            raise BadInputError(
                f"partition.clients: the sources yield {blocks} blocks of about {self.size} rows, "
                f"not {wanted}; lower size or clients"
            )
        client = np.full(blocks + 1, -1, dtype=np.int32)  # the last place serves rows without a source
        client[np.sort((key / "blocks").numpy().permutation(blocks)[:wanted])] = np.arange(wanted)
        return client[owner]


def _whole(owner: Owners, rows: Rows, kept: Rows, many: int, first: int, draw: np.random.Generator) -> int:
    """Cut between groups only: each goes to the block of its middle row; return how many blocks."""
    _, inverse, counts = np.unique(kept, return_inverse=True, return_counts=True)
    order = draw.permutation(len(counts))
    ends = np.cumsum(counts[order])
    block = np.empty(len(counts), dtype=np.int64)
    block[order] = np.minimum((ends - counts[order] / 2) / len(rows) * many, many - 1).astype(np.int64)
    used, dense = np.unique(block, return_inverse=True)
    owner[rows] = first + dense[inverse]
    return len(used)
