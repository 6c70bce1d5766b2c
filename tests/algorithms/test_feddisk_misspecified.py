"""Where row weights must help by theory: a straight line is to follow a parabola, and clients see different ends.

Two clients draw x from N(-1, 1) and N(+1, 1) and y = x^2. A line cannot be right everywhere, so that every client
has a best line of its own: 1 - m^2 at x = 0, which is 0 for both, with slopes -2 and 2. Their mean, where
averaging after long local training ends, is the line y = 0. The best line for everybody's rows is y = E[x^2] = 2.
With weights alpha = p / q_k both clients minimise the pooled risk, and averaging ends there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.feddisk import feddisk, feddisk_ab
from potluck.core import Algorithm
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.mlp import softmax
from potluck.parts.density_model import Mixture
from potluck.parts.judge import Judge
from potluck.parts.ratio import Density, LogRatio, Ratio
from potluck.table import Table
from potluck.world import World

LONG = Fit(lr=0.05, batch="all", epochs=150)
MEANS = (-1.0, 1.0)
ADAM = Judge(optimizer="adam", lr=0.01)
DENSITY: dict[str, Any] = {
    "density": Mixture(2),
    "density_rounds": 30,
    "density_fit": Fit("adam", lr=0.03, batch=64),
    "local_fit": Fit("adam", lr=0.03, batch=64, epochs=2),
}


@dataclass(frozen=True)
class Known(Ratio):
    """The true ratio: (1 + e^{-2 m x}) / 2 at the client whose rows have the mean m."""

    def log_alpha(
        self, x: Tensor, local: Density | None, pooled: Density | None, rows: Tensor | None, key: Key
    ) -> Tensor:
        """Return ln p(x) - ln q_k(x)."""
        flat = x.flatten().double()
        return torch.log((1 + torch.exp(-2 * flat.mean().sign() * flat)) / 2)


def rows(count: int, mean: float, key: Key) -> Table:
    x = key.numpy().normal(mean, 1.0, size=(count, 1)).astype(np.float32)
    return Table(torch.from_numpy(x), torch.from_numpy(x[:, 0] ** 2))


def world(algorithm: Algorithm) -> World:
    root = Key.root(2)
    holders = [
        Holder(*(rows(n, m, root / k / i) for i, n in enumerate((600, 100, 50)))) for k, m in enumerate(MEANS)
    ]
    federation = Federation(holders, {"global": holders[0].test}, None, (1,))
    return World(federation, Model(partial(softmax, (1,), None), shape=(1,)), algorithm, Key.root(0))


def middle(algorithm: Algorithm) -> float:
    """Return where the final line passes x = 0."""
    return float(play(world(algorithm)).steps[-1].states["server"].params["head.bias"])


def test_averaging_ends_at_the_mean_of_the_clients_lines() -> None:
    assert middle(fedavg(4, LONG)) == pytest.approx(0, abs=0.25)


@pytest.mark.parametrize(
    "algorithm",
    [
        feddisk(4, LONG, Known(), **DENSITY),
        feddisk(4, LONG, LogRatio(), **DENSITY),
        feddisk_ab(4, LONG, ADAM),
    ],
    ids=["known", "log_ratio", "raw"],
)
def test_row_weights_end_near_the_line_for_everybody(algorithm: Algorithm) -> None:
    assert middle(algorithm) == pytest.approx(2, abs=0.5)
