"""What several experts say about rows, and how well one prediction made from it does.

The experiments of FedEx (Miles et al., University of Michigan, 2024) report every expert and the layer on the
same test set. The layer learns from the stream, so its accuracy depends on the order: rows come in a seeded order
that is the same at every client and in every round, and the spread over several orders is reported beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from potluck.core import Client
from potluck.metrics import Tally
from potluck.model import EVALUATION_BATCH, Model
from potluck.parts.double_softmax import LossHead, loss_of
from potluck.parts.gate import Floats, Ints, heard
from potluck.tree import Params

Combine = Callable[[Floats, Ints, Ints], Floats]
"""From what is said (row, expert, class), the order of the rows and their classes to sums by row and class."""


class Panel(NamedTuple):
    """The experts that are handed out, how many clients each has, and the objective's leaves while they train."""

    experts: tuple[Params, ...]
    sizes: tuple[int, ...]
    extra: Params


def outputs(model: Model, panel: Panel, x: Tensor) -> Floats:
    """Return what every expert says: class shares by row, expert and class (softmax, float64)."""
    said = []
    for params in panel.experts:
        parts = [model(params, x[i : i + EVALUATION_BATCH]) for i in range(0, len(x), EVALUATION_BATCH)]
        scores = torch.cat(parts) if parts else torch.zeros(0, model.classes)
        said.append(scores.double().softmax(dim=1))
    return np.asarray(torch.stack(said, dim=1).numpy())


def visits(client: Client, rows: int, orders: int) -> list[Ints]:
    """Return seeded orders of the rows, the same at every client and in every round."""
    return [(client.birth / "order" / k).numpy().permutation(rows) for k in range(orders)]


def tally(
    raw: Floats, y: Tensor, combine: Combine, orders: list[Ints], head: LossHead, details: Mapping[str, float]
) -> Tally:
    """Score combined outputs: the first order counts, the others say how much the order matters.

    `details` are means over the rows that go with the figures.
    """
    said, truth = heard(raw), np.asarray(y.numpy())
    sums = [combine(said, order, truth) for order in orders]
    hits = np.array([(each.argmax(axis=1) == truth).mean() for each in sums])
    classes = raw.shape[2]
    best = torch.from_numpy(sums[0].argmax(axis=1))
    confusion = torch.bincount(y * classes + best, minlength=classes * classes).reshape(classes, classes)
    loss = float(loss_of(torch.from_numpy(shares(sums[0])), y, head).sum())
    means = {"accuracy_order_std": float(hits.std()), **details}
    return Tally(len(y), {"loss": loss, **{name: value * len(y) for name, value in means.items()}}, confusion)


def shares(sums: Floats) -> Floats:
    """Scale every row to sum one; a row of zeros becomes uniform."""
    total = sums.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(sums, total, out=np.full_like(sums, 1.0 / sums.shape[1]), where=total > 0))


def logs(sums: Floats) -> Tensor:
    """Return combined outputs as class scores (logits)."""
    return torch.from_numpy(sums).clamp(min=torch.finfo(torch.float64).tiny).log()


def of_experts(raw: Floats, y: Tensor, head: LossHead) -> dict[str, float]:
    """Return accuracy and loss of every expert by itself, and on which share of the rows it was left out."""
    out = {}
    for expert in range(raw.shape[1]):
        said = raw[:, expert]
        sound = np.isfinite(said).all(axis=1)
        out[f"expert/{expert}/accuracy"] = float(((said.argmax(axis=1) == y.numpy()) & sound).mean())
        if not sound.all():
            out[f"expert/{expert}/nonfinite"] = float(1.0 - sound.mean())
        if sound.any():
            losses = loss_of(torch.from_numpy(said[sound]), y[torch.from_numpy(sound)], head)
            out[f"expert/{expert}/loss"] = float(losses.mean())
    return out
