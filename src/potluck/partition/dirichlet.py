"""Label skew: each class is dealt in shares drawn from a Dirichlet distribution (spec SC-2, SC-6).

The class-wise construction of NIID-Bench (Li, Diao, Chen, He, ICDE 2022), after Hsu, Qi and Brown (2019).
With `clamp`, a client that already holds n/K rows gets nothing of the classes still to come, as in
NIID-Bench, FedDisco, FedLab and Fedstellar; without it sizes vary more, as in the Delft code of FedDisco
with a beta-VAE. Deviations: the draw is repeated a bounded number of times for `min_size` and then
repaired; cuts are rounded, not truncated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from potluck.data.dataset import Rows
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.owner import (
    Clients,
    Concentration,
    Floats,
    MinSize,
    Owners,
    by_value,
    check_clients,
    deal,
    hand_out,
    nobody,
    one_of,
    repair,
)

TRIES = 20


@dataclass(frozen=True, kw_only=True)
class Dirichlet:
    """Deal every class in shares ~ Dir(beta, ..., beta): a small beta means strong label skew.

    `alpha` is another name for `beta`; without either it is 0.5. `clamp` stops dealing to clients that hold
    their n/K rows. Draws that leave a client under `min_size` are repeated up to `tries` times; then rows
    move over from the largest client.
    """

    clients: Clients = 10
    beta: Concentration | None = None
    alpha: Concentration | None = None
    clamp: bool = True
    min_size: MinSize = 10
    tries: Clients = TRIES

    def __post_init__(self) -> None:
        one_of(self.beta, self.alpha)

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Draw the table of counts, then deal each class's shuffled rows by it."""
        check_clients(self.clients, len(labels), self.min_size)
        beta, totals = one_of(self.beta, self.alpha), np.bincount(labels.y, minlength=labels.classes)
        counts = until(
            lambda draw: class_counts(totals, self.clients, beta, self.clamp, draw),
            self.min_size,
            key,
            self.tries,
        )
        owner = nobody(len(labels))
        deal_classes(owner, None, labels.y, counts, key)
        repair(owner, self.clients, max(self.min_size, 1), (key / "repair").numpy())
        return deal(owner, self.clients)


def class_counts(totals: Rows, clients: int, beta: float, clamp: bool, draw: np.random.Generator) -> Rows:
    """Return rows by client (down) and class (across): n_c cut at the cumulative shares of Dir(beta 1_K)."""
    counts = np.zeros((clients, len(totals)), dtype=np.int64)
    held = np.zeros(clients, dtype=np.int64)
    full = totals.sum() / clients
    for label in np.flatnonzero(totals):
        shares = draw.dirichlet(np.full(clients, beta))
        if clamp:
            shares = np.where(held < full, shares, 0.0)
        counts[:, label] = cut(_proper(shares, held < full if clamp else None), int(totals[label]))
        held += counts[:, label]
    return counts


def cut(shares: Floats, total: int) -> Rows:
    """Cut `total` rows at the rounded cumulative shares: all are dealt, and a share of zero gets none."""
    ends = np.rint(np.cumsum(shares) * total).astype(np.int64)
    ends[int(np.flatnonzero(shares)[-1]) :] = total
    return np.diff(np.minimum(ends, total), prepend=0)


def until(draw_counts: Callable[[np.random.Generator], Rows], min_size: int, key: Key, tries: int) -> Rows:
    """Repeat a draw of counts until every client holds `min_size` rows, at most `tries` times."""
    for attempt in range(tries):
        counts = draw_counts((key / "counts" / attempt).numpy())
        if counts.reshape(len(counts), -1).sum(axis=1).min() >= min_size:
            break
    return counts


def deal_classes(owner: Owners, rows: Rows | None, y: Rows, counts: Rows, key: Key, first: int = 0) -> None:
    """Give `counts[k, c]` random rows of class c to client `first + k`; `y` labels `rows` (None: all)."""
    order = by_value(y, counts.shape[1])
    draw = (key / "rows").numpy()
    start = 0
    for label, total in enumerate(counts.sum(axis=0).tolist()):
        block = order[start : start + total]
        draw.shuffle(block)
        hand_out(owner, block if rows is None else rows[block], counts[:, label], first)
        start += total


def _proper(shares: Floats, free: npt.NDArray[np.bool_] | None) -> Floats:
    """Normalise shares; where nothing is left of them (tiny beta, everybody drawn is full) use even ones."""
    total = float(shares.sum())
    if np.isfinite(total) and total > 0:
        return shares / total
    even_shares = np.ones(len(shares)) if free is None else free.astype(np.float64)
    out: Floats = even_shares / even_shares.sum()
    return out
