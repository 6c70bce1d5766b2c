"""FedAvg against gradient descent and an oracle, and what all averaging methods share (V-FA1, V-CORE5, V-CORE6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from potluck.algorithms import ALGORITHMS
from potluck.algorithms.alone import alone
from potluck.algorithms.fedavg import fedavg, wire
from potluck.algorithms.feddisco import feddisco
from potluck.algorithms.fedloss import ValidationLoss, fedloss
from potluck.algorithms.fedmedian import fedmedian
from potluck.algorithms.fedprox import fedprox
from potluck.average import Average
from potluck.config import experiment
from potluck.core import Algorithm, Client
from potluck.errors import BadInputError
from potluck.laws import toy
from potluck.laws.engines import play
from potluck.learn import Fit, Trained
from potluck.roles import After, Objective, Uniform
from potluck.topology import Mesh
from potluck.tree import Params, digest, finite
from potluck.world import Faults, Stragglers

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle

FULL = Fit(lr=0.2, batch="all", epochs=1)


def test_one_full_step_is_a_step_on_the_pooled_loss(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    world = build(fedavg(1, FULL))
    rows = numbers.tables(world)
    x, y = np.concatenate([x for x, _ in rows]), np.concatenate([y for _, y in rows])
    expected = oracle.descend(numbers.start(world), x, y, lr=0.2, steps=1)
    for name, leaf in numbers.final(world).items():
        np.testing.assert_allclose(leaf, expected[name], atol=1e-6)


def test_three_rounds_agree_with_the_oracle(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    world = build(fedavg(3, Fit(lr=0.2, batch="all", epochs=2)))
    now = numbers.start(world)
    for _ in range(3):
        states = [oracle.descend(now, x, y, lr=0.2, steps=2) for x, y in numbers.tables(world)]
        now = oracle.mean(states, [12, 7, 5])
    for name, leaf in numbers.final(world).items():
        np.testing.assert_allclose(leaf, now[name], atol=1e-6)


def test_uniform_weights_forget_the_sizes(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    world = build(fedavg(1, FULL, weigh=Uniform()), (12, 7, 0))
    start = numbers.start(world)
    states = [oracle.descend(start, x, y, lr=0.2, steps=1) for x, y in numbers.tables(world)[:2]]
    expected = oracle.mean(states, [1, 1])
    for name, leaf in numbers.final(world).items():
        np.testing.assert_allclose(leaf, expected[name], atol=1e-6)


AVERAGING = ("fedavg", "fedavgm", "feddisco", "fedloss", "fedmedian", "fedprox")


def test_all_methods_share_participants_and_initial_weights(build: Build, numbers: Numbers) -> None:
    seen = set()
    for name in AVERAGING:
        world = build(ALGORITHMS[name](4, FULL), (9,) * 8, participation=0.4, seed=3)
        played = play(world)
        start = next(step for step in played.steps if step.stage == "train").states["server"].params
        cohorts = tuple(tuple(numbers.told(played, "train/loss", number)) for number in range(1, 5))
        assert {len(cohort) for cohort in cohorts} == {3}
        seen.add((digest(start), cohorts))
    assert len(seen) == 1


@pytest.mark.parametrize(
    "method",
    [fedavg, fedloss, feddisco, fedmedian, lambda rounds, fit: fedprox(rounds, fit, mu=0.0)],
    ids=["fedavg", "fedloss", "feddisco", "fedmedian", "fedprox"],
)
def test_one_client_is_local_training(method: Callable[[int, Fit], Algorithm], build: Build) -> None:
    fit = Fit(lr=0.1, batch=4, epochs=2)
    federated = play(build(method(3, fit), (11,))).steps[-1].states["server"].params
    local = play(build(alone(3, fit), (11,))).steps[-1].states["site/0"].params
    assert digest(federated) == digest(local)


def test_clients_without_rows_and_empty_rounds_change_nothing(build: Build, numbers: Numbers) -> None:
    played = play(build(fedavg(2, FULL), (0, 0)))
    assert digest(played.steps[0].states) == digest(played.steps[-1].states)
    mixed = play(build(fedavg(1, FULL), (6, 0)))
    assert numbers.told(mixed, "weight") == {0: 1.0, 1: 0.0}
    assert ("client/1", "zero_weight") in numbers.reasons(mixed)


def test_stragglers_are_dropped(build: Build, numbers: Numbers) -> None:
    played = play(build(fedavg(2, Fit(steps=10)), stragglers=Stragglers(share=1.0)))
    assert {reason for _, reason in numbers.reasons(played)} == {"straggler"}
    assert digest(played.steps[0].states) == digest(played.steps[-1].states)


def test_validation_rows_can_be_trained_on(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    world = build(fedavg(1, FULL, train_on="train_and_val"), (12, 7), val=(4, 0))
    parts = zip(numbers.tables(world), numbers.tables(world, "val"), strict=True)
    rows = [(np.concatenate([a, c]), np.concatenate([b, d])) for (a, b), (c, d) in parts]
    start = numbers.start(world)
    expected = oracle.mean([oracle.descend(start, x, y, lr=0.2, steps=1) for x, y in rows], [16, 7])
    for name, leaf in numbers.final(world).items():
        np.testing.assert_allclose(leaf, expected[name], atol=1e-6)


def test_weights_measured_on_validation_rows_forbid_training_on_them(build: Build) -> None:
    with pytest.raises(BadInputError, match="train_on"):
        play(build(fedavg(1, FULL, weigh=ValidationLoss(), train_on="train_and_val")))


@dataclass(frozen=True)
class Leaking(Objective):
    """Sends one extra leaf, which client 1 spoils."""

    def start(self, model: object, params: Params) -> Params:
        return {"sum": torch.zeros(1)}

    def after(self, extra: Params, given: Params, trained: Trained, client: Client) -> After:
        return After({"sum": torch.tensor([math.nan if client.id == 1 else 1.0])}, {"kept": client.id})

    def settle(self, extra: Params, summed: Params, population: int) -> Params:
        return {"sum": extra["sum"] + summed["sum"]}


def test_an_answer_with_a_spoilt_extra_leaf_counts_with_none(build: Build, numbers: Numbers) -> None:
    played = play(build(fedavg(1, FULL, objective=Leaking())))
    assert played.steps[-1].states["server"].extra["sum"].tolist() == [2.0]
    assert set(numbers.told(played, "weight")) == {0, 2}
    assert played.snapshots[-1][1] == {}
    assert ("client/1", "nonfinite_weight") in numbers.reasons(played)


def test_an_answer_with_a_bad_weight_leaves_no_extra_behind(build: Build) -> None:
    @dataclass(frozen=True)
    class Spoilt(Uniform):
        def raw(self, told: object, past: object, population: object) -> list[float]:
            return [1.0, 1.0, math.nan]

    played = play(build(fedavg(1, FULL, objective=Leaking(), weigh=Spoilt())))
    assert played.steps[-1].states["server"].extra["sum"].tolist() == [1.0]


def test_local_statistics_start_from_the_given_model_and_do_not_travel() -> None:
    world = toy.world(fedavg(1, FULL, bn_buffers="local"))
    given = world.model.init(world.key / "elsewhere")
    given["body.2.running_mean"] = torch.full_like(given["body.2.running_mean"], 0.25)
    world = replace(world, initial=given)
    state = play(world).steps[-1].states["server"]
    assert set(given) - set(state.params) == {
        name for name in given if "running" in name or "batches" in name
    }
    client = world.client(0, "score", 1, 0, {})
    stage = world.stage(0)
    assert isinstance(stage, Average)
    whole = stage.assembled(stage.view(state, 0), client)
    assert torch.equal(whole["body.2.running_mean"], given["body.2.running_mean"])


@pytest.mark.parametrize("name", AVERAGING)
@pytest.mark.parametrize("bn_buffers", ["average", "pooled"])
def test_peers_in_a_ring_do_it_too(name: str, bn_buffers: str) -> None:
    if (name, bn_buffers) == ("fedmedian", "pooled"):
        bn_buffers = "local"
    world = toy.world(ALGORITHMS[name](3, FULL, bn_buffers=bn_buffers))
    ring = Mesh({k: frozenset({(k - 1) % 7, (k + 1) % 7}) for k in range(7)})
    played = play(world, topology=ring)
    assert len(played.steps[-1].states) == 7
    for state in played.steps[-1].states.values():
        assert finite(state.params)
        assert not any("|" in leaf for leaf in state.params)


def test_hostile_clients_are_the_same_all_along(build: Build) -> None:
    world = build(fedavg(1, FULL), (5,) * 10, faults=Faults(hostile=0.25))
    again = build(fedavg(1, FULL), (5,) * 10, faults=Faults(hostile=0.25))
    assert len(world.hostile) == 3
    assert world.hostile == again.hostile
    assert not build(fedavg(1, FULL), (5,) * 10).hostile


@pytest.mark.parametrize("name", AVERAGING)
def test_wire_is_what_crossed(name: str) -> None:
    world = toy.world(ALGORITHMS[name](2, FULL))
    module = __import__(f"potluck.algorithms.{name}", fromlist=["wire"])
    for number in (1, 2):
        facts = {
            f.what: f.value
            for f in play(world).facts
            if (f.stage, f.round, f.who) == ("train", number, "server")
        }
        heard = 3
        assert (facts["bytes/down"], facts["bytes/up"]) == tuple(
            heard * size for size in module.wire(world.model)
        )


def test_wire_of_a_model_without_buffers(build: Build) -> None:
    assert wire(build(fedavg(1, FULL)).model) == (72, 80)


def made(table: dict[str, object]) -> Algorithm:
    """Build an algorithm as from a file."""
    partition = {"name": "iid", "clients": 7}
    return experiment({"name": "made", "algorithm": table, "partition": partition}).build_algorithm()


COMPOSED: dict[str, object] = {
    "name": "feddisco",
    "a": 0.4,
    "objective": {"name": "proximal", "mu": 0.1},
    "server": {"name": "momentum", "beta": 0.5},
}


@pytest.mark.parametrize(
    "table",
    [
        COMPOSED,
        {"name": "fedloss", "weight_rule": "loss_shrunk", "server": {"name": "momentum", "beta": 0.9}},
        {"name": "fedprox", "mu": 0.1, "weigh": {"name": "disco", "a": 0.4}, "server": {"name": "median"}},
        {
            "name": "fedavg",
            "weigh": {"name": "loss"},
            "objective": {"name": "proximal"},
            "bn_buffers": "pooled",
        },
    ],
)
def test_choices_combine_from_a_table(table: dict[str, object]) -> None:
    played = play(toy.world(made({**table, "rounds": 2}), participation=1.0))
    weights = [
        f.value for f in played.facts if f.what == "weight" and f.round == 2 and isinstance(f.value, float)
    ]
    assert sum(weights) == pytest.approx(1.0, abs=1e-12)
    assert all(math.isfinite(tally.sums["loss"]) for tally in played.scores.clients.values() if tally.rows)


def test_a_composition_is_the_same_whatever_its_preset() -> None:
    turned: dict[str, object] = {
        "name": "fedavg",
        "weigh": {"name": "disco", "a": 0.4},
        "objective": {"name": "proximal", "mu": 0.1},
        "server": {"name": "momentum", "beta": 0.5},
    }
    one, other = (play(toy.world(made({**table, "rounds": 2}))) for table in (COMPOSED, turned))
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"name": "fedprox", "mu": -1}, "algorithm.mu"),
        ({"name": "fedavgm", "beta": 1.0}, "algorithm.beta"),
        ({"name": "fedavgm", "lr": 0}, "algorithm.lr"),
        ({"name": "feddisco", "metric": "js"}, "algorithm.metric"),
        ({"name": "feddisco", "target": [0.5, 0.0]}, "algorithm.target"),
        ({"name": "fedloss", "shrinkage": 0}, "algorithm.shrinkage"),
        ({"name": "fedloss", "weigh": {"name": "rows"}}, "algorithm.weigh"),
        ({"name": "fedavg", "server": {"name": "momentum", "beta": 2}}, "algorithm.server.beta"),
    ],
)
def test_bad_settings_are_named(table: dict[str, object], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        made(table)
