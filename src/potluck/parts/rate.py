"""A server with a learning rate: it goes only part of the way to the clients' mean, or further.

SCAFFOLD's server step x + (eta / m) sum_k (y_k - x) (Karimireddy et al., ICML 2020), written as
(1 - eta) x + eta mean_k y_k so that eta = 1 gives the mean's very bits. Batch-norm statistics take the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from potluck.model import Model
from potluck.roles import Server
from potluck.tree import Params


@dataclass(frozen=True)
class Rate(Server):
    """Go only part of the way (or further) to the mean: (1 - lr) x + lr mean, on trainable leaves."""

    lr: Annotated[float, Field(gt=0)] = 1.0

    def start(self, model: Model, params: Params) -> Params:
        """Remember which leaves are trainable, as empty tensors by name."""
        return {name: torch.zeros(0) for name in model.learnable if name in params}

    def step(self, previous: Params, mean: Params, memory: Params) -> tuple[Params, Params]:
        """Return the mean itself at lr = 1."""
        if self.lr == 1:
            return mean, memory
        moved = {name: (1 - self.lr) * previous[name] + self.lr * mean[name] for name in memory}
        return {**mean, **moved}, memory
