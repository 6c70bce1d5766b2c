"""How alike clients are: cosines between their updates, computed in blocks so that no vector is held twice.

FedEx (Miles et al., University of Michigan, 2024) clusters clients by the cosine similarity of what they learnt in
one round from the same start, as clustered federated learning does (Sattler, Mueller and Samek, 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from potluck.errors import BadInputError
from potluck.tree import Params

Floats = npt.NDArray[np.float64]
AffinityMap = Literal["relu", "shift", "raw"]
BLOCK = 1 << 15


def gram(states: Sequence[Params], start: Params | None, names: Sequence[str]) -> Floats:
    """Return all inner products of the vectors states[k] - start (without start: states[k]) over the named leaves.

    Blocks of columns are lifted to float64, so that the memory needed beside the states is clients x block.
    """
    out = torch.zeros(len(states), len(states), dtype=torch.float64)
    for name in names:
        flat = [state[name].reshape(-1) for state in states]
        origin = None if start is None else start[name].reshape(-1).double()
        for part in _blocks(int(flat[0].numel()) if flat else 0):
            block = torch.stack([leaf[part] for leaf in flat]).double()
            if origin is not None:
                block -= origin[part]
            out += block @ block.T
    return np.asarray(out.numpy())


def _blocks(size: int) -> Iterator[slice]:
    return (slice(begin, begin + BLOCK) for begin in range(0, size, BLOCK))


def cosines(products: Floats) -> Floats:
    """Return the cosines that belong to inner products; every vector must have a length."""
    length = np.sqrt(np.diag(products))
    found = np.clip(products / np.outer(length, length), -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray((found + found.T) / 2)


def affinity(cosine: Floats, how: AffinityMap) -> Floats:
    """Turn cosines into affinities: max(s, 0), (1 + s) / 2, or s itself."""
    if how == "raw" and cosine.min(initial=0.0) < 0:
        raise BadInputError(
            'algorithm.affinity_map: "raw" leaves negative similarities, which spectral clustering cannot use; '
            'take "relu" or "shift"'
        )
    return (1.0 + cosine) / 2.0 if how == "shift" else np.maximum(cosine, 0.0)


def nearest(update: Params, centres: Sequence[Params]) -> int | None:
    """Return the centre with the highest cosine to an update, the first of equals; None for an update of zero."""
    if not _dot(update, update):
        return None
    best, closest = 0, -np.inf
    for place, centre in enumerate(centres):
        length = _dot(centre, centre) ** 0.5
        cosine = _dot(update, centre) / length if length else 0.0
        if cosine > closest:
            best, closest = place, cosine
    return best


def _dot(one: Params, other: Params) -> float:
    def product(left: Tensor, right: Tensor) -> float:
        return float(left.reshape(-1).double() @ right.reshape(-1).double())

    return sum(product(leaf, other[name]) for name, leaf in one.items())
