"""Do clients fall into a few groups? Average linkage, accepted by its silhouette (Rousseeuw, 1987).

A cut into 2 to 6 groups of at least two clients and 12 % of them each counts when the mean silhouette is at
least 0.6, when the groups lie `APART` in the units of the squared distances, and when no two clients of
different groups are near each other; otherwise there are no groups, which is the answer for clients that
differ by degrees.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SILHOUETTE = 0.6
APART = 0.08
TOUCH = 0.25
SMALLEST = 0.12
MOST = 6


def clusters(distances: Floats, filled: npt.NDArray[np.bool_], apart: float = APART) -> Ints:
    """Return a group from 1 per client, by squared distances; all zero where there are no groups."""
    out = np.zeros(len(distances), dtype=np.int64)
    inside = np.flatnonzero(filled)
    if len(inside) < 4:
        return out
    near = distances[np.ix_(inside, inside)]
    near = (near + near.T) / 2
    length = np.sqrt(near)
    tree = linkage(squareform(length, checks=False), method="average")
    best, score = None, SILHOUETTE
    for many in range(2, min(MOST, len(inside) // 2) + 1):
        labels = np.asarray(fcluster(tree, many, criterion="maxclust"), dtype=np.int64)
        _, sizes = np.unique(labels, return_counts=True)
        if (
            len(sizes) < 2
            or sizes.min() < max(2.0, SMALLEST * len(inside))
            or not _apart(near, labels, apart)
        ):
            continue
        value = silhouette(length, labels)
        if value > score + 1e-9:
            best, score = labels, value
    if best is not None:
        _, first, inverse = np.unique(best, return_index=True, return_inverse=True)
        out[inside] = np.argsort(np.argsort(first))[inverse] + 1
    return out


def silhouette(distances: Floats, labels: Ints) -> float:
    """Return the mean of (b - a) / max(a, b): a to the own group, b to the nearest other one."""
    member = labels[:, None] == np.unique(labels)[None, :]
    sizes = member.sum(axis=0)
    sums = distances @ member
    own = member.argmax(axis=1)
    at = np.arange(len(labels))
    inner = sums[at, own] / np.maximum(sizes[own] - 1, 1)
    outer = np.where(member, np.inf, sums / sizes).min(axis=1)
    largest = np.maximum(inner, outer)
    return float(np.mean(np.divide(outer - inner, largest, out=np.zeros_like(inner), where=largest > 0)))


def _apart(distances: Floats, labels: Ints, apart: float) -> bool:
    """Tell whether groups lie `apart` on average and nowhere touch, as clients that differ by degrees do."""
    between = distances[labels[:, None] != labels[None, :]]
    return bool(between.mean() >= apart and between.min() >= TOUCH * between.mean())
