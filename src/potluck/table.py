"""Rows of data as two tensors: what a client trains on, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Inputs `x` (float32, rows first) and targets `y` (int64 classes, or float32 for regression)."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"a table needs one target per row: {len(self.x)} rows, {len(self.y)} targets")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Tensor | slice) -> Table:
        """Return the named rows, in that order."""
        return Table(self.x[rows], self.y[rows])

    def counts(self, classes: int) -> Tensor:
        """Count the rows of every class (int64)."""
        return torch.bincount(self.y, minlength=classes)
