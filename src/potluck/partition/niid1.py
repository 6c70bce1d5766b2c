"""NIID-1: ten clients, class-wise Dirichlet with beta 0.5 (spec SC-8, A-X.1).

The name is FedDisco's (Ye, Xu, Wang, Xu, Chen, Wang, ICML 2023). Its construction stops dealing to full
clients and wants 10 rows each; the Delft code (the poster on FedDisco with a beta-VAE) does not, wants 40,
and draws again until it has them. Deviation: the drawing again is bounded, then repaired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from potluck.data.dataset import Rows
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.dirichlet import Dirichlet
from potluck.partition.owner import Clients, Concentration

DELFT_TRIES = 500


@dataclass(frozen=True, kw_only=True)
class Niid1:
    """Deal as FedDisco (`feddisco`: clamp, at least 10 rows) or as the Delft code (`delft`: no clamp, 40)."""

    clients: Clients = 10
    beta: Concentration = 0.5
    variant: Literal["feddisco", "delft"] = "feddisco"

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Deal class-wise by the variant's rules."""
        if self.variant == "feddisco":
            scheme = Dirichlet(clients=self.clients, beta=self.beta, clamp=True, min_size=10)
        else:
            scheme = Dirichlet(
                clients=self.clients, beta=self.beta, clamp=False, min_size=40, tries=DELFT_TRIES
            )
        return scheme(labels, key)
