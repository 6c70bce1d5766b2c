"""How much clients differ: label, quantity and feature skew in numbers (spec section 10).

With q_k the class shares of client k and P those of all rows together: KL(q_k || P) and the Jensen-Shannon
divergence in nats; the earth mover's distance between class histograms (classes have no order, so that
moving a row to any other class costs 1, and the distance is half of Zhao et al.'s, 2018, L1 distance); the
coefficient of variation of sizes. Two clients with the same classes drawn at random still differ: `floor`
is the KL to expect by chance, (C - 1) / 2 n_k. Real targets are compared by the tenths of all targets in
which they lie.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from potluck.data.tenths import tenths
from potluck.errors import BadInputError
from potluck.federation import Federation
from potluck.skew.feature import Features, features

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ints = Counts


@dataclass(frozen=True, eq=False)
class Skew:
    """What was measured; arrays have one entry a client, NaN for an empty one.

    `real` says that the targets are numbers, and that their tenths stand in for classes.
    """

    counts: Counts
    rows: Counts
    classes_held: Counts
    kl: Floats
    js: Floats
    emd: Floats
    floor: Floats
    size_cv: float
    max_over_mean: float
    overlap: float
    features: Features | None = None
    name: str = "data"
    class_names: tuple[str, ...] = field(default=())
    real: bool = False

    @property
    def unit(self) -> str:
        """Return what the columns of the counts are."""
        return "tenths of the targets" if self.real else "classes"

    @property
    def clients(self) -> int:
        """Return the number of clients."""
        return len(self.rows)

    @property
    def classes(self) -> int:
        """Return the number of classes, seen or not."""
        return int(self.counts.shape[1])

    @property
    def mean_kl(self) -> float:
        """Return the mean of KL(q_k || P) over clients that have rows, in nats."""
        return _mean(self.kl)

    @property
    def mean_js(self) -> float:
        """Return the mean Jensen-Shannon divergence, in nats (at most ln 2)."""
        return _mean(self.js)

    @property
    def mean_emd(self) -> float:
        """Return the mean earth mover's distance (0 to 1)."""
        return _mean(self.emd)

    @property
    def mean_floor(self) -> float:
        """Return the mean KL to expect of an IID split into these sizes."""
        return _mean(self.floor)


def describe(federation: Federation) -> Skew:
    """Measure a federation: labels of all its rows, and inputs of a sample of them."""
    counts, names, real = federation.histogram(), federation.class_names, federation.classes is None
    if real:
        counts, names = _by_tenths(federation)
    skew = from_histogram(counts, federation.name, names, features(federation))
    return replace(skew, real=real)


def _by_tenths(federation: Federation) -> tuple[Counts, tuple[str, ...]]:
    """Count real targets by client and tenth."""
    holders = federation.holders
    own = [np.concatenate([part.y.numpy() for part in (one.train, one.val, one.test)]) for one in holders]
    parts, names = tenths(np.concatenate(own))
    each = np.split(parts, np.cumsum([len(targets) for targets in own])[:-1])
    return np.stack([np.bincount(mine, minlength=len(names)) for mine in each]).astype(np.int64), names


def from_histogram(
    counts: npt.ArrayLike,
    name: str = "labels",
    class_names: tuple[str, ...] = (),
    features: Features | None = None,
) -> Skew:
    """Measure label and quantity skew from a table of counts, clients down and classes across."""
    table = _checked(counts)
    rows = table.sum(axis=1)
    present = int((table.sum(axis=0) > 0).sum())
    filled = rows > 0
    shares = np.full(table.shape, np.nan)
    shares[filled] = table[filled] / rows[filled, None]
    pooled = table.sum(axis=0) / table.sum()
    middle = (shares + pooled) / 2
    with np.errstate(divide="ignore"):
        floor = np.where(filled, (present - 1) / (2 * np.maximum(rows, 1)), np.nan)
    return Skew(
        counts=table,
        rows=rows,
        classes_held=(table > 0).sum(axis=1),
        kl=_kl(shares, pooled),
        js=(_kl(shares, middle) + _kl(np.broadcast_to(pooled, shares.shape), middle)) / 2,
        emd=np.abs(shares - pooled).sum(axis=1) / 2,
        floor=floor,
        size_cv=float(rows.std() / rows.mean()),
        max_over_mean=float(rows.max() / rows.mean()),
        overlap=_overlap(shares[filled]),
        features=features,
        name=name,
        class_names=class_names,
    )


def _checked(counts: npt.ArrayLike) -> Counts:
    """Refuse what is no table of counts."""
    table = np.asarray(counts)
    if table.ndim != 2 or not table.size:
        raise BadInputError("histogram: give a table of counts, one line a client and one column a class")
    if not (np.issubdtype(table.dtype, np.number) and np.isfinite(table).all()):
        raise BadInputError("histogram: every count must be a number")
    wrong = np.argwhere((table < 0) | (table != np.floor(table)))
    if len(wrong):
        client, label = wrong[0]
        raise BadInputError(
            f"histogram: client {client} has {table[client, label]} rows of class {label}; "
            "counts are whole numbers from 0"
        )
    if not table.sum():
        raise BadInputError("histogram: no client has any rows")
    return table.astype(np.int64)


def _kl(p: Floats, q: Floats) -> Floats:
    """Return sum_c p_c ln(p_c / q_c) of each line, with 0 ln 0 = 0."""
    ratio = np.divide(p, q, out=np.ones_like(p), where=(p > 0) & (q > 0))
    total = np.sum(p * np.log(ratio), axis=1)
    return np.where(
        np.isnan(p).any(axis=1) | np.isnan(np.broadcast_to(q, p.shape)).any(axis=1), np.nan, total
    )


def _overlap(shares: Floats) -> float:
    """Return the mean over pairs of clients of sum_c min(q_kc, q_jc), exactly, by sorting each class."""
    clients = len(shares)
    if clients < 2:
        return 1.0
    weights = np.arange(
        clients - 1, -1, -1
    )  # the i-th smallest is the minimum of its pairs with all larger ones
    return float((np.sort(shares, axis=0) * weights[:, None]).sum() / (clients * (clients - 1) / 2))


def _mean(values: Floats) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
