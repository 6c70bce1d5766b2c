"""FedAvgM: the server walks on with momentum instead of jumping to the clients' mean.

Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual
classification", arXiv 1909.06335, 2019.

    dw = w_t - sum_k (n_k/n_S) w_k,      v <- beta v + (1 - dampening) dw,      w_{t+1} = w_t - lr v

with `nesterov` the step is lr ((1 - dampening) dw + beta v). It is computed as (1 - a) w_t + a mean - c v
with the old v, so that beta = 0 and lr = 1 give FedAvg, bit for bit.
Deviations: only trainable leaves have momentum. Batch-norm statistics take the clients' mean as they are:
a momentum could make a running variance negative. A step that is not finite is left out, and v stays.
Wire: as FedAvg. State: v at the server (float64); it outlives rounds in which nobody answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from potluck.algorithms.fedavg import Rounds
from potluck.algorithms.fedavg import wire as wire
from potluck.average import TrainOn, averaging
from potluck.combine import NormBuffers
from potluck.core import Algorithm
from potluck.learn import Fit
from potluck.model import Model
from potluck.roles import ByRows, Everything, Objective, Plain, Server, Share, Weigh
from potluck.tree import Params, finite

Beta = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Dampening = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class ServerMomentum(Server):
    """Walk from the old model towards the mean with momentum (FedAvgM)."""

    beta: Beta = 0.9
    lr: Rate = 1.0
    nesterov: bool = False
    dampening: Dampening = 0.0

    def start(self, model: Model, params: Params) -> Params:
        """Return v = 0 for every shared trainable leaf."""
        return {n: torch.zeros_like(params[n], dtype=torch.float64) for n in model.learnable if n in params}

    def step(self, previous: Params, mean: Params, memory: Params) -> tuple[Params, Params]:
        """Return w - lr v and v; buffers as in the mean."""
        moved, velocity = dict(mean), {}
        for name, old in memory.items():
            start, centre = previous[name].double(), mean[name].double()
            velocity[name] = self.beta * old + (1 - self.dampening) * (start - centre)
            moved[name] = self._leaf(start, centre, old).to(mean[name].dtype)
        return (moved, velocity) if finite((moved, velocity)) else (previous, memory)

    def _leaf(self, start: torch.Tensor, mean: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
        """Return (1 - a) w + a mean - c v; terms that are off change no bit."""
        towards = self.lr * (1 - self.dampening) * (1 + self.beta * self.nesterov)
        onwards = self.lr * (self.beta**2 if self.nesterov else self.beta)
        out = mean if towards == 1 else (1 - towards) * start + towards * mean
        return out - onwards * old if onwards else out


def fedavgm(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    beta: Beta = 0.9,
    lr: Rate = 1.0,
    nesterov: bool = False,
    dampening: Dampening = 0.0,
    weigh: Weigh = ByRows(),
    objective: Objective = Plain(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
    train_on: TrainOn = "train",
) -> Algorithm:
    """Averaging with momentum at the server (Hsu et al., 2019)."""
    server = ServerMomentum(beta, lr, nesterov, dampening)
    return averaging("fedavgm", rounds, fit, weigh, objective, server, share, bn_buffers, train_on)
