"""FedBN: average everything but the normalisation layers, which stay with each client.

Li, Jiang, Zhang, Kamp and Dou, "FedBN: federated learning on non-IID features via local batch normalization",
ICLR 2021.

    leaves outside norm layers:  w_{t+1} = sum_k (n_k / n_S) w_k
    leaves of norm layers (scale, shift, running statistics):  each client goes on with its own

Norm layers are found by their type (batch, group, layer, instance norm), not by their names. A client that is
chosen for the first time starts from the initial ones.
Deviations: clients weigh by rows (the published code: all alike, `weigh = { name = "uniform" }`), and all kinds
of norm layers stay, not only batch norm. A model without norm layers is trained as by FedAvg, bit for bit, and
a note in the records says so.
Wire: the model without its norm layers, down and up. State: the norm layers at each client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from potluck.algorithms.fedavg import Rounds
from potluck.average import TrainOn, averaging, crossing
from potluck.core import Algorithm
from potluck.learn import Fit
from potluck.model import Model
from potluck.roles import ByRows, Objective, Plain, Replace, Server, Share, Weigh
from potluck.tree import Params, nbytes

Newcomer = Literal["none", "calibrate"]
NO_NORMS = "fedbn: the model has no normalisation layers, so that nothing stays local: this is FedAvg"


@dataclass(frozen=True)
class Norms(Share):
    """All leaves but those of normalisation layers travel (FedBN; Li et al., ICLR 2021).

    `newcomer = "none"`: there is no model for somebody without norm layers of his own; the global figures are
    null. "calibrate": his batch norms normalise with the statistics of the rows that they are shown, without
    their labels, in batches of up to 500; scales and shifts are the initial ones. Nothing is averaged for it.
    """

    welcome: Newcomer = "none"

    @property
    def newcomer(self) -> bool:
        """Tell whether newcomers are calibrated for."""
        return self.welcome == "calibrate"

    def personal(self, model: Model) -> frozenset[str]:
        """Return all leaves of norm layers."""
        return model.norms

    def note(self, model: Model) -> str | None:
        """Say that without norm layers this is FedAvg."""
        return None if model.norms else NO_NORMS

    def outputs(self, model: Model, params: Params, x: Tensor, *, own: bool) -> Tensor:
        """Return the class scores, with the statistics of the rows themselves for whoever has none of his own."""
        return model(params, x) if own or not self.newcomer else calibrated(model, params, x)


def calibrated(model: Model, params: Params, x: Tensor) -> Tensor:
    """Return the outputs with batch norms using the batch's own statistics; a single row has none."""
    module = model.load(params).eval()
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.train(len(x) > 1)
    with torch.no_grad():
        out: Tensor = module(x)
    return out


def fedbn(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    newcomer: Newcomer = "none",
    weigh: Weigh = ByRows(),
    objective: Objective = Plain(),
    server: Server = Replace(),
    train_on: TrainOn = "train",
) -> Algorithm:
    """FedBN, local normalisation layers against feature shift (Li et al., ICLR 2021)."""
    share = Norms(newcomer)
    return averaging("fedbn", rounds, fit, weigh, objective, server, share, train_on=train_on)


def wire(model: Model) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up: all but the norm layers."""
    down, up = crossing(model)
    kept = nbytes({name: model.slots[name].detach() for name in model.norms})
    return down - kept, up - kept
