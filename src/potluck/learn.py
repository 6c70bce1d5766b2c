"""The one training loop, and evaluation. Nothing else in the package iterates over training batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from potluck.descent import Adam, Descent, Momentum, Pull, gradients
from potluck.key import Key
from potluck.metrics import Tally
from potluck.model import EVALUATION_BATCH, Model, RowFigures, RowLoss
from potluck.table import Table
from potluck.tree import Params


class Plan(NamedTuple):
    """What an objective adds to plain training.

    `loss` replaces the model's loss per row; `proximal` adds mu/2 |w - w0|^2; `shift` is added to every
    gradient (control variates); `rows` weighs the rows (mean over the batch size); `learn` names the leaves
    that move.
    """

    loss: RowLoss | None = None
    proximal: float = 0.0
    shift: Params | None = None
    rows: Tensor | None = None
    learn: Sequence[str] | None = None


class Trained(NamedTuple):
    """The outcome of local training: parameters, steps really taken, mean loss over all batches, rate used."""

    params: Params
    steps: int
    loss: float
    lr: float


@dataclass(frozen=True)
class Fit:
    """The training loop: plain, momentum or Adam descent over seeded batches, `epochs` long or `steps` long."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: Annotated[float, Field(gt=0)] = 0.01
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip: Annotated[float, Field(gt=0)] | None = None
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    batch: Annotated[int, Field(ge=1)] | Literal["all"] = 32
    epochs: Annotated[int, Field(ge=0)] = 1
    steps: Annotated[int, Field(ge=0)] | None = None

    def __call__(
        self,
        model: Model,
        params: Params,
        table: Table,
        key: Key,
        *,
        plan: Plan | None = None,
        round: int = 1,
        effort: float = 1.0,
    ) -> Trained:
        """Train from `params` on `table`; `round` sets the decayed rate, `effort` the share of the work done."""
        plan = plan or Plan()
        rate = self.lr * self.decay ** (round - 1)
        module = model.load(params)
        lonely = model.batch_norms and (len(table) == 1 or self.batch == 1)
        module.train(not lonely)
        descend = self._descent(model, params, plan, rate)
        row_loss = plan.loss or model.loss
        batches = self._batches(len(table), key, effort, model.batch_norms)
        heard = 0.0
        for rows in batches:
            losses = row_loss(module, table.x.index_select(0, rows), table.y.index_select(0, rows))
            loss = (losses if plan.rows is None else losses * plan.rows[rows]).mean()
            descend(loss)
            heard += float(loss.detach())
        return Trained(model.unload(), len(batches), heard / max(len(batches), 1), rate)

    def _descent(self, model: Model, params: Params, plan: Plan, rate: float) -> Descent:
        names = model.learnable if plan.learn is None else plan.learn
        leaves = [model.slots[name] for name in names]
        shift = None if plan.shift is None else [plan.shift[name] for name in names]
        start = [params[name] for name in names]
        pull = Pull(self.weight_decay, plan.proximal, start, shift, self.clip)
        if self.optimizer == "adam":
            return Adam(leaves, pull, rate)
        return Momentum(leaves, pull, rate, self.momentum)

    def _batches(self, n: int, key: Key, effort: float, batch_norms: bool) -> list[Tensor]:
        """Cut seeded permutations into batches; a lone last row is dropped where batch norm could not digest it."""
        if n == 0:
            return []
        size = n if self.batch == "all" else min(self.batch, n)
        per_epoch = -(-n // size)
        if batch_norms and n > 1 and size > 1 and n % size == 1:
            per_epoch -= 1
        full = self.epochs * per_epoch if self.steps is None else self.steps
        wanted = full if effort >= 1 else max(min(full, 1), int(full * effort))
        generator = (key / "batches").torch()
        out: list[Tensor] = []
        while len(out) < wanted:
            out.extend(torch.split(torch.randperm(n, generator=generator), size)[:per_epoch])
        return out[:wanted]


def gradient(model: Model, params: Params, table: Table) -> Params:
    """Return the gradient of the mean loss over a whole table; batch norm sees large, nearly equal parts of it."""
    module = model.load(params)
    module.train(not (model.batch_norms and len(table) == 1))
    leaves = [model.slots[name] for name in model.learnable]
    total = [torch.zeros_like(leaf, dtype=torch.float64) for leaf in leaves]
    pieces = max(1, -(-len(table) // EVALUATION_BATCH))
    for rows in torch.arange(len(table)).tensor_split(pieces):
        if len(rows):
            loss = model.loss(module, table.x[rows], table.y[rows]).sum() / len(table)
            torch._foreach_add_(total, gradients(loss, leaves))
    return {
        name: sums.to(leaf.dtype) for name, sums, leaf in zip(model.learnable, total, leaves, strict=True)
    }


def evaluate(predict: Callable[[Tensor], Tensor], table: Table, classes: int) -> Tally:
    """Count hits and sum losses over a table, in batches of a fixed size; sums are kept in float64."""
    confusion = torch.zeros(classes * classes, dtype=torch.int64) if classes else None
    loss = 0.0
    for begin in range(0, len(table), EVALUATION_BATCH):
        part = slice(begin, begin + EVALUATION_BATCH)
        y = table.y[part]
        out = predict(table.x[part])
        if confusion is None:
            loss += float(_squared(out, y).sum(dtype=torch.float64))
            continue
        loss += float(functional.cross_entropy(out, y, reduction="none").sum(dtype=torch.float64))
        confusion += torch.bincount(y * classes + out.argmax(dim=1), minlength=classes * classes)
    shaped = None if confusion is None else confusion.reshape(classes, classes)
    return Tally(len(table), {"loss": loss}, shaped)


def measure(figures: RowFigures, model: Model, params: Params, table: Table) -> Tally:
    """Sum a model's own figures over a table, in evaluation mode and without gradients."""
    module = model.load(params).eval()
    sums: dict[str, float] = {}
    for begin in range(0, len(table), EVALUATION_BATCH):
        part = slice(begin, begin + EVALUATION_BATCH)
        with torch.no_grad():
            found = figures(module, table.x[part], table.y[part])
        for name, values in found.items():
            sums[name] = sums.get(name, 0.0) + float(values.sum(dtype=torch.float64))
    return Tally(len(table), sums)


def _squared(out: Tensor, y: Tensor) -> Tensor:
    return (out.reshape(len(y), -1) - y.reshape(len(y), -1)).square().mean(dim=1)
