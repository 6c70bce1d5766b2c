"""A federated beta-VAE: FedAvg on an autoencoder, the baseline of FedDisco with a beta-VAE.

The autoencoder is that of the TU Delft poster on FedDisco with a VAE (after I. Higgins and others, "beta-VAE",
ICLR 2017), averaged as in McMahan et al., AISTATS 2017. `loss` is reconstruction + eval_beta KL per row, with
`reconstruction` and `kl` beside it; there is no accuracy. The experiment's `model` plays no part. With the same
settings it is stage (A) of FedDisco with a beta-VAE to the bit, so that a comparison of both trains it once.

    loss of a row = sum over pixels (x - x')^2 + beta 0.5 sum(mu^2 + s^2 - 1 - ln s^2)

Deviations: none. Wire: as FedAvg with the autoencoder. State: none.
"""

from __future__ import annotations

from potluck.algorithms.fedavg import Rounds
from potluck.average import averaging, crossing
from potluck.combine import NormBuffers
from potluck.core import Algorithm
from potluck.learn import Fit
from potluck.model import Model
from potluck.parts.autoencoder import Autoencoder
from potluck.roles import Architecture, ByRows, Everything, Objective, Plain, Replace, Server, Weigh

VAE = Autoencoder()
STREAM = "vae"
FIT = Fit(optimizer="adam", lr=1e-3, batch=64, epochs=10)


def fedvae(
    rounds: Rounds = 25,
    fit: Fit = FIT,
    vae: Architecture = VAE,
    weigh: Weigh = ByRows(),
    objective: Objective = Plain(),
    server: Server = Replace(),
    bn_buffers: NormBuffers = "average",
) -> Algorithm:
    """Average a beta-VAE (Higgins et al., ICLR 2017) over clients; scored by its own loss, not by accuracy."""
    return averaging(
        "fedvae", rounds, fit, weigh, objective, server, Everything(), bn_buffers,
        architecture=vae, stream=STREAM, judged=True,
    )  # fmt: skip


def wire(model: Model) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up."""
    return crossing(VAE.model(model))
