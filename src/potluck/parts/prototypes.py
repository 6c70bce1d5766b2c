"""Class prototypes: mean unit features by class, contrast to them, and the nearest one.

Tan, Long, Ma, Liu, Zhou and Jiang, "Federated learning from pre-trained models: a contrastive learning approach",
NeurIPS 2022. A table of prototypes has one row per class; a row of zeros means that the class is not known.
The contrast is InfoNCE with the positive in the denominator, -log( e^{z.p_y / tau} / sum_c e^{z.p_c / tau} ).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from potluck.model import EVALUATION_BATCH, Model
from potluck.table import Table
from potluck.tree import Params


def class_means(model: Model, params: Params, table: Table, classes: int, width: int) -> Tensor:
    """Return the mean unit feature vector of every class in a table."""
    sums = torch.zeros(classes, width, dtype=torch.float64)
    for begin in range(0, len(table), EVALUATION_BATCH):
        part = slice(begin, begin + EVALUATION_BATCH)
        sums.index_add_(0, table.y[part], model(params, table.x[part]).double())
    return (sums / table.counts(classes).clamp(min=1).unsqueeze(1)).float()


def known(prototypes: Tensor) -> Tensor:
    """Tell for each class whether its prototype is known."""
    return prototypes.any(dim=-1)


def mean_of(tables: Tensor) -> Tensor:
    """Return the mean table, each class over the tables that know it."""
    heard = known(tables).sum(dim=0).clamp(min=1).unsqueeze(1)
    return (tables.double().sum(dim=0) / heard).to(tables.dtype)


def filled(tables: Tensor, shared: Tensor) -> Tensor:
    """Put the shared prototype wherever a table does not know a class."""
    return torch.where(known(tables).unsqueeze(-1), tables, shared)


def contrast(z: Tensor, y: Tensor, tables: Tensor, tau: float) -> Tensor:
    """Return each row's InfoNCE loss, averaged over tables that know the same classes; 0 for an unknown class."""
    there = known(tables[0]) if len(tables) else torch.zeros(0, dtype=torch.bool)
    if not there.any():
        return z.sum(dim=1) * 0.0
    scores = torch.einsum("nd,mcd->nmc", z, tables) / tau
    logs = scores.masked_fill(~there, -math.inf).log_softmax(dim=2)
    positive = logs.gather(2, y.reshape(-1, 1, 1).expand(-1, len(tables), 1)).squeeze(2)
    return torch.where(there[y], -positive.mean(dim=1), torch.zeros(()))


def nearest(z: Tensor, prototypes: Tensor, tau: float) -> Tensor:
    """Return scores -|z - p_c|^2 / (2 tau), whose largest is the nearest prototype; unknown classes come last."""
    distances = (z.unsqueeze(1) - prototypes).square().sum(dim=2)
    farther = torch.full_like(distances, 8.0)
    return torch.where(known(prototypes), distances, farther) / (-2.0 * tau)
