"""The points at which label distributions are compared: classes, the labels somebody has seen, or a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from potluck.errors import BadInputError
from potluck.parts.counted import Floats, counted
from potluck.parts.mixture import Mixture


class Support(NamedTuple):
    """Points and the width of the cell around each (1 for classes)."""

    points: Floats
    width: float = 1.0


def every_class(classes: int) -> Support:
    """Return the label space 0..classes-1 (`support = "global"`)."""
    if classes < 1:
        raise BadInputError(f"a label space needs at least one class, got {classes}")
    return Support(np.arange(classes, dtype=np.float64))


def seen_labels(labels: npt.ArrayLike) -> Support:
    """Return the distinct labels of whoever pools (`support = "local_labels"`, as in the listing)."""
    points = counted(labels).values
    if len(points) == 0:
        raise BadInputError('support = "local_labels" needs labels where the pooling happens; use "global"')
    return Support(points)


def quadrature(mixtures: Sequence[Mixture], cells: int = 512, reach: float = 5.0) -> Support:
    """Return the midpoints of equal cells that cover every component out to `reach` standard deviations."""
    full = [mixture for mixture in mixtures if len(mixture.pi)]
    if not full:
        raise BadInputError("a grid of real labels needs at least one mixture with components")
    low = min(float((m.mu - reach * np.sqrt(m.s2)).min()) for m in full)
    high = max(float((m.mu + reach * np.sqrt(m.s2)).max()) for m in full)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise BadInputError("a grid of real labels needs finite mixtures; set bad messages aside first")
    width = (high - low) / cells
    return Support(np.asarray(low + width * (np.arange(cells) + 0.5), dtype=np.float64), width)
