"""Small data of known skew."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.data.dataset import Dataset


@pytest.fixture(scope="session")
def blobs() -> Dataset:
    """Return smooth images, a blob at a place that depends on the class."""
    rows, side = 2400, 12
    draw = np.random.default_rng(0)
    y = draw.integers(0, 4, rows)
    centre = np.array([[3, 3], [3, 8], [8, 3], [6, 9]])[y] + draw.normal(0, 0.7, (rows, 2))
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"))
    far = ((grid[None] - centre[:, :, None, None]) ** 2).sum(axis=1)
    return Dataset("blobs", np.exp(-far / 8).astype(np.float32)[:, None], y, 4)
