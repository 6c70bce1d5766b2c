"""Early stopping of a federated stage on the clients' pooled validation loss; the best model is restored.

FedDisk (Nguyen, Wu and Chang, IEEE TAI 2024) stops its global density when the validation loss rises. The
model merged in round r is measured by the participants of round r + 1 before they train; the loss rides with
their update. The mean is weighted by training rows,
    L_r = sum_k n_k L_k(w_r) / sum_k n_k    over the participants that have validation rows,
and the stage is over once L has not fallen below its smallest value for `patience` rounds. The patience is
ours (the paper names none, its code waits for three). Where the rounds run out while L still falls, the last
model stands, which nobody has measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from potluck.core import Client
from potluck.model import Model
from potluck.roles import Stop, Told, Watch
from potluck.tree import Params

LOSS = "val_loss"


@dataclass(frozen=True)
class NoBetter(Stop):
    """Stop after `patience` rounds without a smaller validation loss."""

    patience: Annotated[int, Field(ge=1)] = 3

    validates: ClassVar[bool] = True

    def measure(self, model: Model, given: Params, client: Client) -> Mapping[str, float]:
        """Return the mean loss of the given model on the validation rows; nothing without any."""
        return {LOSS: float(model.rows(given, client.val).double().mean())} if len(client.val) else {}

    def start(self, params: Params) -> Watch:
        """Return the memory of a stage that nobody has measured yet."""
        return Watch(params, math.inf, 0, {})

    def watch(self, watch: Watch | None, given: Params, told: Sequence[Told]) -> Watch:
        """Return what is remembered once `given` has been measured."""
        watch = watch or self.start(given)
        rows = {**watch.rows, **{answer.client: answer.rows for answer in told}}
        loss = pooled(told)
        if loss is None:
            return watch._replace(rows=rows)
        if loss < watch.loss:
            return Watch(given, loss, 0, rows)
        return Watch(watch.best, watch.loss, watch.waited + 1, rows)

    def done(self, watch: Watch | None) -> bool:
        """Tell whether patience is at its end."""
        return watch is not None and watch.waited >= self.patience


def pooled(told: Sequence[Told]) -> float | None:
    """Return the mean validation loss, weighted by training rows; None if nobody measured a finite one."""
    found = [(one.rows, one.values[LOSS]) for one in told if math.isfinite(one.values.get(LOSS, math.nan))]
    total = sum(rows for rows, _ in found)
    return sum(rows * loss for rows, loss in found) / total if total else None
