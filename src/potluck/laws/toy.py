"""The federation on which the laws are tried: small, awkward, and easy to learn.

Seven unequal clients, one of them empty and one with a single class; tiny images of three classes; a
network with batch norm and dropout.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import nn

from potluck.core import Algorithm
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.model import Model
from potluck.models.network import Network
from potluck.table import Table
from potluck.world import World

SIZES = (40, 23, 0, 12, 31, 9, 17)
SINGLE_CLASS = 3
CLASSES = 3
SHAPE = (1, 8, 8)


def rows(count: int, key: Key, *, only: int | None = None) -> Table:
    """Draw rows: each class lights up its own third of the image, over noise; all values lie in [0, 1]."""
    draw = key.numpy()
    y = draw.integers(CLASSES, size=count) if only is None else np.full(count, only)
    x = draw.uniform(0.0, 0.6, size=(count, *SHAPE)).astype(np.float32)
    bands = np.arange(SHAPE[1]) * CLASSES // SHAPE[1]
    x += 0.4 * (bands[None, None, :, None] == y[:, None, None, None]).astype(np.float32)
    return Table(torch.from_numpy(x), torch.from_numpy(y.astype(np.int64)))


def holder(count: int, key: Key, *, only: int | None = None) -> Holder:
    """Return a client's rows; validation and test parts are a third of the training part."""
    third = count // 3
    return Holder(
        rows(count, key / "train", only=only),
        rows(third, key / "val", only=only),
        rows(third, key / "test", only=only),
    )


def federation(sizes: tuple[int, ...] = SIZES) -> Federation:
    """Return the awkward federation."""
    root = Key.root(20) / "toy"
    holders = [
        holder(size, root / k, only=1 if k == SINGLE_CLASS and len(sizes) == len(SIZES) else None)
        for k, size in enumerate(sizes)
    ]
    return Federation(holders, {"global": rows(60, root / "global")}, CLASSES, SHAPE, name="toy")


def network(dropout: float = 0.2, *, norms: bool = True) -> nn.Module:
    """Return the toy's network, with batch norm (or without) and dropout."""
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(64, 16)]
    layers += [nn.BatchNorm1d(16)] if norms else []
    layers += [nn.ReLU(), nn.Dropout(dropout)]
    return Network(nn.Sequential(*layers), nn.Linear(16, CLASSES))


def world(
    algorithm: Algorithm,
    *,
    seed: int = 0,
    participation: float = 0.4,
    dropout: float = 0.2,
    norms: bool = True,
    given: Federation | None = None,
) -> World:
    """Return the toy's world for an algorithm."""
    model = Model(partial(network, dropout, norms=norms), shape=SHAPE, classes=CLASSES)
    return World(given or federation(), model, algorithm, Key.root(seed), participation)


def renumbered(given: Federation, order: list[int]) -> Federation:
    """Return the same federation with its clients in another order."""
    return replace(given, holders=[given.holders[k] for k in order])
