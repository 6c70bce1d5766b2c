"""Federations with given labels, and what tests read off a play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from potluck.core import Algorithm
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws.engines import Played
from potluck.model import Model
from potluck.models.mlp import softmax
from potluck.table import Table
from potluck.topology import Mesh
from potluck.world import World

Floats = npt.NDArray[np.float64]
DIM = 4


class Labelled:
    """Builds worlds around labels and reads their records."""

    mixed = ([0] * 9 + [1] * 8 + [2] * 9, [0] * 20 + [2], [1] * 12, [2] * 5 + [1] * 5, [0] * 7 + [1] * 7)

    def federation(
        self, labels: Sequence[npt.ArrayLike], classes: int | None, seed: int = 0, dim: int = DIM
    ) -> Federation:
        """Return clients that hold these labels, with normal inputs."""
        nothing = Table(torch.zeros(0, dim), torch.zeros(0, dtype=torch.int64 if classes else torch.float32))
        holders = []
        for k, own in enumerate(labels):
            y = np.asarray(own).reshape(-1)
            x = (Key.root(seed) / "x" / k).numpy().normal(size=(len(y), dim)).astype(np.float32)
            target = torch.from_numpy(y.astype(np.int64 if classes else np.float32))
            holders.append(Holder(Table(torch.from_numpy(x), target), nothing, nothing))
        return Federation(holders, {}, classes, (dim,))

    def world(self, algorithm: Algorithm, given: Federation, seed: int = 0, **more: Any) -> World:
        model = Model(
            lambda: softmax(given.shape, given.classes), shape=given.shape, classes=given.classes or 0
        )
        return World(given, model, algorithm, Key.root(seed), **more)

    def told(self, played: Played, what: str, stage: str = "train") -> dict[int, float]:
        """Return the last recorded value of every client."""
        return {
            int(fact.who.partition("/")[2]): float(str(fact.value))
            for fact in played.facts
            if fact.stage == stage and fact.who.startswith("client/") and fact.what == what
        }

    def alphas(self, played: Played, what: str = "alpha") -> Floats:
        found = self.told(played, what, "mixture")
        return np.array([found[client] for client in sorted(found)])

    def reasons(self, played: Played, stage: str) -> set[tuple[int, int, str]]:
        return {
            (fact.round, int(fact.who.partition("/")[2]), str(fact.value))
            for fact in played.facts
            if fact.stage == stage and fact.what.endswith("reason")
        }

    def complete(self, clients: int) -> Mesh:
        return Mesh({k: frozenset(range(clients)) - {k} for k in range(clients)})

    def ring(self, clients: int) -> Mesh:
        return Mesh({k: frozenset({(k - 1) % clients, (k + 1) % clients}) for k in range(clients)})

    def crossed(self, played: Played, what: str = "bytes/up") -> float:
        return sum(
            float(str(fact.value))
            for fact in played.facts
            if (fact.stage, fact.who, fact.what) == ("mixture", "server", what)
        )


@pytest.fixture
def labelled() -> Labelled:
    """Return the builder."""
    return Labelled()
