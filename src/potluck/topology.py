"""Who merges, and whom a merge site hears.

A server is a site that hears everyone; a peer is a site that hears its neighbours. The same `merge` runs at
both, so every algorithm is decentralised for free. Rounds are counted anew in every stage, and so are the
schedules of hosts and graphs: all algorithms meet the same host and the same graph in the same round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from potluck.core import Reach
from potluck.key import Key

Neighbours = Mapping[int, frozenset[int]]
"""An undirected graph: the neighbours of each client, without itself."""

Down = Callable[[int, int], bool]
"""Tells whether in a round (first) a client (second) is out of order."""


class Topology(ABC):
    """Who merges in a round, and what is heard there."""

    kind: str

    @abstractmethod
    def sites(self, clients: Sequence[int]) -> list[str]:
        """Return the names of the sites that merge."""

    @abstractmethod
    def home(self, client: int) -> str:
        """Return the site whose view a client is shown."""

    @abstractmethod
    def owner(self, site: str) -> int | None:
        """Return the client that a site belongs to, if it is a peer's."""

    @abstractmethod
    def hears(self, site: str, round: int, reach: Reach) -> frozenset[int] | None:
        """Return the clients whose answers a site merges; None means all."""

    def mixing(self, site: str, round: int) -> Mapping[int, float] | None:
        """Return fixed mixing weights by client, or None to let the algorithm weigh."""
        return None

    def degree(self, client: int, round: int, reach: Reach) -> int:
        """Return how many links an answer of this client crosses."""
        return 1

    def graph(self, round: int) -> Neighbours:
        """Return the links between clients in a round; none unless the topology is a mesh."""
        return {}

    def host(self, round: int, down: Down) -> int | None:
        """Return the client that does the merging of a round, if the site moves among clients."""
        return None


@dataclass(frozen=True)
class Star(Topology):
    """One server that hears every client."""

    kind = "star"

    def sites(self, clients: Sequence[int]) -> list[str]:
        """Return the one site."""
        return ["server"]

    def home(self, client: int) -> str:
        """Return the server."""
        return "server"

    def owner(self, site: str) -> int | None:
        """Return None: a server holds no data."""
        return None

    def hears(self, site: str, round: int, reach: Reach) -> frozenset[int] | None:
        """Return None: everyone."""
        return None


@dataclass(frozen=True)
class Rotating(Topology):
    """One logical site, the hub, that hears everyone and is hosted by one client after the other.

    The schedule is a seeded permutation of the clients for each turn around, so that everybody computes it
    alike and hosts once a turn, `every` rounds long. A host that is down is skipped; if all are, the last
    one keeps the state.
    """

    clients: int
    key: Key
    every: int = 1

    kind = "rotating"

    def sites(self, clients: Sequence[int]) -> list[str]:
        """Return the one site."""
        return ["hub"]

    def home(self, client: int) -> str:
        """Return the hub."""
        return "hub"

    def owner(self, site: str) -> int | None:
        """Return None: the hub hears its host as it hears all others."""
        return None

    def hears(self, site: str, round: int, reach: Reach) -> frozenset[int] | None:
        """Return None: everyone."""
        return None

    def host(self, round: int, down: Down) -> int | None:
        """Return the first client of the schedule that works, or the last host that did."""
        for number in range(round, 0, -1):
            for client in self.scheduled(number):
                if not down(number, client):
                    return client
        return next(self.scheduled(1))

    def scheduled(self, round: int) -> Iterator[int]:
        """Yield the clients in the order in which they are asked to host a round."""
        turn, place = divmod((round - 1) // self.every, self.clients)
        order = (self.key / "hosts" / turn).numpy().permutation(self.clients)
        yield from (int(order[(place + step) % self.clients]) for step in range(self.clients))


@dataclass(frozen=True)
class Mesh(Topology):
    """Every client is a site that hears itself and its neighbours; without edges everybody trains alone.

    `redrawn` gives another graph to every round. With `metropolis` the weights are
    w_ij = 1 / (1 + max(d_i, d_j)) for neighbours and the rest for i itself (Xiao, Boyd and Kim, JPDC 2007):
    rows and columns sum to 1, so that all peers count alike in the long run. Else the algorithm weighs the
    closed neighbourhood, and peers with many neighbours count more.
    """

    neighbours: Neighbours
    metropolis: bool = False
    redrawn: Callable[[int], Neighbours] | None = None

    kind = "mesh"

    def sites(self, clients: Sequence[int]) -> list[str]:
        """Return one site per client."""
        return [f"site/{client}" for client in clients]

    def home(self, client: int) -> str:
        """Return the client's own site."""
        return f"site/{client}"

    def owner(self, site: str) -> int | None:
        """Return the client whose site it is."""
        return int(site.removeprefix("site/"))

    def graph(self, round: int) -> Neighbours:
        """Return the links of a round; those of round 0 are those of round 1."""
        return self.neighbours if self.redrawn is None else self.redrawn(max(round, 1))

    def hears(self, site: str, round: int, reach: Reach) -> frozenset[int] | None:
        """Return the peer itself and its neighbours, or with `all` its connected component."""
        own, graph = int(site.removeprefix("site/")), self.graph(round)
        return graph.get(own, frozenset()) | {own} if reach == "neighbours" else component(graph, own)

    def mixing(self, site: str, round: int) -> Mapping[int, float] | None:
        """Return Metropolis weights over the closed neighbourhood, or None to let the algorithm weigh."""
        if not self.metropolis:
            return None
        own, graph = int(site.removeprefix("site/")), self.graph(round)
        near = sorted(graph.get(own, frozenset()))
        weights = {peer: 1 / (1 + max(len(near), len(graph[peer]))) for peer in near}
        return weights | {own: 1 - sum(weights.values())}

    def degree(self, client: int, round: int, reach: Reach) -> int:
        """Return how many links an answer crosses: to each neighbour, or all of a flooded component."""
        graph = self.graph(round)
        if reach == "neighbours":
            return len(graph.get(client, frozenset()))
        return sum(len(graph.get(peer, frozenset())) for peer in component(graph, client))


def component(graph: Neighbours, start: int) -> frozenset[int]:
    """Return all clients that a message from `start` can reach."""
    seen, border = {start}, [start]
    while border:
        for neighbour in graph.get(border.pop(), frozenset()) - seen:
            seen.add(neighbour)
            border.append(neighbour)
    return frozenset(seen)


def alone(clients: Sequence[int]) -> Mesh:
    """Return the mesh without edges."""
    return Mesh({client: frozenset() for client in clients})
