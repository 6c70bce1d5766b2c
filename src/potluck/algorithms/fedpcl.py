"""FedPCL: clients exchange class prototypes only, and learn by contrast to them.

Tan, Long, Ma, Liu, Zhou and Jiang, "Federated learning from pre-trained models: a contrastive learning approach",
NeurIPS 2022.

    prototype of class c at client k:  P_k[c] = mean of its unit features z / |z|
    shared prototypes:                 P[c] = mean over the clients that know c
    loss of a row:                     L_g + L_p = contrast to P + mean over clients j of contrast to P_j
    contrast:                          -log( e^{z.p_y / tau} / sum_c e^{z.p_c / tau} )
    prediction:                        the nearest of the client's own prototypes; shared ones fill the gaps

With `backbone`, a stored model's body is frozen and a projection behind it is trained: the published method.
Without (the default, near-official), body and head are trained from scratch on cross-entropy + contrast, and
still only prototypes travel.
Deviations: every client's latest prototypes count (the published code waits for all), the positive is in the
denominator, and the anchor is the row's features. An unknown class is left out; a newcomer has neither a trained
projection nor a body, so that there is no global model to test.
Wire: C x d up; (1 + K) x C x d down, K: clients heard so far. State: model or projection, prototypes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from potluck.algorithms.fedavg import Rounds
from potluck.core import Algorithm
from potluck.learn import Fit
from potluck.model import Model
from potluck.parts.contrastive import Contrastive
from potluck.parts.encoder import stored
from potluck.parts.heads import halves

Positive = Annotated[float, Field(gt=0)]


def fedpcl(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    backbone: Path | None = None,
    projection: Annotated[int, Field(ge=1)] = 256,
    tau: Positive = 0.07,
    strength: Annotated[float, Field(ge=0)] = 1.0,
) -> Algorithm:
    """FedPCL, prototypes instead of models (Tan et al., NeurIPS 2022); `strength` weighs them against cross-entropy."""
    if backbone is not None:
        stored(backbone)
    return Algorithm((Contrastive(rounds, fit, backbone, projection, tau, strength),), "fedpcl")


def wire(model: Model, clients: int = 1) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up, once `clients` have been heard."""
    up = 4 * model.classes * halves(model.module, model.shape).width
    return (1 + clients) * up, up
