"""Small federations of softmax regression, and an oracle for them that knows numpy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pytest
import torch

from potluck.core import Algorithm
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws.engines import Played, play
from potluck.model import Model
from potluck.models.mlp import softmax
from potluck.table import Table
from potluck.world import Faults, Stragglers, World

FEATURES, CLASSES = 5, 3
PUNCTUAL, SOUND = Stragglers(), Faults()
Array = npt.NDArray[np.float64]
Weights = dict[str, Array]


def table(rows: int, key: Key, only: int | None = None) -> Table:
    """Draw rows: the class shifts one feature."""
    draw = key.numpy()
    y = draw.integers(CLASSES, size=rows) if only is None else np.full(rows, only)
    x = draw.normal(size=(rows, FEATURES)).astype(np.float32)
    x[np.arange(rows), y] += 2.0
    return Table(torch.from_numpy(x), torch.from_numpy(y.astype(np.int64)))


class Build(Protocol):
    """Builds a world around an algorithm."""

    def __call__(
        self,
        algorithm: Algorithm,
        sizes: Sequence[int] = ...,
        *,
        val: Sequence[int] | int = ...,
        only: Mapping[int, int] = ...,
        participation: float = ...,
        seed: int = ...,
        stragglers: Stragglers = ...,
        faults: Faults = ...,
    ) -> World: ...


@pytest.fixture
def build() -> Build:
    """Return a builder of small federations; the data do not depend on the seed of the run."""

    def made(
        algorithm: Algorithm,
        sizes: Sequence[int] = (12, 7, 5),
        *,
        val: Sequence[int] | int = 4,
        only: Mapping[int, int] | None = None,
        participation: float = 1.0,
        seed: int = 0,
        stragglers: Stragglers = PUNCTUAL,
        faults: Faults = SOUND,
    ) -> World:
        root = Key.root(5) / "rows"
        checks = [val] * len(sizes) if isinstance(val, int) else list(val)
        holders = []
        for k, size in enumerate(sizes):
            parts = (size, checks[k], 6)
            holders.append(
                Holder(*(table(n, root / k / i, (only or {}).get(k)) for i, n in enumerate(parts)))
            )
        federation = Federation(holders, {"global": table(60, root / "global")}, CLASSES, (FEATURES,))
        model = Model(partial(softmax, (FEATURES,), CLASSES), shape=(FEATURES,), classes=CLASSES)
        return World(
            federation,
            model,
            algorithm,
            Key.root(seed),
            participation,
            stragglers=stragglers,
            faults=faults,
        )

    return made


class Oracle:
    """Softmax regression by hand, in float64."""

    def loss(self, w: Weights, x: Array, y: npt.NDArray[np.int64]) -> Array:
        """Return the cross-entropy of every row."""
        scores = x @ w["head.weight"].T + w["head.bias"]
        scores -= scores.max(axis=1, keepdims=True)
        return np.asarray(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y])

    def gradient(self, w: Weights, x: Array, y: npt.NDArray[np.int64]) -> Weights:
        """Return the gradient of the mean loss."""
        scores = x @ w["head.weight"].T + w["head.bias"]
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = odds / odds.sum(axis=1, keepdims=True)
        error[np.arange(len(y)), y] -= 1
        return {"head.weight": error.T @ x / len(y), "head.bias": error.mean(axis=0)}

    def descend(
        self, w: Weights, x: Array, y: npt.NDArray[np.int64], lr: float, steps: int, mu: float = 0.0
    ) -> Weights:
        """Take full-batch steps, pulled back to the start with strength mu."""
        now = dict(w)
        for _ in range(steps):
            g = self.gradient(now, x, y)
            now = {name: now[name] - lr * (g[name] + mu * (now[name] - w[name])) for name in now}
        return now

    def mean(self, states: Sequence[Weights], weights: Sequence[float]) -> Weights:
        """Return the weighted mean of states."""
        share = np.array(weights, dtype=np.float64) / np.sum(weights)
        return {
            name: sum((a * s[name] for a, s in zip(share, states, strict=True)), np.zeros(()))
            for name in states[0]
        }


@pytest.fixture
def oracle() -> Oracle:
    """Return the oracle."""
    return Oracle()


def arrays(given: Table) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return a table as numpy arrays."""
    return given.x.numpy().astype(np.float64), given.y.numpy()


class Numbers:
    """What tests read off a world and a play."""

    def tables(self, world: World, part: str = "train") -> list[tuple[Array, npt.NDArray[np.int64]]]:
        """Return every client's rows."""
        return [arrays(getattr(holder, part)) for holder in world.federation.holders]

    def start(self, world: World) -> Weights:
        """Return the initial model."""
        stage = len(world.algorithm.stages) - 1
        return self.weights(world.model.init(world.key_of(stage) / "init"))

    def weights(self, params: Mapping[str, torch.Tensor]) -> Weights:
        """Return parameters as numpy arrays."""
        return {name: leaf.numpy().astype(np.float64) for name, leaf in params.items()}

    def play(self, world: World) -> Played:
        """Play a world to its end."""
        return play(world)

    def final(self, world: World) -> Weights:
        """Play a world and return the server's last model."""
        return self.weights(play(world).steps[-1].states["server"].params)

    def told(self, played: Played, what: str, number: int = 1) -> dict[int, float]:
        """Return one figure of every client in a training round."""
        return {
            int(fact.who.removeprefix("client/")): float(fact.value)
            for fact in played.facts
            if fact.stage == "train"
            and fact.round == number
            and fact.what == what
            and fact.who.startswith("client/")
            and isinstance(fact.value, int | float)
        }

    def reasons(self, played: Played) -> set[tuple[str, object]]:
        """Return who was marked with which reason code."""
        return {(fact.who, fact.value) for fact in played.facts if fact.what == "reason"}


@pytest.fixture
def numbers() -> Numbers:
    """Return the reader."""
    return Numbers()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
