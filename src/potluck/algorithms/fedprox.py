"""FedProx: clients are held near the model that they were given, and slow clients send what they have.

Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, "Federated optimization in heterogeneous networks",
MLSys 2020.

    client k minimises   F_k(w) + mu/2 |w - w_t|^2,      so that   w <- w - lr (g + mu (w - w_t))

over the trainable leaves. With mu = 0 and no stragglers it is FedAvg, bit for bit.
Deviations: participants are drawn as everywhere here (uniform, weights n_k: the authors' code, not the
paper's sampling by size). A straggler does a part of its steps, not of its epochs.
Wire: as FedAvg. State: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from potluck.algorithms.fedavg import Rounds
from potluck.algorithms.fedavg import wire as wire
from potluck.average import TrainOn, averaging
from potluck.combine import NormBuffers
from potluck.core import Algorithm, Client
from potluck.learn import Fit, Plan
from potluck.roles import ByRows, Everything, Objective, Replace, Server, Share, Weigh
from potluck.tree import Params

Mu = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Proximal(Objective):
    """The model's loss plus mu/2 times the squared distance from the model that was given (FedProx)."""

    mu: Mu = 0.01

    partial: ClassVar[bool] = True

    def plan(self, extra: Params, given: Params, client: Client) -> Plan:
        """Return the pull towards the given model."""
        return Plan(proximal=self.mu)


def fedprox(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    mu: Mu = 0.01,
    server: Server = Replace(),
    weigh: Weigh = ByRows(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
    train_on: TrainOn = "train",
) -> Algorithm:
    """Averaging with a proximal term that also keeps stragglers' partial work (Li et al., MLSys 2020)."""
    return averaging("fedprox", rounds, fit, weigh, Proximal(mu), server, share, bn_buffers, train_on)
