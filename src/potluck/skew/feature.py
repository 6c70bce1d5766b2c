"""How much clients' inputs differ, from a sample of their rows.

`noise`: the standard deviation of white noise per client, comparable across clients. Images: the residual
of a mask that cancels planes, sigma = median |residual| / (0.6745 * 6) (after Immerkaer, CVIU 1996; the
median makes it robust against edges). Other inputs: the root of the mean within-class variance of the
columns. `jitter` is how far such an estimate is off by chance: its standard error, taken from how much the
rows of a client differ, as the root mean square over clients.

`shift`: how far a client's class means lie from everybody's, class by class so that label skew does not
count: sum_c n_kc/n_k |m_kc - m_c|^2 / v, with v the variance within classes and clients, less what chance
alone would give. 0 is no shift (by chance also a little below); 1 is a shift as large as the spread within
a class.

`groups`: clusters of clients whose class means are alike within and differ between (sources, populations),
found by average linkage on the same distances and accepted by their silhouette; all zero where there are
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import shortest_path
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from potluck.data.tenths import tenths
from potluck.federation import Federation, Holder
from potluck.skew.cluster import clusters
from potluck.table import Table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Means = npt.NDArray[np.float32]

ROWS = 512
MEDIAN = 1.2533
"""Standard error of a median over that of a mean, sqrt(pi / 2) for normal values."""
GRID = 7
COLUMNS = 256
CLIENTS = 200


@dataclass(frozen=True, eq=False)
class Features:
    """What the inputs say: an entry a client, NaN if it has too few rows; `spread` is the inputs' own deviation.

    `chance` is the mean size of what was taken off the shifts because chance alone gives it; `jitter` is the
    standard error of the noise (infinite if no client has rows enough to tell).
    """

    noise: Floats
    shift: Floats
    groups: Ints
    spread: float
    chance: float
    jitter: float


class Level(NamedTuple):
    """One client's noise and the standard error of that estimate."""

    value: float
    error: float


class Cells(NamedTuple):
    """Of one client: counts and means by class, squares around the means by column, and their mean by row."""

    counts: Ints
    means: Means
    squares: Floats
    rows: Floats


def features(federation: Federation) -> Features | None:
    """Measure the inputs of up to 512 rows of every client; None where nobody has rows."""
    tables = [sample(holder) for holder in federation.holders]
    filled = [table for table in tables if len(table)]
    if not filled:
        return None
    image = federation.shape if len(federation.shape) in (2, 3) and min(federation.shape[-2:]) >= 3 else None
    labels, classes = _labels(tables, federation.classes)
    cells = [_cells(table, image, y, classes) for table, y in zip(tables, labels, strict=True)]
    levels = [
        _deviation(cell) if image is None else _grain(table, image)
        for table, cell in zip(tables, cells, strict=True)
    ]
    counts, means = np.stack([cell.counts for cell in cells]), np.stack([cell.means for cell in cells])
    within = np.stack([cell.squares for cell in cells]).sum(axis=0)
    within /= max(1, int((counts - (counts > 0)).sum()))
    del cells
    spread = float(np.mean([_spread(table, image is None) for table in filled]))
    scale = float(within.sum()) or 1.0
    shift, chance = _shift(counts, means, scale)
    groups = np.zeros(len(tables), dtype=np.int64)
    if 2 < len(tables) <= CLIENTS:
        groups = clusters(_distances(counts, means, scale), counts.sum(axis=1) > 0)
    noise = np.array([level.value for level in levels])
    return Features(noise, shift, groups, spread, chance, _jitter([level.error for level in levels]))


def sample(holder: Holder, rows: int = ROWS) -> Table:
    """Return up to `rows` rows of a holder: training rows first, others where it has none."""
    part = next((part for part in (holder.train, holder.test, holder.val) if len(part)), holder.train)
    return part.take(slice(0, rows))


def _spread(table: Table, columns: bool) -> float:
    """Return the deviation of one client's inputs: of all pixels together, or within each column."""
    return float(
        table.x.reshape(len(table), -1).var(dim=0, unbiased=False).mean().sqrt()
        if columns
        else table.x.std(unbiased=False)
    )


def _grain(table: Table, image: tuple[int, ...]) -> Level:
    """Estimate the white noise of one client's images from the residuals of the mask."""
    if not len(table):
        return Level(np.nan, np.nan)
    x = table.x.reshape(-1, *image[-2:])
    up = x[:, :-2] - 2 * x[:, 1:-1] + x[:, 2:]
    residual = (up[:, :, :-2] - 2 * up[:, :, 1:-1] + up[:, :, 2:]).abs().reshape(len(table), -1) / (
        0.6745 * 6
    )
    medians = np.asarray(residual.median(dim=1).values.numpy(), dtype=np.float64)
    error = MEDIAN * medians.std(ddof=1) / np.sqrt(len(medians)) if len(medians) > 1 else np.nan
    return Level(float(residual.median()), float(error))


def _deviation(cell: Cells) -> Level:
    """Return the root of the mean within-class variance; rows that make up their class's mean say nothing."""
    free = int((cell.counts - (cell.counts > 0)).sum())
    if free < 1:
        return Level(np.nan, np.nan)
    value = float(np.sqrt(cell.rows.sum() / free))
    error = float(cell.rows.std(ddof=1)) * np.sqrt(len(cell.rows)) / free
    return Level(value, error / (2 * value) if value else 0.0)


def _jitter(errors: list[float]) -> float:
    """Return the root mean square of the standard errors that are known."""
    known = [error for error in errors if np.isfinite(error)]
    return float(np.sqrt(np.mean(np.square(known)))) if known else float("inf")


def _labels(tables: Sequence[Table], classes: int | None) -> tuple[list[Ints], int]:
    """Return the labels of each client and how many there are; the tenths of real targets stand in for them."""
    if classes is not None:
        return [table.y.numpy() for table in tables], classes
    parts, names = tenths(np.concatenate([table.y.numpy() for table in tables]))
    return np.split(parts, np.cumsum([len(table) for table in tables])[:-1]), len(names)


def _cells(table: Table, image: tuple[int, ...] | None, y: Ints, classes: int) -> Cells:
    """Summarise the coarse inputs of one client class by class."""
    z = _coarse(table.x, image)
    counts = np.bincount(y, minlength=classes).astype(np.int64)
    means = np.zeros((classes, z.shape[1]))
    np.add.at(means, y, z)
    means /= np.maximum(counts, 1)[:, None]
    squares = (z - means[y]) ** 2
    return Cells(counts, means.astype(np.float32), squares.sum(axis=0), squares.mean(axis=1))


def _coarse(x: Tensor, image: tuple[int, ...] | None) -> Floats:
    """Shrink images to a grid of 7 x 7 averages; take at most 256 columns of other inputs."""
    if image is None:
        flat = x.reshape(len(x), -1)
        step = -(-flat.shape[1] // COLUMNS)
        return np.asarray(flat[:, ::step].numpy(), dtype=np.float64)
    if not len(x):
        return np.empty((0, GRID * GRID))
    planes = x.reshape(len(x), -1, *image[-2:]).mean(dim=1, keepdim=True)
    return np.asarray(adaptive_avg_pool2d(planes, GRID).reshape(len(x), -1).numpy(), dtype=np.float64)


def _shift(counts: Ints, means: Means, scale: float) -> tuple[Floats, float]:
    """Return sum_c n_kc/n_k (|m_kc - m_c|^2 - chance) / v for every client, and the mean chance."""
    totals = counts.sum(axis=0)
    square = np.zeros(counts.shape)
    for label in np.flatnonzero(totals):  # class by class, which keeps the memory flat
        pooled = counts[:, label] @ means[:, label] / totals[label]
        square[:, label] = ((means[:, label] - pooled) ** 2).sum(axis=1) / scale
    chance = 1 / np.maximum(counts, 1) - 1 / np.maximum(totals, 1)
    rows = counts.sum(axis=1)
    out = (counts * (square - chance)).sum(axis=1) / np.maximum(rows, 1)
    taken = (counts * chance).sum(axis=1)[rows > 0] / rows[rows > 0]
    return np.where(rows > 0, out, np.nan), float(taken.mean())


def _distances(counts: Ints, means: Means, scale: float) -> Floats:
    """Return the mean squared distance of every two clients over shared classes, in units of v."""
    total, weight = np.zeros((len(counts), len(counts))), np.zeros((len(counts), len(counts)))
    for label in np.flatnonzero(counts.sum(axis=0)):
        n, m = counts[:, label], means[:, label].astype(np.float64)
        norm = (m**2).sum(axis=1)
        square = (norm[:, None] + norm[None, :] - 2 * m @ m.T) / scale
        chance = 1 / np.maximum(n, 1)
        both = np.minimum(n[:, None], n[None, :])
        total += both * (square - chance[:, None] - chance[None, :])
        weight += both
    shared = weight > 0
    far = np.maximum(np.divide(total, weight, out=np.zeros_like(total), where=shared), 0.0)
    if not shared.all():
        far = np.where(shared, far, _detours(far, shared))
    np.fill_diagonal(far, 0.0)
    return far


def _detours(far: Floats, shared: npt.NDArray[np.bool_]) -> Floats:
    """Return squared distances by the shortest way over clients that share classes; no way is the longest one."""
    lengths = np.where(shared, np.sqrt(far) + 1e-6, np.inf)
    ways = np.asarray(shortest_path(lengths, directed=False), dtype=np.float64)
    known = np.isfinite(ways)
    return np.where(known, ways, ways[known].max(initial=0.0)) ** 2
