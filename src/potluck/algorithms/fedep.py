"""FedEP: weigh clients by how far their labels are from the pooled labels.

H. Guan, "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling" (thesis,
University of Zurich, 2024).

    P = sum_k p_k P_k,   alpha_k = KL(P || P_k) / sum_j KL(P || P_j),   w_{t+1} = sum_{k in S_t} alpha_k w_k

P_k is a Gaussian mixture that client k fits on its labels (one census, in advance); p_k = N_k / sum N.

Deviations: weights are renormalised over the participants (`renormalise = false` shrinks the model as the
text does, "delta" takes w_t + sum alpha_k (w_k - w_t)); mixtures are normalised over the labels and smoothed;
`kl_scale = "listing"` follows the published listing instead; BIC charges 3 M - 1 parameters. When no client
diverges, weights are numbers of rows (the text divides 0 by 0); so they are where all participants have
weight 0. Wire: 3 M + 1 numbers up, once (to every neighbour, or flooded with `reach = "all"`); then as
FedAvg. State: raw weights and label descriptions at the site; clients keep nothing.
"""

from __future__ import annotations

from dataclasses import replace

from potluck.algorithms.fedavg import Rounds
from potluck.algorithms.fedavg import wire as wire
from potluck.average import TrainOn, averaging
from potluck.combine import NormBuffers
from potluck.core import Algorithm, Reach
from potluck.learn import Fit
from potluck.parts.mixture import Penalty
from potluck.parts.mixture_census import Dist, Where
from potluck.parts.pooled_kl import (
    Count,
    Direction,
    Floor,
    Missing,
    PooledKL,
    Positive,
    Renormalise,
    Rho,
    Scale,
    Start,
)
from potluck.roles import Everything, Objective, Plain, Replace, Server, Share


def fedep(
    rounds: Rounds = 20,
    fit: Fit = Fit(optimizer="adam", lr=1e-3, epochs=3),
    rho: Rho = 0.5,
    kl_scale: Scale = "text",
    direction: Direction = "proportional",
    kl_noise_floor: Floor = 0.0,
    support: Where = "global",
    eps_mass: Positive = 0.1,
    eps_class: Positive | None = None,
    bic_penalty: Penalty = "3M-1",
    v_min: Positive = 1e-2,
    n_init: Count = 3,
    init: Start = "quantile",
    renormalise: Renormalise = True,
    dist: Dist = "mixture",
    reach: Reach = "neighbours",
    missing: Missing = "exclude",
    eps_inv: Positive = 1e-2,
    max_components: Count = 10,
    train_on: TrainOn = "train",
    objective: Objective = Plain(),
    server: Server = Replace(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
) -> Algorithm:
    """Averaging weighted by the divergence of a client's labels from the pool (FedEP, Guan 2024)."""
    weigh = PooledKL(rho, v_min, n_init, init, bic_penalty, max_components, kl_scale, direction, eps_inv)
    weigh = replace(weigh, kl_noise_floor=kl_noise_floor, eps_mass=eps_mass, eps_class=eps_class)
    weigh = replace(weigh, support=support, dist=dist, reach=reach, renormalise=renormalise, missing=missing)
    return averaging("fedep", rounds, fit, weigh, objective, server, share, bn_buffers, train_on)
