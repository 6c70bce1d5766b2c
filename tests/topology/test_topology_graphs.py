"""The graphs of a mesh: what each name gives, that keys decide them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from potluck.config import experiment
from potluck.errors import BadInputError
from potluck.key import Key
from potluck.topologies import TOPOLOGIES
from potluck.topology import Neighbours, Topology

KEY = Key.root(3) / "topology"
DEALT = {"name": "iid", "clients": 3}


def made(clients: int, key: Key = KEY, **spec: Any) -> Topology:
    return experiment({"name": "t", "partition": DEALT, "topology": spec}).build_topology(clients, key)


def edge_set(graph: Neighbours) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, near in graph.items() for b in near}


def as_networkx(graph: Neighbours) -> nx.Graph[int]:
    out: nx.Graph[int] = nx.Graph()
    out.add_nodes_from(graph)
    out.add_edges_from(edge_set(graph))
    return out


def test_the_named_graphs_are_what_they_say() -> None:
    assert edge_set(made(5, name="ring").graph(1)) == {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)}
    assert len(edge_set(made(7, name="complete").graph(1))) == 21
    assert edge_set(made(4, name="hub_mesh", centre=2).graph(1)) == {(0, 2), (1, 2), (2, 3)}
    assert edge_set(made(6, name="edgeless").graph(1)) == set()
    assert {len(near) for near in made(10, name="random_regular", degree=3).graph(1).values()} == {3}
    assert len(edge_set(made(12, name="small_world", k=4, p=0.2).graph(1))) == 24
    assert len(edge_set(made(6, name="erdos_renyi", p=1.0).graph(1))) == 15
    assert made(6, name="star").graph(1) == {}


@pytest.mark.parametrize("name", ["ring", "complete", "hub_mesh", "edgeless", "erdos_renyi", "edges"])
@pytest.mark.parametrize("clients", [1, 2])
def test_one_or_two_clients_will_do(name: str, clients: int) -> None:
    pairs: dict[str, Any] = {"pairs": [[0, 1]][: clients - 1]} if name == "edges" else {}
    topology = made(clients, name=name, **pairs)
    expected = set() if clients == 1 or name == "edgeless" else {(0, 1)}
    assert edge_set(topology.graph(1)) == expected
    assert topology.hears("site/0", 1, "all") == frozenset(range(clients) if expected else [0])


@settings(max_examples=40, deadline=None)
@given(
    name=some.sampled_from(["random_regular", "erdos_renyi", "small_world"]),
    clients=some.integers(3, 7).map(lambda half: 2 * half),
    seed=some.integers(0, 50),
    round=some.integers(1, 9),
)
def test_a_random_graph_is_connected_undirected_and_decided_by_its_key(
    name: str, clients: int, seed: int, round: int
) -> None:
    key = Key.root(seed) / "topology"
    graph = made(clients, key, name=name, redraw=2).graph(round)
    assert sorted(graph) == list(range(clients))
    assert nx.is_connected(as_networkx(graph))
    assert all(a in graph[b] and a != b for a, near in graph.items() for b in near)
    assert made(clients, key, name=name, redraw=2).graph(round) == graph


def test_the_key_of_a_run_reaches_its_graph() -> None:
    drawn = {str(edge_set(made(10, Key.root(s) / "topology", name="erdos_renyi").graph(1))) for s in range(5)}
    assert len(drawn) == 5


def test_redraw_changes_the_graph_every_n_rounds_and_not_in_between() -> None:
    topology = made(10, name="erdos_renyi", p=0.4, redraw=3)
    graphs = [topology.graph(number) for number in range(10)]
    assert graphs[0] == graphs[1] == graphs[2] == graphs[3]
    assert graphs[3] != graphs[4] == graphs[5] == graphs[6] != graphs[7]
    still = made(10, name="erdos_renyi", p=0.4)
    assert still.graph(1) == still.graph(99) == graphs[1]


def test_metropolis_weights_are_symmetric_and_doubly_stochastic() -> None:
    topology = made(9, name="erdos_renyi", p=0.35, mixing="metropolis")
    matrix = np.zeros((9, 9))
    for client in range(9):
        for peer, weight in (topology.mixing(f"site/{client}", 1) or {}).items():
            matrix[client, peer] = weight
    assert (matrix >= 0).all()
    assert np.allclose(matrix, matrix.T, atol=1e-15)
    assert np.allclose(matrix.sum(axis=0), 1, atol=1e-12)
    degrees = [len(near) for near in topology.graph(1).values()]
    a, b = next(iter(edge_set(topology.graph(1))))
    assert matrix[a, b] == pytest.approx(1 / (1 + max(degrees[a], degrees[b])), rel=1e-15)
    assert made(9, name="ring").mixing("site/0", 1) is None


def test_an_edge_list_may_have_comments_commas_blank_lines_and_repeats(tmp_path: Path) -> None:
    file = tmp_path / "edges.txt"
    file.write_text("# who talks to whom\n0 1\n1, 2   # the bridge\n\n2\t3\n1 0\n", encoding="utf-8")
    topology = made(4, name="edges", file=str(file))
    assert edge_set(topology.graph(1)) == {(0, 1), (1, 2), (2, 3)}
    assert made(4, name="edges", pairs=[[0, 1], [1, 2], [2, 3]]).graph(1) == topology.graph(1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0 1\n1 x\n", r"line 2: must be two client numbers, such as 0 3, got '1 x'"),
        ("0 1 2\n", r"line 1: must be two client numbers"),
        ("0 -1\n", r"line 1: must be two client numbers"),
        ("0 1\n1 2\n2 7\n", r"edge 2 7: there is no client 7; they are 0 to 3"),
        ("0 0\n", r"edge 0 0: joins a client to itself"),
        ("0 1\n2 3\n", r"not connected \(clients 0, 1 cannot reach the others\).*connected = false"),
        ("", r"not connected \(clients 0 cannot"),
    ],
)
def test_a_bad_edge_list_is_refused_in_one_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "edges.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=complaint) as caught:
        made(4, name="edges", file=str(file))
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_broken_file_and_other_bad_input_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "edges.bin"
    file.write_bytes(b"\xff\xfe\x00")
    cases: list[tuple[int, dict[str, Any], str]] = [
        (4, {"name": "edges", "file": str(file)}, "is not a text file of edges"),
        (4, {"name": "edges", "file": str(tmp_path)}, "is not a text file of edges"),
        (4, {"name": "edges", "file": str(tmp_path / "none")}, "no such file"),
        (4, {"name": "edges"}, "either file or pairs"),
        (4, {"name": "edges", "file": str(file), "pairs": [[0, 1]]}, "either file or pairs"),
        (3, {"name": "edges", "pairs": [[0, 5]]}, "there is no client 5"),
        (3, {"name": "edges", "pairs": [[0, 1, 2]]}, r"edge \[0, 1, 2\]: must be two client numbers"),
        (5, {"name": "random_regular", "degree": 3}, "no graph of 5 clients has 3 neighbours each"),
        (4, {"name": "random_regular", "degree": 4}, "no graph of 4 clients has 4 neighbours each"),
        (4, {"name": "small_world", "k": 4}, "below the number of clients"),
        (30, {"name": "erdos_renyi", "p": 0.01}, "100 draws of erdos_renyi.*gave no connected graph"),
        (4, {"name": "hub_mesh", "centre": 4}, "there is no client 4"),
    ]
    for clients, spec, complaint in cases:
        with pytest.raises(BadInputError, match=complaint):
            made(clients, **spec)
    plain: list[tuple[dict[str, Any], str]] = [
        ({"name": "small_world", "k": 3}, "multiple of 2"),
        ({"name": "erdos_renyi", "p": 1.5}, "p: must be"),
        ({"name": "rotating", "every": 0}, "every: must be"),
        ({"name": "rng"}, "ring"),
        ({"name": "ring", "mixing": "mean"}, "mixing"),
    ]
    for spec, complaint in plain:
        with pytest.raises(BadInputError, match=complaint):
            experiment({"name": "t", "partition": DEALT, "topology": spec})


def test_a_graph_in_parts_is_allowed_when_asked_for() -> None:
    topology = made(4, name="edges", pairs=[[0, 1], [2, 3]], connected=False)
    assert topology.hears("site/0", 1, "all") == frozenset({0, 1})
    assert topology.degree(0, 1, "all") == 2
    sparse = made(30, name="erdos_renyi", p=0.01, connected=False).graph(1)
    assert not nx.is_connected(as_networkx(sparse))


def test_every_topology_says_in_one_line_what_it_is() -> None:
    for name, factory in TOPOLOGIES.items():
        assert factory.__doc__, name
        assert factory.__doc__.splitlines()[0].endswith("."), name
