"""SCAFFOLD: the checks V-SC1 to V-SC4, a numpy oracle of both options, rollback, wire, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedbn import Norms
from potluck.algorithms.scaffold import Option, Variates, scaffold, wire
from potluck.config import experiment
from potluck.core import Algorithm
from potluck.errors import BadInputError
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import Bench, Played, play
from potluck.learn import Fit
from potluck.learn import gradient as full_gradient
from potluck.memory import Memories
from potluck.model import Model
from potluck.models.mlp import softmax
from potluck.parts.rate import Rate
from potluck.roles import ByRows, Uniform
from potluck.rounds import rounds
from potluck.run import run
from potluck.table import Table
from potluck.topology import Rotating, Star
from potluck.transport.codec import Codec
from potluck.tree import same
from potluck.visit import Answer, Call, visit
from potluck.world import Faults, World

Array = NDArray[np.float64]
FIT = Fit(lr=0.05, batch=8)


class Bowl(nn.Module):
    """A quadratic in two variables; its rows hold the Hessian and the minimiser."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        away = self.w - x[:, 4:]
        return 0.5 * torch.einsum("ni,nij,nj->n", away, x[:, :4].reshape(-1, 2, 2), away)


def height(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    out: Tensor = module(x)
    return out


def bowls(count: int) -> tuple[Array, Array]:
    """Return positive definite Hessians with eigenvalues in [0.5, 3] and scattered minimisers."""
    draw = np.random.default_rng(3)
    turn = np.linalg.qr(draw.normal(size=(count, 2, 2)))[0]
    hessians = np.einsum("kij,kj,klj->kil", turn, draw.uniform(0.5, 3.0, size=(count, 2)), turn)
    return hessians, draw.normal(scale=3.0, size=(count, 2))


def distance(algorithm: Algorithm, count: int, participation: float = 1.0) -> float:
    """Return how far from the minimum of the sum of all bowls an algorithm ends."""
    hessians, minima = bowls(count)
    holders = []
    for hessian, minimum in zip(hessians, minima, strict=True):
        row = torch.from_numpy(np.concatenate([hessian.ravel(), minimum])[None])
        table = Table(row, torch.zeros(1, dtype=torch.float64))
        holders.append(Holder(table, table.take(slice(0, 0)), table.take(slice(0, 0))))
    world = World(
        Federation(holders, {}, None, (6,)), Model(Bowl, loss=height), algorithm, Key.root(0), participation
    )
    *_, last = rounds(world, Bench(world), Star(), Memories(Codec(algorithm.messages)))
    optimum = np.linalg.solve(hessians.sum(axis=0), np.einsum("kij,kj->i", hessians, minima))
    return float(np.linalg.norm(last.states["server"].params["w"].numpy() - optimum))


STEPS = Fit(lr=0.05, batch="all", steps=10)


@pytest.mark.parametrize("option", ["I", "II"])
def test_reaches_the_optimum_of_different_quadratics(option: Option) -> None:
    assert distance(fedavg(400, STEPS, weigh=Uniform()), 3) > 0.1
    assert distance(scaffold(400, STEPS, option), 3) < 1e-10


@pytest.mark.slow
def test_reaches_the_optimum_with_two_of_ten_clients() -> None:
    assert distance(fedavg(300, STEPS, weigh=Uniform()), 10, 0.2) > 0.01
    assert distance(scaffold(3000, STEPS), 10, 0.2) < 1e-6


def drift(played: Played) -> float:
    """Return the largest difference, over all rounds, between c and the mean of all c_k."""
    worst = 0.0
    for step, memories in zip(played.steps, played.snapshots, strict=True):
        for name, leaf in step.states["server"].extra.items():
            own = [memory["variate"][name] for memory in memories.values() if "variate" in memory]
            mean = sum((each.double() for each in own), torch.zeros_like(leaf).double()) / len(memories)
            worst = max(worst, float((leaf - mean).abs().max()))
    return worst


@pytest.mark.parametrize("option", ["I", "II"])
def test_the_variate_is_the_mean_of_the_clients_variates(option: Option) -> None:
    world = toy.world(scaffold(12, FIT, option))
    lossy = replace(world, faults=Faults(lost=0.3, crash=0.1))
    for played in (play(world), play(lossy)):
        assert drift(played) < 1e-6
        assert all(leaf.any() for leaf in played.steps[-1].states["server"].extra.values())
    reasons = {fact.value for fact in play(lossy).facts if fact.what == "reason"}
    assert "lost" in reasons


@pytest.mark.parametrize("part", ["params", "extra"])
def test_a_diverged_answer_is_forgotten_on_both_sides(part: str) -> None:
    def poisoned(world: World, call: Call) -> Answer:
        answer = visit(world, call)
        if call.kind != "local" or call.client != 0:
            return answer
        sent: dict[str, Tensor] = getattr(answer.send, part)
        bad = {name: leaf * torch.nan if leaf.is_floating_point() else leaf for name, leaf in sent.items()}
        return answer._replace(send=answer.send._replace(**{part: bad}))

    world = toy.world(scaffold(5, FIT), participation=1.0)
    played = play(world, Bench(world, around=poisoned))
    assert drift(played) < 1e-6
    assert "variate" not in played.snapshots[-1][0]
    assert "variate" in played.snapshots[-1][1]


def test_the_first_round_is_fedavg_with_equal_weights() -> None:
    one = play(toy.world(scaffold(2, FIT)))
    other = play(toy.world(fedavg(2, FIT, weigh=Uniform())))
    assert same(one.steps[1].states["server"].params, other.steps[1].states["server"].params)
    assert not same(one.steps[2].states["server"].params, other.steps[2].states["server"].params)


def test_clients_without_steps_keep_their_variates() -> None:
    assert len(toy.federation().holders[2].train) == 0
    played = play(toy.world(scaffold(3, FIT), participation=1.0))
    assert {client for client, memory in played.snapshots[-1].items() if "variate" in memory} == {
        0,
        1,
        3,
        4,
        5,
        6,
    }
    idle = play(toy.world(scaffold(3, replace(FIT, epochs=0)), participation=1.0))
    assert not any(idle.snapshots[-1].values())
    assert not any(leaf.any() for leaf in idle.steps[-1].states["server"].extra.values())


def test_batch_norm_statistics_have_no_variates() -> None:
    world = toy.world(scaffold(1, FIT))
    assert set(play(world).steps[-1].states["server"].extra) == set(world.model.learnable)


def test_leaves_that_stay_local_have_no_variates() -> None:
    world = toy.world(scaffold(4, FIT, share=Norms()))
    state = play(world).steps[-1].states["server"]
    assert set(state.extra) == set(world.model.learnable) - world.model.norms
    assert drift(play(world)) < 1e-6


def test_the_wire_costs_two_models() -> None:
    world = toy.world(scaffold(3, FIT))
    down, up = wire(world.model)
    facts = {(f.round, f.what): f.value for f in play(world).facts if f.who == "server"}
    for number in (1, 2, 3):
        heard = facts[number, "participants"]
        assert isinstance(heard, int)
        assert (facts[number, "bytes/down"], facts[number, "bytes/up"]) == (3 * down, 3 * up)


@pytest.mark.parametrize(
    ("fit", "word"), [(Fit(optimizer="adam"), "adam"), (Fit(momentum=0.9), "momentum = 0.9")]
)
def test_other_optimisers_are_refused(fit: Fit, word: str) -> None:
    with pytest.raises(BadInputError, match=word):
        play(toy.world(scaffold(1, fit)))
    with pytest.raises(BadInputError, match="plain descent"):
        play(toy.world(fedavg(1, fit, objective=Variates())))


def test_weight_decay_is_welcome() -> None:
    played = play(toy.world(scaffold(3, replace(FIT, weight_decay=0.01))))
    assert drift(played) < 1e-6


@pytest.mark.parametrize(
    "algorithm", [{"name": "scaffold"}, {"name": "fedavg", "objective": {"name": "scaffold"}}]
)
def test_a_mesh_is_refused(algorithm: dict[str, object], tmp_path: Path) -> None:
    table = {
        "name": "t",
        "algorithm": algorithm,
        "topology": {"name": "edgeless"},
        "partition": {"name": "iid", "clients": 2},
    }
    with pytest.raises(BadInputError, match="a mesh has no server"):
        run(experiment(table), tmp_path / "out")


def test_the_server_rate_goes_part_of_the_way() -> None:
    def last(algorithm: Algorithm) -> dict[str, Tensor]:
        params: dict[str, Tensor] = play(toy.world(algorithm)).steps[1].states["server"].params
        return params

    world = toy.world(scaffold(1, FIT))
    begin = play(world).steps[0].states["server"].params
    whole, half = last(scaffold(1, FIT)), last(scaffold(1, FIT, server=Rate(0.5)))
    for name in world.model.learnable:
        torch.testing.assert_close(half[name], (begin[name] + whole[name]) / 2)
    for name in world.model.buffers:
        assert torch.equal(half[name], whole[name])


def test_a_server_rate_must_be_positive() -> None:
    server = {"name": "rate", "lr": 0}
    with pytest.raises(BadInputError, match=r"algorithm\.server\.lr"):
        experiment({"name": "t", "algorithm": {"name": "scaffold", "server": server}})


def gradient(w: Array, x: Array, y: NDArray[np.int64]) -> Array:
    """Return the gradient of softmax regression's mean loss; `w` has the bias in its last column."""
    padded = np.hstack([x, np.ones((len(x), 1))])
    scores = padded @ w.T
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    odds[np.arange(len(y)), y] -= 1
    result: Array = odds.T @ padded / len(y)
    return result


def oracle(
    w: Array, data: list[tuple[Array, NDArray[np.int64]]], option: str, shares: Array, rate: float
) -> Array:
    """Play six rounds of SCAFFOLD with five full-batch steps each, as the paper prints it."""
    c, own, lr, steps = np.zeros_like(w), [np.zeros_like(w) for _ in data], 0.5, 5
    for _ in range(6):
        ends, changes = [], []
        for k, (x, y) in enumerate(data):
            here = w.copy()
            for _ in range(steps):
                here -= lr * (gradient(here, x, y) - own[k] + c)
            fresh = gradient(w, x, y) if option == "I" else own[k] - c + (w - here) / (steps * lr)
            ends.append(here)
            changes.append(fresh - own[k])
            own[k] = fresh
        w = w + rate * sum(share * (end - w) for share, end in zip(shares, ends, strict=True))
        c = c + sum(changes) / len(data)
    return w


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize(("sized", "rate"), [(False, 1.0), (True, 0.7)])
def test_agrees_with_numpy(option: Option, sized: bool, rate: float) -> None:
    draw = np.random.default_rng(5)
    data = [(draw.normal(size=(n, 4)), draw.integers(3, size=n)) for n in (5, 9, 1)]
    holders = []
    for x, y in data:
        table = Table(torch.from_numpy(x).float(), torch.from_numpy(y))
        holders.append(Holder(table, table.take(slice(0, 0)), table.take(slice(0, 0))))
    weigh, server = (ByRows(), Rate(rate)) if sized else (Uniform(), Rate())
    algorithm = scaffold(6, Fit(lr=0.5, batch="all", steps=5), option, weigh, server)
    model = Model(lambda: softmax((4,), 3), shape=(4,), classes=3)
    world = World(Federation(holders, {}, 3, (4,)), model, algorithm, Key.root(1))
    steps = play(world).steps

    def matrix(params: dict[str, Tensor]) -> Array:
        return np.hstack([params["head.weight"], params["head.bias"][:, None]]).astype(np.float64)

    shares = np.array([5, 9, 1]) / 15 if sized else np.full(3, 1 / 3)
    expected = oracle(matrix(steps[0].states["server"].params), data, option, shares, rate)
    np.testing.assert_allclose(matrix(steps[-1].states["server"].params), expected, atol=2e-5)


def test_the_full_gradient_is_taken_in_parts() -> None:
    draw = np.random.default_rng(6)
    x, y = draw.normal(size=(1001, 4)), draw.integers(3, size=1001)
    model = Model(lambda: softmax((4,), 3), shape=(4,), classes=3)
    params = model.init(Key.root(2))
    found = full_gradient(model, params, Table(torch.from_numpy(x).float(), torch.from_numpy(y)))
    w = np.hstack([params["head.weight"], params["head.bias"][:, None]]).astype(np.float64)
    parts = np.hstack([found["head.weight"], found["head.bias"][:, None]])
    np.testing.assert_allclose(parts, gradient(w, x, y), atol=1e-6)


def test_a_rotating_hub_takes_the_variate_along() -> None:
    world = toy.world(scaffold(4, FIT))
    star, moving = play(world), play(world, topology=Rotating(7, Key.root(0), 1))
    (one,), (other,) = star.steps[-1].states.values(), moving.steps[-1].states.values()
    assert same(one, other)
