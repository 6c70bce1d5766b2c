"""NIID-2: one unbiased client, and clients with two classes each (spec SC-9, A-X.1, A-X.2).

The name is FedDisco's (Ye et al., ICML 2023). Reading `feddisco`: the pairs are (0,1), (2,3), ...; of every
class the unbiased client gets one part in K and the pair's client the rest, cut per class (the published
arithmetic assumes equal class counts and would straddle classes on MNIST). Reading `delft`: the unbiased
client draws n/K random rows, the pairs are drawn at random, and each pair's client gets all that remains of
its classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from potluck.data.dataset import Rows
from potluck.errors import BadInputError
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.owner import check_clients, deal, nobody


@dataclass(frozen=True, kw_only=True)
class Niid2:
    """Make client 0 unbiased and give every further client a pair of classes; K = 1 + ceil(C / 2) clients."""

    variant: Literal["feddisco", "delft"] = "feddisco"

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Deal every row to the unbiased client or to the client of its class."""
        clients = 1 + -(-labels.classes // 2)
        check_clients(clients, len(labels))
        draw = key.numpy()
        order = draw.permutation(labels.classes) if self.variant == "delft" else np.arange(labels.classes)
        pair = np.empty(labels.classes, dtype=np.int32)
        pair[order] = 1 + np.arange(labels.classes) // 2
        owner = nobody(len(labels))
        owner[:] = pair[labels.y]
        rows = draw.permutation(len(labels))
        if self.variant == "delft":
            owner[rows[: len(labels) // clients]] = 0
        else:
            for label in range(labels.classes):
                of_class = rows[labels.y[rows] == label]
                owner[of_class[: round(len(of_class) / clients)]] = 0
        dealt = deal(owner, clients)
        empty = [k for k, mine in enumerate(dealt) if not len(mine)]
        if empty:
            raise BadInputError(
                f"partition: niid2 needs rows of every class, but client {empty[0]} of {clients} has none"
            )
        return dealt
