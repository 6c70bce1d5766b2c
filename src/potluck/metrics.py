"""Counts that add up, and the figures of merit made from them.

Tallies of two halves of a table add to the tally of the whole. So the row-weighted mean over clients equals
the figure on the union of their rows exactly, and a large test table can be scored in parts by several
workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Tally:
    """Rows seen, sums over them (loss, ...), and the confusion counts (true class down, predicted class across)."""

    rows: int
    sums: Mapping[str, float] = field(default_factory=dict)
    confusion: Tensor | None = None

    def __add__(self, other: Tally) -> Tally:
        names = dict.fromkeys([*self.sums, *other.sums])
        sums = {name: self.sums.get(name, 0.0) + other.sums.get(name, 0.0) for name in names}
        if self.confusion is None or other.confusion is None:
            confusion = other.confusion if self.confusion is None else self.confusion
        else:
            confusion = self.confusion + other.confusion
        return Tally(self.rows + other.rows, sums, confusion)

    def tree(self) -> dict[str, object]:
        """Return the tally as a tree, to be sent or hashed."""
        return {"rows": self.rows, "sums": dict(self.sums), "confusion": self.confusion}

    def figures(self) -> dict[str, float]:
        """Return accuracy (micro, macro), precision, recall and F1 (macro, 0/0 = 0), and the means of all sums."""
        if self.rows == 0:
            return {}
        out = {} if self.confusion is None else classification(self.confusion)
        return out | {name: value / self.rows for name, value in self.sums.items()}


def total(tallies: Iterable[Tally]) -> Tally:
    """Add tallies in the order given."""
    out = Tally(0)
    for tally in tallies:
        out = out + tally
    return out


def classification(confusion: Tensor) -> dict[str, float]:
    """Compute accuracy and macro averages; macro means run over the classes that occur or are predicted."""
    counts = confusion.to(torch.float64).numpy()
    hits, true, said = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        recall = np.where(true > 0, hits / true, 0.0)
        precision = np.where(said > 0, hits / said, 0.0)
        f1 = np.where(true + said > 0, 2 * hits / (true + said), 0.0)
    present, seen = true > 0, (true > 0) | (said > 0)
    return {
        "accuracy": float(hits.sum() / counts.sum()),
        "accuracy_macro": float(recall[present].mean()),
        "precision_macro": float(precision[seen].mean()),
        "recall_macro": float(recall[seen].mean()),
        "f1_macro": float(f1[seen].mean()),
    }


def spread(figures: Mapping[int, float], rows: Mapping[int, int]) -> dict[str, float]:
    """Summarise one metric over clients: weighted by rows, mean, deviation, quartiles, worst and best."""
    if not figures:
        return {}
    values = np.array([figures[k] for k in sorted(figures)])
    weights = np.array([rows[k] for k in sorted(figures)], dtype=np.float64)
    q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75])
    return {
        "weighted": float((values * weights).sum() / weights.sum()),
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        "q1": float(q1),
        "median": float(median),
        "q3": float(q3),
        "max": float(values.max()),
    }


def rounds_to(target: float, rounds: Iterable[tuple[int, float]]) -> int | None:
    """Return the first evaluated round whose metric reaches the target, else None (spec 2.8)."""
    return next((number for number, value in sorted(rounds) if value >= target), None)
