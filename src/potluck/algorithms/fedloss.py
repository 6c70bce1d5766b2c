"""FedLoss: clients whose models do badly on their own validation rows count more.

Tagarakis, "Optimization of distributed learning methods", diploma thesis, National Technical University of
Athens, 2023.

    w_{t+1} = sum_k (l_k / sum_j l_j) w_k,      l_k = mean loss of client k's model on its validation rows

The validation rows (`split.val`, a tenth by default) are never trained on; without any it is FedAvg.
Choices: `weight_rule` "loss" is the above; "loss_x_size" is l_k n_k; "loss_clipped" cuts losses at `clip`
times the participants' median; "loss_shrunk" is (v_k l_k + s l_mean) / (v_k + s) with v_k validation rows,
their weighted mean loss l_mean and s = `shrinkage`, which steadies the weights of tiny clients.
`loss_of` "local_model" is measured after training; "global_model_before" on the model that was given.
`val_batch_weighting` "batch" is the mean over batches of `val_batch` rows, however full the last one is.
Deviations: none in the defaults. A client without validation rows counts with the others' mean loss, one
with a single row with its share n_k / n_S. Losses that are not finite are dropped; all zero: n_k decides.
Wire: FedAvg and two numbers up (the loss and v_k). State: none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from potluck.algorithms.fedavg import Rounds
from potluck.average import averaging, crossing
from potluck.combine import NormBuffers
from potluck.core import Algorithm, Client
from potluck.learn import Fit
from potluck.model import Model
from potluck.roles import Everything, Objective, Plain, Replace, Server, Share, Told, Weigh
from potluck.tree import Params

WeightRule = Literal["loss", "loss_x_size", "loss_clipped", "loss_shrunk"]
LossOf = Literal["local_model", "global_model_before"]
Weighting = Literal["sample", "batch"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Batch = Annotated[int, Field(ge=1)]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ValidationLoss(Weigh):
    """Weigh answers by their loss on the clients' own validation rows (FedLoss)."""

    weight_rule: WeightRule = "loss"
    loss_of: LossOf = "local_model"
    val_batch_weighting: Weighting = "sample"
    val_batch: Batch = 64
    clip: Positive = 5.0
    shrinkage: Positive = 32.0

    validates: ClassVar[bool] = True

    def measure(self, model: Model, given: Params, trained: Params, client: Client) -> Mapping[str, float]:
        """Return the loss on the validation rows, and how many these are."""
        if not len(client.val):
            return {"loss": 0.0, "val_rows": 0.0}
        losses = model.rows(trained if self.loss_of == "local_model" else given, client.val).double()
        if self.val_batch_weighting == "batch":
            losses = torch.stack([part.mean() for part in torch.split(losses, self.val_batch)])
        return {"loss": float(losses.mean()), "val_rows": float(len(client.val))}

    def raw(self, told: Sequence[Told], past: Any, population: Sequence[int]) -> Sequence[float]:
        """Return the losses under the weight rule; all zero (so that n_k decides) if nobody could measure one."""
        rows = np.array([answer.rows for answer in told], dtype=np.float64)
        losses = np.array([answer.values["loss"] for answer in told], dtype=np.float64)
        checked = np.array([answer.values["val_rows"] for answer in told], dtype=np.float64)
        usable = (checked > 0) & (rows > 0) & np.isfinite(losses)
        if usable.any():
            losses[checked == 0] = losses[usable].mean()
            losses = self._ruled(losses, rows, checked, usable)
        lone = (checked == 0) & (rows == 1)
        if lone.any():
            sound = np.isfinite(losses)
            rest = losses[sound & ~lone & (rows > 0)].sum()
            losses[lone] = rest / max(rows[sound].sum() - lone.sum(), 1)
        losses[rows == 0] = 0
        return [float(loss) for loss in losses]

    def _ruled(self, losses: Floats, rows: Floats, checked: Floats, usable: npt.NDArray[np.bool_]) -> Floats:
        if self.weight_rule == "loss_x_size":
            return losses * rows
        if self.weight_rule == "loss_clipped":
            return np.where(
                np.isfinite(losses), np.minimum(losses, self.clip * np.median(losses[usable])), losses
            )
        if self.weight_rule == "loss_shrunk":
            mean = np.average(losses[usable], weights=checked[usable])
            return (checked * losses + self.shrinkage * mean) / (checked + self.shrinkage)
        return losses


def fedloss(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    weight_rule: WeightRule = "loss",
    loss_of: LossOf = "local_model",
    val_batch_weighting: Weighting = "sample",
    val_batch: Batch = 64,
    clip: Positive = 5.0,
    shrinkage: Positive = 32.0,
    objective: Objective = Plain(),
    server: Server = Replace(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
) -> Algorithm:
    """Averaging weighted by the clients' own validation losses (Tagarakis, 2023)."""
    weigh = ValidationLoss(weight_rule, loss_of, val_batch_weighting, val_batch, clip, shrinkage)
    return averaging("fedloss", rounds, fit, weigh, objective, server, share, bn_buffers)


def wire(model: Model) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up: the loss and the validation rows are told."""
    return crossing(model, told=2)
