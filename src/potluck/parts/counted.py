"""Labels as distinct values and how often each occurs: what the label statistics are computed on.

Counting is the only pass over the rows; what follows costs the same for a thousand rows and for ten
million. Whole numbers are counted with `bincount`. Real targets (regression) are sorted once; more than
`cells` distinct values are gathered in that many equal cells, each standing at the mean of its values:
the mean of the labels is kept, and their variance to within a quarter of a squared cell width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from potluck.errors import BadInputError

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

CELLS = 512
_SPREAD = 1 << 20


class Counted(NamedTuple):
    """Distinct labels in ascending order and the number of rows of each."""

    values: Floats
    counts: Counts

    @property
    def rows(self) -> int:
        """Return the number of rows that were counted."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Return the mean label."""
        return float(self.counts @ self.values / self.rows)

    @property
    def variance(self) -> float:
        """Return the variance of the labels (divisor N)."""
        return float(self.counts @ (self.values - self.mean) ** 2 / self.rows)


def counted(labels: npt.ArrayLike, cells: int = CELLS) -> Counted:
    """Count the distinct labels; beyond `cells` of them, gather them in equal cells."""
    array = np.asarray(labels).reshape(-1)
    if array.size == 0:
        return Counted(np.zeros(0), np.zeros(0, dtype=np.int64))
    if array.dtype.kind in ("b", "u", "i"):
        return _gathered(_whole(array), cells)
    if array.dtype.kind != "f":
        raise BadInputError(
            f"labels must be numbers, not {array.dtype}; map class names to 0, 1, 2, ... first"
        )
    wrong = np.flatnonzero(~np.isfinite(array))
    if len(wrong):
        raise BadInputError(f"the label of row {int(wrong[0])} is NaN or infinite; clean or drop that row")
    values, counts = np.unique(array.astype(np.float64), return_counts=True)
    return _gathered(Counted(values, counts.astype(np.int64)), cells)


def histogram(labels: npt.ArrayLike, classes: int) -> Floats:
    """Count the rows of each class 0..classes-1 (as floats): the message of the plain-counts variant."""
    out = np.zeros(classes)
    found = counted(labels, cells=max(classes, CELLS))
    if len(found.values) == 0:
        return out
    places = found.values.astype(np.int64)
    if (places != found.values).any() or places[0] < 0 or places[-1] >= classes:
        raise BadInputError(f"labels must be classes 0 to {classes - 1} to be counted into a histogram")
    out[places] = found.counts
    return out


def _whole(array: npt.NDArray[np.generic]) -> Counted:
    low, high = int(array.min()), int(array.max())
    if high - low >= _SPREAD:
        values, counts = np.unique(array, return_counts=True)
        return Counted(values.astype(np.float64), counts.astype(np.int64))
    counts = np.zeros(high - low + 1, dtype=np.int64)
    for begin in range(0, len(array), _SPREAD):  # in parts, so that narrow labels are not widened all at once
        part = array[begin : begin + _SPREAD].astype(np.int64, copy=False)
        counts += np.bincount(part - low if low else part, minlength=len(counts))
    places = np.flatnonzero(counts)
    return Counted((places + low).astype(np.float64), counts[places])


def _gathered(found: Counted, cells: int) -> Counted:
    if len(found.values) <= cells:
        return found
    low, high = found.values[0], found.values[-1]
    place = np.minimum(((found.values - low) * (cells / (high - low))).astype(np.int64), cells - 1)
    counts = np.bincount(place, weights=found.counts, minlength=cells)
    sums = np.bincount(place, weights=found.counts * found.values, minlength=cells)
    kept = counts > 0
    return Counted(sums[kept] / counts[kept], counts[kept].astype(np.int64))
