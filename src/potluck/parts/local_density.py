"""A client's own density, trained until its validation rows say that it no longer gets better.

Phase 1a of FedDisk (Nguyen, Wu and Chang, IEEE TAI 2024). The loop goes in chunks of `fit.epochs`, with a look
at the validation loss in between; the best parameters are restored. Adam starts anew with every chunk.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from potluck.key import Key
from potluck.learn import Fit
from potluck.model import Model
from potluck.table import Table
from potluck.tree import Params


class Fitted(NamedTuple):
    """The best parameters, their mean validation loss, the chunks trained, a reason code if there is no use in it."""

    params: Params
    loss: float
    chunks: int
    note: str | None = None


def fitted(
    model: Model,
    start: Params,
    fit: Fit,
    train: Table,
    val: Table,
    key: Key,
    *,
    chunks: int,
    patience: int,
) -> Fitted:
    """Train until `patience` chunks in a row brought no smaller validation loss."""
    if not len(val):
        return Fitted(start, math.nan, 0, "no_validation_rows")
    best, loss, waited = start, _mean(model, start, val), 0
    now = start
    for chunk in range(chunks):
        now = fit(model, now, train, key / chunk).params
        found = _mean(model, now, val)
        if not math.isfinite(found):
            return Fitted(best, loss, chunk, "nonfinite_density")
        best, loss, waited = (now, found, 0) if not found >= loss else (best, loss, waited + 1)
        if waited >= patience:
            return Fitted(best, loss, chunk + 1)
    return Fitted(best, loss, chunks)


def _mean(model: Model, params: Params, table: Table) -> float:
    return float(model.rows(params, table).double().mean())
