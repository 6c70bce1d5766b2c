"""Federations of two populations or two sources of digits, and how far the clusters found agree with them."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from potluck.core import Algorithm
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws.engines import Played, play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.mlp import mlp
from potluck.parts.warm_up import Sorted
from potluck.table import Table
from potluck.world import World

Population = Literal["halves", "relabelled", "mistaken", "shuffled"]

FIT = Fit(lr=0.1, batch=10, epochs=2)


def two_populations(kind: Population, algorithm: Algorithm, seed: int = 0) -> World:
    """Return 20 clients: ten see digits 0-4 and ten 5-9, or ten call a digit y and ten call it y + 5 mod 10
    ("mistaken": in training only).

    The clients of both populations alternate, so that client % 2 is the truth.
    """
    pixels, labels = load_digits(return_X_y=True)
    x = torch.from_numpy((pixels / 16).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(labels.astype(np.int64))
    order = torch.from_numpy((Key.root(seed) / "deal").numpy().permutation(len(y)))
    test, pool = Table(x[order[:300]], y[order[:300]]), order[300:]
    parts = [pool[y[pool] < 5], pool[y[pool] >= 5]] if kind == "halves" else [pool[0::2], pool[1::2]]
    holders = []
    for client in range(20):
        rows = parts[client % 2].tensor_split(10)[client // 2]
        odd = client % 2 and kind in ("relabelled", "mistaken")
        told = (y[rows] + 5) % 10 if odd else y[rows]
        checks = y[rows[:20]] if kind == "mistaken" else told[:20]
        train, val = Table(x[rows[20:]], told[20:]), Table(x[rows[:20]], checks)
        holders.append(Holder(train, val, val.take(slice(0, 0))))
    model = Model(partial(mlp, (1, 8, 8), 10, hidden=(32,)), shape=(1, 8, 8), classes=10)
    federation = Federation(holders, {"global": test}, 10, (1, 8, 8))
    return World(federation, model, algorithm, Key.root(seed))


def two_sources(algorithm: Algorithm, seed: int) -> World:
    """Return 20 clients with two digits each; every other one sees negatives. The source is client % 2."""
    pixels, labels = load_digits(return_X_y=True)
    x = torch.from_numpy((pixels / 16).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(labels.astype(np.int64))
    order = torch.from_numpy((Key.root(seed) / "deal").numpy().permutation(len(y)))
    holders = []
    for client in range(20):
        digit = client // 2
        rows = order[(y[order] == digit) | (y[order] == (digit + 1) % 10)][client % 4 :: 4][:80]
        table = Table(1 - x[rows] if client % 2 else x[rows], y[rows])
        nothing = table.take(slice(0, 0))
        holders.append(Holder(table, nothing, nothing))
    model = Model(partial(mlp, (1, 8, 8), 10, hidden=(32,)), shape=(1, 8, 8), classes=10)
    federation = Federation(holders, {"global": holders[0].train}, 10, (1, 8, 8))
    return World(federation, model, algorithm, Key.root(seed))


def labels_of(played: Played) -> dict[int, int]:
    """Return the clusters in which the warm-up ended."""
    ends = [step.states["server"] for step in played.steps if step.stage == "warmup"]
    sorting = ends[-1]
    assert isinstance(sorting, Sorted)
    return dict(sorting.labels)


def agreement(world: World) -> float:
    labels = labels_of(play(world))
    return float(adjusted_rand_score([client % 2 for client in labels], list(labels.values())))
