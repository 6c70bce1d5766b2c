"""Quantity skew: sizes from a Dirichlet distribution, rows at random (spec SC-3; NIID-Bench).

Deviation from NIID-Bench and FedLab (spec A-4.14): sizes are rounded by the largest remainder, so that no
row is lost, and after a bounded number of draws rows move over from the largest client; FedLab's loop does
not end for small beta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from potluck.data.dataset import Rows
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.dirichlet import TRIES, until
from potluck.partition.owner import (
    Clients,
    Concentration,
    MinSize,
    check_clients,
    deal,
    hand_out,
    largest_remainder,
    nobody,
    one_of,
    repair,
)


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Draw the clients' sizes ~ Dir(beta, ..., beta) and fill them with random rows: labels stay IID.

    `alpha` is another name for `beta`; without either it is 0.5.
    """

    clients: Clients = 10
    beta: Concentration | None = None
    alpha: Concentration | None = None
    min_size: MinSize = 10
    tries: Clients = TRIES

    def __post_init__(self) -> None:
        one_of(self.beta, self.alpha)

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Draw sizes, hand out a permutation by them, and repair what is too small."""
        check_clients(self.clients, len(labels), self.min_size)
        sizes = until(lambda draw: self._sizes(len(labels), draw), self.min_size, key, self.tries)
        owner = nobody(len(labels))
        hand_out(owner, (key / "rows").numpy().permutation(len(labels)), sizes)
        repair(owner, self.clients, max(self.min_size, 1), (key / "repair").numpy())
        return deal(owner, self.clients)

    def _sizes(self, rows: int, draw: np.random.Generator) -> Rows:
        shares = draw.dirichlet(np.full(self.clients, one_of(self.beta, self.alpha)))
        return largest_remainder(shares, rows)
