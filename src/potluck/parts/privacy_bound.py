"""How much the pooled density can tell about one client: the bound of FedDisk's section VIII.

Nguyen, Wu and Chang, "Federated learning for distribution skewed data using sample weights", IEEE TAI
2024:
    I(Z_k; Z_Theta) <= kappa_k H(Z_k)    (eq. 20),
where Z_k is one draw of client k, Theta picks a client with probability kappa_k and Z_Theta is that
client's draw. The paper leaves kappa undefined; here kappa_k = c_k = N_k / N. The bound holds for
discrete Z (rows on a finite grid, such as bytes or classes); for continuous Z the entropy H(Z_k) is
infinite and the bound says nothing. It speaks of one draw from the pooled distribution, not of a model
trained on many rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from potluck.errors import BadInputError

Floats = npt.NDArray[np.float64]


def shares(sizes: Sequence[int]) -> Floats:
    """Return kappa_k = N_k / N."""
    rows = np.asarray(sizes, dtype=np.float64)
    if rows.size == 0 or not (rows >= 0).all() or rows.sum() == 0:
        raise BadInputError(f"client sizes must be non-negative and not all zero, got {list(sizes)}")
    return np.asarray(rows / rows.sum(), dtype=np.float64)


def entropy(counts: npt.ArrayLike) -> float:
    """Return the plug-in entropy, in nats, of counts of distinct rows: H = -sum p ln p."""
    rows = np.asarray(counts, dtype=np.float64).reshape(-1)
    if not (rows >= 0).all() or not rows.sum() > 0:
        raise BadInputError("an entropy needs non-negative counts with a positive sum")
    p = rows[rows > 0] / rows.sum()
    return float(max(0.0, -(p @ np.log(p))))


def row_entropy(rows: npt.NDArray[np.generic]) -> float:
    """Return the plug-in entropy, in nats, of rows of whole numbers; infinite for floating-point rows."""
    if rows.dtype.kind == "f":
        return float("inf")
    flat = np.ascontiguousarray(rows.reshape(len(rows), -1))
    return entropy(np.unique(flat, axis=0, return_counts=True)[1])


def leakage_bound(sizes: Sequence[int], entropies: Sequence[float]) -> Floats:
    """Return kappa_k H(Z_k) for each client; a client without rows leaks nothing."""
    if len(sizes) != len(entropies):
        raise BadInputError(
            f"one entropy per client is needed: {len(sizes)} clients, {len(entropies)} entropies"
        )
    kappa = shares(sizes)
    held = np.where(kappa > 0, np.asarray(entropies, dtype=np.float64), 0.0)
    return np.asarray(kappa * held, dtype=np.float64)
