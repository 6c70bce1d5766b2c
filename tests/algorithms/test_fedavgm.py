"""FedAvgM: V-AM1, V-AM2, V-CORE4, an oracle, and rounds in which nothing happens."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedavgm import ServerMomentum, fedavgm
from potluck.combine import NormBuffers
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.network import Network
from potluck.tree import Params, same
from potluck.world import Faults

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle

QUICK = Fit(lr=0.1, batch=4)


def test_without_momentum_it_is_fedavg_bit_for_bit() -> None:
    momentum, plain = play(toy.world(fedavgm(4, QUICK, beta=0.0))), play(toy.world(fedavg(4, QUICK)))
    one, other = (played.steps[-1].states["server"].params for played in (momentum, plain))
    assert same(one, other)


def test_a_negative_zero_keeps_its_sign() -> None:
    leaf = {"w": torch.tensor([-0.0])}
    moved, _ = ServerMomentum(beta=0.0).step({"w": torch.ones(1)}, leaf, {"w": torch.zeros(1).double()})
    assert same(moved, leaf)


@pytest.mark.parametrize(("nesterov", "dampening"), [(False, 0.0), (True, 0.0), (False, 0.9), (True, 0.4)])
def test_four_rounds_agree_with_the_oracle(
    nesterov: bool, dampening: float, build: Build, numbers: Numbers, oracle: Oracle
) -> None:
    algorithm = fedavgm(4, Fit(lr=0.2, batch="all"), 0.9, lr=0.5, nesterov=nesterov, dampening=dampening)
    world = build(algorithm)
    now = numbers.start(world)
    velocity = {name: np.zeros_like(leaf) for name, leaf in now.items()}
    for _ in range(4):
        states = [oracle.descend(now, x, y, lr=0.2, steps=1) for x, y in numbers.tables(world)]
        mean = oracle.mean(states, [12, 7, 5])
        for name, leaf in now.items():
            dw = (1 - dampening) * (leaf - mean[name])
            velocity[name] = 0.9 * velocity[name] + dw
            step = dw + 0.9 * velocity[name] if nesterov else velocity[name]
            now[name] = leaf - 0.5 * step
    for name, leaf in numbers.final(world).items():
        np.testing.assert_allclose(leaf, now[name], atol=1e-6)


def walk(server: ServerMomentum, rounds: int, pull: float = 0.5) -> list[float]:
    """Return the steps taken when the clients' mean always lies the same distance ahead."""
    now: Params = {"w": torch.zeros(1, dtype=torch.float64)}
    memory: Params = {"w": torch.zeros(1, dtype=torch.float64)}
    steps = []
    for _ in range(rounds):
        after, memory = server.step(now, {"w": now["w"] - pull}, memory)
        steps.append(float((now["w"] - after["w"])[0]))
        now = after
    return steps


def test_under_a_constant_pull_steps_grow_tenfold() -> None:
    steps = walk(ServerMomentum(beta=0.9), 300)
    assert steps[0] == pytest.approx(0.5)
    assert steps[-1] == pytest.approx(5.0)
    assert walk(ServerMomentum(beta=0.9, dampening=0.9), 300)[-1] == pytest.approx(0.5)
    assert walk(ServerMomentum(beta=0.9, nesterov=True), 300)[-1] == pytest.approx(5.0)


class Scaled(nn.Module):
    """A batch norm alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x)
        return out


def test_only_trainable_leaves_have_momentum() -> None:
    model = Model(lambda: Network(Scaled(), nn.Linear(2, 2)))
    params = model.init(Key.root(0))
    memory = ServerMomentum().start(model, params)
    assert set(memory) == set(model.learnable)
    assert all(leaf.dtype == torch.float64 and not leaf.any() for leaf in memory.values())
    mean = {name: leaf + 1 for name, leaf in params.items()}
    moved, _ = ServerMomentum(beta=0.5, lr=0.5).step(params, mean, memory)
    assert all(same(moved[name], mean[name]) for name in model.buffers)
    assert all(not same(moved[name], mean[name]) for name in model.learnable)


@pytest.mark.parametrize("bn_buffers", ["average", "pooled"])
def test_running_variances_stay_positive_and_counters_whole(bn_buffers: NormBuffers) -> None:
    algorithm = fedavgm(20, Fit(lr=0.05, batch=8), beta=0.9, bn_buffers=bn_buffers)
    params = play(toy.world(algorithm, participation=1.0)).steps[-1].states["server"].params
    variances = [leaf for name, leaf in params.items() if name.endswith("running_var")]
    counters = [leaf for name, leaf in params.items() if name.endswith("num_batches_tracked")]
    assert variances
    assert all(bool((leaf > 0).all()) and leaf.dtype == torch.float32 for leaf in variances)
    assert all(leaf.dtype == torch.int64 and leaf > 0 for leaf in counters)


def test_a_round_without_answers_leaves_model_and_momentum(build: Build) -> None:
    world = build(fedavgm(12, QUICK), (12, 7), participation=0.5, faults=Faults(lost=0.5))
    steps = play(world).steps
    heard = [any(fact.what == "weight" for fact in step.facts) for step in steps]
    assert 2 < sum(heard) < 11
    moved = [not same(now.states["server"], then.states["server"]) for then, now in pairwise(steps)]
    assert moved == heard[1:]


def test_a_step_that_is_not_finite_is_left_out() -> None:
    server = ServerMomentum(beta=0.9, lr=1e30)
    before, memory = {"w": torch.zeros(1)}, {"w": torch.ones(1).double()}
    after, kept = server.step(before, {"w": torch.full((1,), 1e20)}, memory)
    assert same(after, before)
    assert same(kept, memory)
