"""How pixels in [0, 1] are shifted and scaled, channel by channel, before a model sees them.

"unit" leaves them as they are; "standard" takes off the mean of the training pool and divides by its standard
deviation; "half" takes off 0.5 and divides by 0.5.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Normalise = Literal["unit", "standard", "half"]
BLOCK = 4096


class Scale(NamedTuple):
    """Mean and standard deviation of every channel; empty means untouched."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def scale(how: Normalise, x: npt.NDArray[Any], known: Scale | None = None) -> Scale:
    """Return the scale of a pool of rows (N, C, ...); `known` are published figures for "standard"."""
    if how == "unit":
        return Scale()
    channels = x.shape[1] if x.ndim > 1 else 1
    if how == "half":
        return Scale((0.5,) * channels, (0.5,) * channels)
    return known or measured(x)


def measured(x: npt.NDArray[Any]) -> Scale:
    """Measure mean and standard deviation of every channel over all rows, in float64 and in blocks."""
    if len(x) == 0:
        return Scale()
    channels = x.shape[1] if x.ndim > 1 else 1
    mean = _block_means(x, channels, np.zeros(channels), 1)
    spread = np.sqrt(_block_means(x, channels, mean, 2))
    spread[spread == 0] = 1.0  # a constant channel is only shifted
    return Scale(tuple(mean.tolist()), tuple(spread.tolist()))


def _block_means(
    x: npt.NDArray[Any], channels: int, centre: npt.NDArray[np.float64], power: int
) -> npt.NDArray[np.float64]:
    """Return the mean over rows and pixels of (x - centre) ** power for every channel."""
    top = 255.0 if x.dtype == np.uint8 else 1.0
    pixels = int(np.prod(x.shape[2:], dtype=np.int64))
    total = np.zeros(channels)
    for start in range(0, len(x), BLOCK):
        block = np.asarray(x[start : start + BLOCK], dtype=np.float64).reshape(-1, channels, pixels) / top
        total += ((block - centre[:, None]) ** power).sum(axis=(0, 2))
    return np.asarray(total / (len(x) * pixels))
