"""Real targets in tenths: what stands in for classes where clients' targets are compared or dealt unevenly."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

PARTS = 10

Rows = npt.NDArray[np.int64]


def tenths(y: npt.NDArray[Any]) -> tuple[Rows, tuple[str, ...]]:
    """Return the tenth of all rows in which each target lies, from the smallest, and the tenths' names.

    Equal targets share a tenth, so that there may be fewer; of several targets a row the first one counts.
    """
    if not len(y):
        return np.empty(0, dtype=np.int64), ("all",)
    values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)[:, 0]
    edges = np.unique(np.quantile(values, np.arange(1, PARTS) / PARTS))
    edges = edges[edges > values.min()]
    bounds = [f"{edge:.4g}" for edge in edges]
    inner = [f"{low} to {high}" for low, high in pairwise(bounds)]
    names = (f"below {bounds[0]}", *inner, f"from {bounds[-1]}") if bounds else ("all",)
    return np.searchsorted(edges, values, side="right").astype(np.int64), names
