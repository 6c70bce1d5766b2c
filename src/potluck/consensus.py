"""How far the sites of a mesh are from agreement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from potluck.model import Model
from potluck.tree import Params


class Distances(NamedTuple):
    """The distance of each site's parameters to their mean, and the root of the mean of its square."""

    overall: float
    sites: Mapping[str, float]


def distances(model: Model, states: Mapping[str, Any]) -> Distances | None:
    """Measure sqrt(mean_k |w_k - mean w|^2) over trainable leaves; None for fewer than two models."""
    held: dict[str, Params] = {}
    for site, state in states.items():
        params = getattr(state, "params", None)
        if isinstance(params, Mapping):
            held[site] = dict(params)
    if len(held) < 2 or len(held) < len(states):
        return None
    squares = dict.fromkeys(held, 0.0)
    for name in model.learnable:
        leaves = [params[name] for params in held.values() if name in params]
        if len(leaves) == len(held):
            _add(squares, leaves)
    overall = math.sqrt(sum(squares.values()) / len(squares))
    return Distances(overall, {site: math.sqrt(square) for site, square in squares.items()})


def _add(squares: dict[str, float], leaves: list[torch.Tensor]) -> None:
    """Add one leaf's squared distances, with memory for a few copies of it only."""
    mean = leaves[0].double()
    for leaf in leaves[1:]:
        mean = mean + leaf
    mean /= len(leaves)
    for site, leaf in zip(squares, leaves, strict=True):
        squares[site] += float((leaf - mean).square().sum())
