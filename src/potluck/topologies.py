"""Topologies by name. A factory takes the number of clients and the run's key for topologies first.

Random graphs are drawn from that key, so that every peer of a run computes the same graph without a message.
`mixing` is "algorithm" (the method weighs the closed neighbourhood; on irregular graphs peers with many
neighbours count more) or "metropolis" (fixed weights under which all peers count alike). With `redraw = n`
a random graph is drawn anew every n rounds. `connected = false` allows a graph in several parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import networkx as nx
from pydantic import Field

from potluck.errors import BadInputError
from potluck.graphs import draw, linked, neighbours, read_pairs
from potluck.key import Key
from potluck.topology import Mesh, Neighbours, Rotating, Star, Topology, alone

Mixing = Literal["algorithm", "metropolis"]
Count = Annotated[int, Field(ge=1)]
Redraw = Annotated[int, Field(ge=0)]
Chance = Annotated[float, Field(ge=0, le=1)]


def star(clients: int, key: Key) -> Topology:
    """One server that hears every client."""
    return Star()


def rotating(clients: int, key: Key, every: Count = 1) -> Topology:
    """A hub whose host moves among the clients by a seeded schedule, `every` rounds each."""
    return Rotating(clients, key, every)


def edgeless(clients: int, key: Key) -> Topology:
    """A mesh without edges: every client trains alone."""
    return alone(range(clients))


def ring(clients: int, key: Key, mixing: Mixing = "algorithm") -> Topology:
    """A mesh in which every client has two neighbours."""
    return _fixed(nx.cycle_graph(clients), mixing)


def complete(clients: int, key: Key, mixing: Mixing = "algorithm") -> Topology:
    """A mesh in which everybody is everybody's neighbour."""
    return _fixed(nx.complete_graph(clients), mixing)


def hub_mesh(
    clients: int, key: Key, centre: Annotated[int, Field(ge=0)] = 0, mixing: Mixing = "algorithm"
) -> Topology:
    """A mesh in which one client, the centre, is the only neighbour of all others."""
    pairs = [(centre, client) for client in range(clients) if client != centre]
    return Mesh(linked(clients, pairs, "topology.centre", True), mixing == "metropolis")


def random_regular(
    clients: int,
    key: Key,
    degree: Count = 3,
    mixing: Mixing = "algorithm",
    redraw: Redraw = 0,
    connected: bool = True,
) -> Topology:
    """A mesh drawn at random among those in which every client has `degree` neighbours."""
    if degree >= clients or degree * clients % 2:
        raise BadInputError(
            f"topology.degree: no graph of {clients} clients has {degree} neighbours each; "
            f"it must be below the number of clients, and one of the two even"
        )
    return _random(
        f"random_regular(degree = {degree})",
        lambda seed: nx.random_regular_graph(degree, clients, seed=seed),
        key,
        mixing,
        redraw,
        connected,
    )


def erdos_renyi(
    clients: int,
    key: Key,
    p: Chance = 0.5,
    mixing: Mixing = "algorithm",
    redraw: Redraw = 0,
    connected: bool = True,
) -> Topology:
    """A mesh in which every pair of clients is linked with probability p (Erdős and Rényi, 1959)."""
    return _random(
        f"erdos_renyi(p = {p})",
        lambda seed: nx.gnp_random_graph(clients, p, seed=seed),
        key,
        mixing,
        redraw,
        connected,
    )


def small_world(
    clients: int,
    key: Key,
    k: Annotated[int, Field(ge=2, multiple_of=2)] = 4,
    p: Chance = 0.1,
    mixing: Mixing = "algorithm",
    redraw: Redraw = 0,
    connected: bool = True,
) -> Topology:
    """A ring of k nearest, links rewired with probability p (Watts and Strogatz, Nature 1998)."""
    if k >= clients:
        raise BadInputError(f"topology.k: must be below the number of clients ({clients}), got {k}")
    return _random(
        f"small_world(k = {k}, p = {p})",
        lambda seed: nx.watts_strogatz_graph(clients, k, p, seed=seed),
        key,
        mixing,
        redraw,
        connected,
    )


def edges(
    clients: int,
    key: Key,
    file: str | None = None,
    pairs: list[list[int]] | None = None,
    mixing: Mixing = "algorithm",
    connected: bool = True,
) -> Topology:
    """A mesh from an edge list: a file with two client numbers a line, or pairs = [[0, 1], [1, 2]]."""
    if (file is None) == (pairs is None):
        raise BadInputError("topology: edges needs either file or pairs, and not both")
    where = "topology.pairs" if file is None else f"topology.file: {file}"
    listed: Sequence[Sequence[int]] = read_pairs(Path(file)) if file is not None else pairs or []
    return Mesh(linked(clients, listed, where, connected), mixing == "metropolis")


def _fixed(graph: nx.Graph[int], mixing: Mixing) -> Mesh:
    return Mesh(neighbours(graph), mixing == "metropolis")


def _random(
    name: str,
    make: Callable[[int], nx.Graph[int]],
    key: Key,
    mixing: Mixing,
    redraw: int,
    connected: bool,
) -> Mesh:
    """Return a mesh of one drawn graph, or of one for every `redraw` rounds (graph 0 is that of round 1)."""

    @lru_cache(maxsize=4)
    def drawn(number: int) -> Neighbours:
        return draw(name, make, key / "graph" / number, connected)

    def redrawn(round: int) -> Neighbours:
        return drawn((round - 1) // redraw)

    return Mesh(drawn(0), mixing == "metropolis", redrawn if redraw else None)


TOPOLOGIES: Mapping[str, Callable[..., Topology]] = {
    "complete": complete,
    "edgeless": edgeless,
    "edges": edges,
    "erdos_renyi": erdos_renyi,
    "hub_mesh": hub_mesh,
    "random_regular": random_regular,
    "ring": ring,
    "rotating": rotating,
    "small_world": small_world,
    "star": star,
}

__all__ = ["TOPOLOGIES", "Mesh"]
