"""Runs without a server: what peers end up with, how fast they agree, and what crosses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from potluck.algorithms.alone import alone as training_alone
from potluck.algorithms.fedavg import fedavg
from potluck.average import Global
from potluck.config import experiment
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import Played, play
from potluck.learn import Fit
from potluck.model import Model
from potluck.roles import ByRows, Uniform, Weigh
from potluck.rounds import Step
from potluck.topology import Mesh, Rotating, Star, Topology
from potluck.tree import nbytes, same
from potluck.world import Faults, World

FIT = Fit(lr=0.1, batch=8)
STILL = Fit(epochs=0)
DEALT = {"name": "iid", "clients": 3}
Floats = npt.NDArray[np.float64]


def mesh(clients: int, **spec: Any) -> Topology:
    return experiment({"name": "t", "partition": DEALT, "topology": spec}).build_topology(
        clients, Key.root(5) / "topology"
    )


def facts(played: Played, what: str, who: str = "server", stage: str = "train") -> list[Any]:
    return [fact.value for fact in played.facts if (fact.what, fact.who, fact.stage) == (what, who, stage)]


def scattered(world: World, topology: Topology) -> list[Floats]:
    """Play rounds of pure mixing from different starts; return the parameters of all sites after each."""
    states = {
        name: Global(world.model.init(Key.root(99) / name), {}, {}, None)
        for name in topology.sites(world.clients)
    }
    start = Step(0, "train", 0, False, states, [])
    played = play(world, topology=topology, after=(start, {}))
    return [_matrix(world.model, states), *(_matrix(world.model, step.states) for step in played.steps)]


def _matrix(model: Model, states: Mapping[str, Global]) -> Floats:
    rows = [
        torch.cat([state.params[name].double().reshape(-1) for name in model.learnable]).numpy()
        for state in states.values()
    ]
    return np.stack(rows)


def consensus(matrix: Floats) -> float:
    return float(np.sqrt(np.square(matrix - matrix.mean(axis=0)).sum(axis=1).mean()))


def mixing_matrix(topology: Topology, weights: Floats) -> Floats:
    """Rows: what a peer makes of its closed neighbourhood when answers count by the given weights."""
    graph = topology.graph(1)
    closed = np.eye(len(graph))
    for client, near in graph.items():
        closed[client, sorted(near)] = 1
    weighed = closed * weights
    return np.asarray(weighed / weighed.sum(axis=1, keepdims=True))


def still_world(sizes: tuple[int, ...], weigh: Weigh, rounds: int) -> World:
    return toy.world(
        fedavg(rounds=rounds, fit=STILL, weigh=weigh),
        given=toy.federation(sizes),
        participation=1.0,
        norms=False,
    )


def test_on_a_complete_graph_every_peer_is_the_server_bit_for_bit() -> None:
    world = toy.world(fedavg(rounds=3, fit=FIT), participation=0.6)
    star = play(world, topology=Star())
    full = play(toy.world(fedavg(rounds=3, fit=FIT), participation=1.0), topology=mesh(7, name="complete"))
    central = play(toy.world(fedavg(rounds=3, fit=FIT), participation=1.0), topology=Star())
    assert not same(star.steps[-1].states["server"], central.steps[-1].states["server"])
    for state in full.steps[-1].states.values():
        assert same(state, central.steps[-1].states["server"])
    assert facts(full, "consensus") == [0.0, 0.0, 0.0]


def test_without_edges_every_peer_trains_alone_bit_for_bit() -> None:
    apart = play(toy.world(fedavg(rounds=3, fit=FIT)), topology=mesh(7, name="edgeless"))
    alone = play(toy.world(training_alone(rounds=3, fit=FIT)))
    assert apart.fingerprint == alone.fingerprint
    assert facts(apart, "bytes/up") == [0, 0, 0]


def test_a_peer_without_edges_equals_a_federation_of_itself() -> None:
    alone = play(toy.world(training_alone(rounds=2, fit=FIT), participation=1.0))
    world = toy.world(fedavg(rounds=2, fit=FIT), given=toy.federation((toy.SIZES[0],)), participation=1.0)
    assert same(play(world, topology=Star()).steps[-1].states["server"], alone.steps[-1].states["site/0"])


def test_two_components_never_influence_each_other() -> None:
    topology = mesh(7, name="edges", pairs=[[0, 1], [1, 2], [3, 4], [5, 6], [4, 5]], connected=False)
    before = play(toy.world(fedavg(rounds=4, fit=FIT)), topology=topology)
    other = toy.federation()
    holders = [toy.holder(30, Key.root(77) / k) if k > 2 else own for k, own in enumerate(other.holders)]
    changed = toy.world(fedavg(rounds=4, fit=FIT), given=replace(other, holders=holders))
    after = play(changed, topology=topology)
    for client in range(7):
        site = f"site/{client}"
        equal = same(before.steps[-1].states[site], after.steps[-1].states[site])
        assert equal == (client < 3)


def test_on_a_ring_disagreement_falls_at_the_rate_of_the_second_eigenvalue() -> None:
    topology = mesh(8, name="ring")
    world = still_world((6,) * 8, Uniform(), 40)
    seen = np.array([consensus(each) for each in scattered(world, topology)])
    rate = np.polyfit(np.arange(10, 31), np.log(seen[10:31]), 1)[0]
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(mixing_matrix(topology, np.ones(8)))))
    assert rate == pytest.approx(np.log(eigenvalues[-2]), rel=0.05)


def test_one_round_of_mixing_is_the_mixing_matrix() -> None:
    sizes = (4, 9, 2, 7, 5)
    topology = mesh(5, name="edges", pairs=[[0, 1], [1, 2], [2, 3], [1, 3], [3, 4]])
    first, second = scattered(still_world(sizes, ByRows(), 1), topology)
    expected = mixing_matrix(topology, np.array(sizes, dtype=np.float64)) @ first
    assert np.allclose(second, expected, atol=1e-6)


def test_the_consensus_distance_in_the_records_is_that_of_the_states() -> None:
    played = play(toy.world(fedavg(rounds=3, fit=FIT)), topology=mesh(7, name="ring"))
    world = toy.world(fedavg(rounds=3, fit=FIT))
    expected = [consensus(_matrix(world.model, step.states)) for step in played.steps if step.round]
    assert facts(played, "consensus") == pytest.approx(expected, rel=1e-12)
    own = [facts(played, "distance", f"site/{client}")[-1] for client in range(7)]
    assert np.sqrt(np.mean(np.square(own))) == pytest.approx(expected[-1], rel=1e-12)


@pytest.mark.parametrize("mixing", ["algorithm", "metropolis"])
def test_in_the_long_run_peers_count_as_the_stationary_vector_says(mixing: str) -> None:
    sizes = (3, 8, 5, 6, 4)
    topology = mesh(5, name="hub_mesh", mixing=mixing)
    path = scattered(still_world(sizes, ByRows(), 60), topology)
    n = np.array(sizes, dtype=np.float64)
    matrix = mixing_matrix(topology, n)
    near = np.array([n[sorted(topology.graph(1)[k] | {k})].sum() for k in range(5)])
    stationary = n * near / (n * near).sum() if mixing == "algorithm" else np.full(5, 0.2)
    if mixing == "algorithm":
        assert np.allclose(stationary @ matrix, stationary, atol=1e-12)
        assert stationary[0] > n[0] / n.sum()
    for row in path[-1]:
        assert np.allclose(row, stationary @ path[0], atol=1e-4)


def test_metropolis_gives_the_weight_of_a_silent_neighbour_to_the_peer_itself() -> None:
    topology = mesh(3, name="complete", mixing="metropolis")
    assert topology.mixing("site/0", 1) == pytest.approx({1: 1 / 3, 2: 1 / 3, 0: 1 / 3})
    world = World(
        toy.federation((6, 6, 6)),
        toy.world(fedavg(), norms=False).model,
        fedavg(rounds=6, fit=STILL),
        Key.root(0),
        faults=Faults(lost=0.4),
    )
    played = play(world, topology=topology)
    weights: dict[tuple[int, str], dict[str, float]] = {}
    for step in played.steps:
        for fact in step.facts:
            if fact.what.startswith("site/") and fact.what.endswith("/weight"):
                weights.setdefault((step.round, fact.what), {})[fact.who] = float(str(fact.value))
    seen = {
        tuple(sorted(round(weight, 6) for weight in each.values()))
        for (_, what), each in weights.items()
        if f"client/{what.split('/')[1]}" in each
    }
    third = round(1 / 3, 6)
    assert (third, round(2 / 3, 6)) in seen
    assert seen <= {(third, third, third), (third, round(2 / 3, 6)), (1.0,)}


def test_a_crashed_peer_keeps_its_model() -> None:
    world = World(
        toy.federation((6,) * 6),
        toy.world(fedavg(), norms=False).model,
        fedavg(rounds=4, fit=FIT),
        Key.root(1),
        faults=Faults(crash=0.3),
    )
    played = play(world, topology=mesh(6, name="ring"))
    crashes = 0
    for before, after in pairwise(played.steps):
        for client in range(6):
            down = world.fault(0, after.round, client) == "crash"
            crashes += down
            kept = same(before.states[f"site/{client}"], after.states[f"site/{client}"])
            assert kept == down
    assert crashes


def test_bytes_are_counted_by_link() -> None:
    topology = mesh(7, name="edges", pairs=[[0, 1], [1, 2], [1, 3], [3, 4], [4, 5], [5, 6]])
    played = play(toy.world(fedavg(rounds=2, fit=FIT)), topology=topology)
    size = nbytes(played.steps[0].states["site/0"].params) + 8
    sent = {client: facts(played, "bytes/sent", f"site/{client}") for client in range(7)}
    degree = {client: len(near) for client, near in topology.graph(1).items()}
    assert sent == {client: [size * degree[client]] * 2 for client in range(7)}
    assert facts(played, "bytes/up") == [12 * size] * 2
    assert facts(played, "bytes/down") == []


def test_the_graph_is_in_the_records() -> None:
    topology = mesh(7, name="erdos_renyi", p=0.5, redraw=2)
    played = play(toy.world(fedavg(rounds=4, fit=FIT)), topology=topology)
    first = {
        fact.who: fact.value for fact in played.facts if (fact.stage, fact.what) == ("topology", "neighbours")
    }
    assert first == {f"site/{k}": sorted(near) for k, near in topology.graph(1).items()}
    changed = {fact.round for fact in played.facts if (fact.stage, fact.what) == ("train", "neighbours")}
    assert changed == {3}


def test_each_node_is_scored_and_so_is_their_mean() -> None:
    played = play(toy.world(fedavg(rounds=2, fit=FIT)), topology=mesh(7, name="ring"))
    sites = {site: tally for (site, test), tally in played.scores.sites.items() if test == "global"}
    assert sorted(sites) == [f"site/{client}" for client in range(7)]
    figures = {round(tally.figures()["loss"], 9) for tally in sites.values() if tally is not None}
    assert len(figures) == 7


def test_resuming_a_mesh_or_a_hub_gives_the_same_bits_and_records() -> None:
    for topology in (mesh(7, name="erdos_renyi", p=0.5, redraw=2), Rotating(7, Key.root(1))):
        world = toy.world(fedavg(rounds=4, fit=FIT))
        whole = play(world, topology=topology)
        rest = play(world, topology=topology, after=(whole.steps[2], whole.snapshots[2]))
        assert rest.fingerprint == whole.fingerprint
        later = [fact for step in whole.steps[3:] for fact in step.facts if fact.what != "seconds"]
        assert rest.facts == later


def test_a_mesh_without_edges_knows_only_itself() -> None:
    topology = Mesh({0: frozenset(), 1: frozenset()})
    assert topology.hears("site/1", 1, "neighbours") == topology.hears("site/1", 1, "all") == frozenset({1})
    assert topology.degree(1, 1, "all") == 0
