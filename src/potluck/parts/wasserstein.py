"""The exact 1-Wasserstein distance between a sample and the standard normal, column by column.

Used by FedDisco with a beta-VAE (TU Delft poster) as the discrepancy of a client's latent codes; the
authors draw a million normals instead. With sorted x_i, cell [a, b] = [(i-1)/n, i/n], c = Phi(x_i)
clipped to the cell,
    W1 = sum_i x_i (c - a) - [phi(z_a) - phi(z_c)] + [phi(z_c) - phi(z_b)] - x_i (b - c),   z_u = Phi^-1(u),
since Phi^-1 integrates to -phi(Phi^-1). The sort is the dearest step.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Floats = npt.NDArray[np.float64]

_FLAT = 40.0  # phi(40) is 0 in float64; beyond it the square could overflow


def w1_to_normal(sample: npt.ArrayLike) -> Floats:
    """Return W1(column, N(0, 1)) of each column (1-D: one column); inf for NaN or without rows."""
    columns = np.asarray(sample, dtype=np.float64)
    columns = np.ascontiguousarray((columns[:, None] if columns.ndim == 1 else columns).T)
    width, rows = columns.shape
    out = np.full(width, np.inf)
    if rows == 0:
        return out
    edges = np.arange(rows + 1) / rows
    heights = _phi(ndtri(edges))
    for j in range(width):  # one column at a time stays in the cache
        x = np.sort(columns[j])
        if np.isfinite(x[0]) and np.isfinite(x[-1]):
            out[j] = _column(x, edges, heights)
    return out


def discrepancy(latents: npt.ArrayLike) -> float:
    """Return d_k, the mean over latent dimensions of the distance to N(0, 1); inf for a code not finite."""
    distances = w1_to_normal(latents)
    return float(distances.mean()) if len(distances) else math.inf


def _column(x: Floats, edges: Floats, heights: Floats) -> float:
    below, above = edges[:-1], edges[1:]
    level = ndtr(x)
    cut = np.clip(level, below, above)
    height = np.where(level < below, heights[:-1], np.where(level > above, heights[1:], _phi(x)))
    left = x * (cut - below) - (heights[:-1] - height)
    right = (height - heights[1:]) - x * (above - cut)
    return float(np.maximum(left, 0).sum() + np.maximum(right, 0).sum())


def _phi(x: Floats) -> Floats:
    near = np.clip(x, -_FLAT, _FLAT)
    return np.asarray(np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi), dtype=np.float64)
