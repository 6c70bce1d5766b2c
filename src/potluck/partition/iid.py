"""IID: a random permutation cut into parts whose sizes differ by at most one (spec SC-1)."""

from __future__ import annotations

from dataclasses import dataclass

from potluck.data.dataset import Rows
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.owner import Clients, check_clients, deal, even, hand_out, nobody


@dataclass(frozen=True, kw_only=True)
class Iid:
    """Deal all rows at random and evenly: no client differs from another but by chance."""

    clients: Clients = 10

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Cut one permutation of all rows into `clients` parts."""
        check_clients(self.clients, len(labels))
        owner = nobody(len(labels))
        hand_out(owner, key.numpy().permutation(len(labels)), even(len(labels), self.clients))
        return deal(owner, self.clients)
