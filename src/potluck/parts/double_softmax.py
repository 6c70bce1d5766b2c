"""Cross-entropy on softmax outputs: what FedEx's published code trains on and reports.

Miles et al., "FedEx: an exploration of clustering clients in federated learning", University of Michigan, 2024. The
network ends in a softmax and the loss applies another one: loss = -m_y + log sum_j e^{m_j}, with m in the simplex.
It cannot fall below ln(e + C - 1) - 1 (1.4612 for ten classes), and a sure model's loss is that plus 1 - accuracy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from potluck.model import Model

LossHead = Literal["logits", "double_softmax"]


def double_softmax(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return each row's cross-entropy of a softmax of the softmax."""
    scores: Tensor = module(x)
    return functional.cross_entropy(scores.softmax(dim=1), y, reduction="none")


def with_head(model: Model, head: LossHead) -> Model:
    """Return the model under a loss head; the same object for logits."""
    return model if head == "logits" else replace(model, loss=double_softmax)


def loss_of(shares: Tensor, y: Tensor, head: LossHead) -> Tensor:
    """Return each row's loss of predicted class shares (rows of a simplex, float64)."""
    if head == "double_softmax":
        return functional.cross_entropy(shares, y, reduction="none")
    picked = shares.gather(1, y.unsqueeze(1)).squeeze(1)
    return -picked.clamp(min=torch.finfo(shares.dtype).tiny).log()
