"""The mean loss with one weight per row: FedDisk's phase 2.

Nguyen, Wu and Chang, "Federated learning for distribution skewed data using sample weights", IEEE TAI 2024:
    (1 / N_k) sum_j alpha_kj l(g(x_kj), y_kj).
A batch is divided by its size, not by its sum of weights, so that a batch of unwanted rows takes a smaller
step. With all weights one it is FedAvg, bit for bit. The weights are in the client's memory; without any
(the client missed the stage that finds them) all rows count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from potluck.core import Client
from potluck.errors import BadInputError
from potluck.learn import Plan
from potluck.parts.density_ratio import ROW_WEIGHTS
from potluck.roles import Objective
from potluck.tree import Params


@dataclass(frozen=True)
class RowWeighted(Objective):
    """Weigh every training row's loss with what the client remembers of it."""

    def plan(self, extra: Params, given: Params, client: Client) -> Plan:
        """Train with the remembered weights."""
        weights: Tensor | None = client.memory.get(ROW_WEIGHTS)
        if weights is not None and len(weights) != len(client.train):
            raise BadInputError(
                f"client {client.id}: has {len(client.train)} training rows but {len(weights)} row weights; "
                f"do not exchange rows between the stages"
            )
        return Plan(rows=weights)
