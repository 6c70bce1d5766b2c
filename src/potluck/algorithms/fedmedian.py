"""FedMedian: every coordinate of the new model is the median over the clients.

Yin, Chen, Kannan and Bartlett, "Byzantine-robust distributed learning: towards optimal statistical rates",
ICML 2018.

    w_{t+1}[i] = median_k w_k[i]

Unweighted; with an even number of answers the mean of the two middle values (numpy's rule). Among m answers
up to (m - 1) / 2 may be anything, and every coordinate still lies between honest ones. With one or two
answers it is their plain mean. Clients that differ in what they hold are not outliers, so under label skew
the median loses what only a minority of them knows.
Deviations: the paper takes the median of gradients; here, as is usual, of models after local training.
Who takes part is settled by the aggregation contract: finite answers with a positive weight, so clients
without rows do not. Buffers take the median too, counters the maximum.
Wire: as FedAvg. State: none; but a round holds all answers at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from potluck.algorithms.fedavg import Rounds
from potluck.algorithms.fedavg import wire as wire
from potluck.average import TrainOn, averaging
from potluck.combine import Combined, NormBuffers, Weighed, combine
from potluck.core import Algorithm
from potluck.learn import Fit
from potluck.roles import ByRows, Everything, Objective, Plain, Server, Share
from potluck.tree import Params


@dataclass(frozen=True)
class Median(Server):
    """Take the coordinate-wise median of the answers, each counted once (FedMedian)."""

    streams: ClassVar[bool] = False

    def refuse(self, bn_buffers: NormBuffers) -> str | None:
        """Refuse pooled variances: they are a matter of means."""
        if bn_buffers != "pooled":
            return None
        return 'algorithm.bn_buffers: "pooled" needs a mean, not a median; choose "average" or "local"'

    def gather(self, answers: Iterable[Weighed], previous: Params) -> Combined:
        """Return the median of the answers that count."""
        held = list(answers)
        mean = combine(held, previous)
        chosen = [answer for answer in held if mean.weights.get(answer.client, 0) > 0]
        if not chosen:
            return mean
        params = {
            name: median([answer.params[name] for answer in chosen]) if leaf.is_floating_point() else leaf
            for name, leaf in mean.params.items()
            if name in chosen[0].params
        }
        weights = {answer.client: 1 / len(chosen) for answer in chosen}
        return Combined({**previous, **params}, weights, mean.notes)


def median(leaves: list[Tensor]) -> Tensor:
    """Return the coordinate-wise median; of an even number the mean of the two middle values."""
    ranked = torch.stack(leaves).sort(dim=0).values
    middle = len(leaves) // 2
    if len(leaves) % 2:
        return ranked[middle]
    return ((ranked[middle - 1].double() + ranked[middle].double()) / 2).to(ranked.dtype)


def fedmedian(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    objective: Objective = Plain(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
    train_on: TrainOn = "train",
) -> Algorithm:
    """The coordinate-wise median of the clients' models (Yin et al., ICML 2018)."""
    return averaging("fedmedian", rounds, fit, ByRows(), objective, Median(), share, bn_buffers, train_on)
