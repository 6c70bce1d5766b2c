"""Who merges, and whom a merge site hears.

A server is a site that hears everyone; a peer is a site that hears its neighbours. The same `merge` runs at
both, so every algorithm is decentralised for free.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from potluck.core import Reach


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
class Mesh(Topology):
    """Every client is a site that hears itself and its neighbours; without edges everybody trains alone."""

    neighbours: Mapping[int, frozenset[int]]

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

    def hears(self, site: str, round: int, reach: Reach) -> frozenset[int] | None:
        """Return the peer itself and its neighbours, or with `all` its connected component."""
        own = int(site.removeprefix("site/"))
        near = self.neighbours.get(own, frozenset()) | {own}
        return near if reach == "neighbours" else self._component(own)

    def _component(self, start: int) -> frozenset[int]:
        seen, border = {start}, [start]
        while border:
            for neighbour in self.neighbours.get(border.pop(), frozenset()) - seen:
                seen.add(neighbour)
                border.append(neighbour)
        return frozenset(seen)

    def degree(self, client: int, round: int, reach: Reach) -> int:
        """Return how many links an answer crosses: to each neighbour, or a flood over the component."""
        if reach == "neighbours":
            return len(self.neighbours.get(client, frozenset()) - {client})
        return sum(len(self.neighbours.get(peer, frozenset()) - {peer}) for peer in self._component(client))


def alone(clients: Sequence[int]) -> Mesh:
    """Return the mesh without edges."""
    return Mesh({client: frozenset() for client in clients})
