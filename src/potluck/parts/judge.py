"""The judge: a small classifier whose odds say how much likelier a row is under one sample than another.

FedDisk (Nguyen, Wu and Chang, IEEE TAI 2024, eq. 13 to 16): fc D -> 100, ReLU, -> 2, softmax, descent
with rate 0.01; batch 32 is ours. Training ends when the loss of an epoch no longer falls by `tol`.
Samples of unequal sizes are allowed: the odds are corrected by the ratio of the sizes (eq. 15).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from potluck.key import Key

_DESCENTS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": partial(torch.optim.Adam, fused=True),
}


@dataclass(frozen=True)
class Judge:
    """How the classifier is built and trained."""

    hidden: Annotated[int, Field(ge=1)] = 100
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: Annotated[float, Field(gt=0)] = 0.01
    batch: Annotated[int, Field(ge=1)] = 32
    epochs: Annotated[int, Field(ge=1)] = 50
    tol: Annotated[float, Field(ge=0)] = 1e-4
    patience: Annotated[int, Field(ge=1)] = 3

    def __call__(self, zeros: Tensor, ones: Tensor, key: Key) -> Verdict:
        """Train on rows of label 0 and rows of label 1."""
        inputs = torch.cat([zeros, ones]).flatten(1)
        targets = torch.cat([torch.zeros(len(zeros)), torch.ones(len(ones))]).long()
        with (key / "init").ambient():
            net = nn.Sequential(nn.Linear(inputs.shape[1], self.hidden), nn.ReLU(), nn.Linear(self.hidden, 2))
        generator = (key / "batches").torch()
        leaves = list(net.parameters())
        descent = _DESCENTS[self.optimizer](leaves, lr=self.lr)
        best, waited = math.inf, 0
        for _ in range(self.epochs):
            heard = torch.zeros(())
            for rows in torch.split(torch.randperm(len(inputs), generator=generator), self.batch):
                loss = functional.cross_entropy(net(inputs[rows]), targets[rows])
                for leaf, slope in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
                    leaf.grad = slope
                descent.step()
                heard += loss.detach() * len(rows)
            mean = float(heard) / len(inputs)
            waited = 0 if mean < best - self.tol else waited + 1
            best = min(best, mean)
            if waited >= self.patience or not math.isfinite(mean):
                break
        return Verdict(net, math.log(len(zeros) / len(ones)))


@dataclass(frozen=True, eq=False)
class Verdict:
    """A trained judge."""

    net: nn.Module
    correction: float

    @torch.no_grad()
    def log_odds(self, rows: Tensor) -> Tensor:
        """Return ln P(1 | u) / P(0 | u), corrected for the sizes of the two samples."""
        scores: Tensor = self.net(rows.flatten(1)).double()
        return (scores[:, 1] - scores[:, 0]) + self.correction
