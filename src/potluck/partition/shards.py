"""Shards: the rows cut by label into pieces, a few pieces to each client (spec SC-10, SC-11, A-3.11, A-3.12).

`sorted` is McMahan et al. (AISTATS 2017): sort by label and cut, so that a shard may straddle two classes.
`per_class` is the FedEx report (Miles et al., University of Michigan): cut each class by itself, which
leaves short last shards and, on MNIST, four shards that nobody gets. With `within = "source"` each source
is cut by itself and no client mixes sources (the report's MNIST and CIFAR clients).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from potluck.data.dataset import Rows
from potluck.errors import BadInputError
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.owner import (
    Clients,
    Owners,
    by_value,
    check_clients,
    column_of,
    deal,
    even,
    largest_remainder,
    nobody,
)


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Cut the rows by label into shards of `size` and deal `per_client` random ones to every client.

    Without `size` a shard has rows / (clients * per_client) rows; `sorted` then deals every row. Clients of
    the first source come first where `within` names a group column. Shards that are left over are dropped
    (see the manifest).
    """

    clients: Clients = 10
    per_client: Clients = 2
    cut: Literal["sorted", "per_class"] = "per_class"
    size: Clients | None = None
    within: str | None = None

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Cut each source by itself, share the clients among the sources, and deal whole shards."""
        wanted = self.clients * self.per_client
        check_clients(self.clients, len(labels))
        if wanted > len(labels):
            raise BadInputError(
                f"partition.per_client: {self.clients} clients with {self.per_client} shards need {wanted}, "
                f"more than the {len(labels)} rows"
            )
        size = self.size or max(1, len(labels) // wanted)
        whole = self.size is None and self.within is None and self.cut == "sorted"
        pools = self._pools(labels)
        cuts = [_cut(labels.y[rows], size, self.cut, wanted if whole else None) for rows in pools]
        pieces = [int(shard.max()) + 1 for shard in cuts]
        owner, first = nobody(len(labels)), 0
        for number, many in enumerate(self._share(pieces, size).tolist()):
            clients = range(first, first + many)
            owner[pools[number]] = self._holders(pieces[number], clients, key / "source" / number)[
                cuts[number]
            ]
            first += many
        return deal(owner, self.clients)

    def _pools(self, labels: Labels) -> list[Rows | slice]:
        """Return the rows of each source; one pool of everything without sources."""
        if self.within is None:
            return [slice(None)]
        source = column_of(labels, self.within)
        return [np.flatnonzero(source == value) for value in np.unique(source[source >= 0])]

    def _share(self, shards: list[int], size: int) -> npt.NDArray[np.int64]:
        """Share the clients among the sources in proportion to their shards, within their room."""
        room = np.array(shards, dtype=np.int64) // self.per_client
        if int(room.sum()) < self.clients:
            raise BadInputError(
                f"partition.clients: cutting by {size} rows gives {sum(shards)} shards, enough for "
                f"{int(room.sum())} clients with {self.per_client} each, not {self.clients}; "
                "lower size or clients"
            )
        many = np.minimum(largest_remainder(np.array(shards, dtype=np.float64), self.clients), room)
        while int(many.sum()) < self.clients:
            many[int(np.argmax(room - many))] += 1
        return many

    def _holders(self, pieces: int, clients: range, key: Key) -> Owners:
        """Return who holds each shard: `per_client` random ones for every client, some for nobody."""
        draw = key.numpy().permutation(pieces)[: len(clients) * self.per_client]
        holder = nobody(pieces)
        holder[draw] = np.repeat(np.array(clients, dtype=np.int32), self.per_client)
        return holder


def _cut(y: Rows, size: int, cut: str, pieces: int | None) -> Owners:
    """Return the shard number of each row: all rows in `pieces` even ones, or in shards of `size`."""
    order = by_value(y, int(y.max()))
    shard = np.empty(len(y), dtype=np.int32)
    if pieces is not None:
        shard[order] = np.repeat(np.arange(pieces, dtype=np.int32), even(len(y), pieces))
        return shard
    start = before = 0
    for total in [len(y)] if cut == "sorted" else np.bincount(y).tolist():
        shard[order[start : start + total]] = before + np.arange(total, dtype=np.int32) // size
        start, before = start + total, before - (-total // size)
    return shard
