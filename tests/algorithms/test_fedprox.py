"""FedProx: V-PX1 to V-PX3, an oracle, and stragglers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedprox import fedprox
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.network import Network
from potluck.roles import difference
from potluck.table import Table
from potluck.world import Stragglers, World

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle


@pytest.mark.parametrize("fit", [Fit(lr=0.1, batch=4, momentum=0.5), Fit("adam", lr=0.01, batch=4)])
def test_without_pull_it_is_fedavg_bit_for_bit(fit: Fit) -> None:
    prox, plain = (play(toy.world(method)) for method in (fedprox(3, fit, mu=0.0), fedavg(3, fit)))
    assert prox.fingerprint == plain.fingerprint


def test_two_rounds_agree_with_the_oracle(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    world = build(fedprox(2, Fit(lr=0.2, batch="all", epochs=5), mu=0.7))
    now = numbers.start(world)
    for _ in range(2):
        states = [oracle.descend(now, x, y, lr=0.2, steps=5, mu=0.7) for x, y in numbers.tables(world)]
        now = oracle.mean(states, [12, 7, 5])
    for name, leaf in numbers.final(world).items():
        np.testing.assert_allclose(leaf, now[name], atol=1e-6)


class Slope(nn.Linear):
    """One number, started at 3: the loss (w x - y)^2 is a/2 (w - b)^2 with a = 2 x^2 and b = y / x."""

    def __init__(self) -> None:
        super().__init__(1, 1, bias=False)
        nn.init.constant_(self.weight, 3.0)


@pytest.mark.parametrize("mu", [0.0, 0.5, 4.0])
def test_on_a_quadratic_it_ends_between_optimum_and_start(mu: float) -> None:
    rows = Table(torch.tensor([[1.5]]), torch.tensor([[-3.0]]))
    nothing = rows.take(slice(0, 0))
    model = Model(lambda: Network(nn.Identity(), Slope()), shape=(1,))
    algorithm = fedprox(1, Fit(lr=0.05, batch="all", steps=400), mu=mu)
    world = World(Federation([Holder(rows, nothing, nothing)], {}, None, (1,)), model, algorithm, Key.root(0))
    reached = play(world).steps[-1].states["server"].params["head.weight"].item()
    a, b, start = 2 * 1.5**2, -2.0, 3.0
    assert reached == pytest.approx((a * b + mu * start) / (a + mu), abs=1e-5)


def test_the_larger_the_pull_the_shorter_the_way(build: Build) -> None:
    ways = []
    for mu in (0.0, 0.01, 0.1, 1.0, 4.0):
        steps = play(build(fedprox(1, Fit(lr=0.1, batch=4, epochs=10), mu=mu), (15,))).steps
        old, new = steps[0].states["server"].params, steps[-1].states["server"].params
        moved = difference(new, old, list(old))
        ways.append(sum(float(leaf.square().sum()) for leaf in moved.values()))
    assert ways == sorted(ways, reverse=True)
    assert ways[-1] < 0.5 * ways[0]


def test_stragglers_send_what_they_have(build: Build, numbers: Numbers) -> None:
    slow = Stragglers(share=1.0, least=0.1)
    played = play(build(fedprox(1, Fit(lr=0.1, batch="all", epochs=20)), stragglers=slow))
    steps = numbers.told(played, "train/steps")
    assert len(steps) == 3
    assert all(1 <= count < 20 for count in steps.values())
    assert set(numbers.told(played, "weight")) == {0, 1, 2}
    assert not numbers.reasons(played)
