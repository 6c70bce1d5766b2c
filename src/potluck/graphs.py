"""Graphs of clients: drawn from a key with networkx until they are connected, or read from an edge list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import networkx as nx

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.topology import Neighbours

TRIES = 100
Pair = tuple[int, int]


def neighbours(graph: nx.Graph[int]) -> dict[int, frozenset[int]]:
    """Return the neighbours of each client, ascending by client; a link to oneself says nothing."""
    return {client: frozenset(graph[client]) - {client} for client in sorted(graph.nodes)}


def draw(name: str, make: Callable[[int], nx.Graph[int]], key: Key, connected: bool) -> Neighbours:
    """Draw a graph; until it is connected where it must be, but not more than 100 times."""
    for attempt in range(TRIES if connected else 1):
        graph = make((key / attempt).integer())
        if not connected or nx.is_connected(graph):
            return neighbours(graph)
    raise BadInputError(
        f"topology: {TRIES} draws of {name} gave no connected graph; "
        f"ask for more links, or set connected = false"
    )


def read_pairs(file: Path) -> list[Pair]:
    """Read an edge list: two client numbers a line, parted by blanks or a comma; # starts a comment."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise BadInputError(f"topology.file: {file}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"topology.file: {file}: is not a text file of edges") from error
    pairs: list[Pair] = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
            raise BadInputError(
                f"topology.file: {file}, line {number}: must be two client numbers, such as 0 3, "
                f"got {line.strip()!r}"
            )
        pairs.append((int(words[0]), int(words[1])))
    return pairs


def linked(clients: int, pairs: Iterable[Sequence[int]], where: str, connected: bool) -> Neighbours:
    """Return the graph of an edge list; its clients must be known, and connected if they must be."""
    graph: nx.Graph[int] = nx.empty_graph(clients)
    for pair in pairs:
        if len(pair) != 2:
            raise BadInputError(f"{where}: edge {list(pair)}: must be two client numbers, such as [0, 3]")
        one, other = pair
        strange = [client for client in (one, other) if not 0 <= client < clients]
        if strange:
            raise BadInputError(
                f"{where}: edge {one} {other}: there is no client {strange[0]}; they are 0 to {clients - 1}"
            )
        if one == other:
            raise BadInputError(f"{where}: edge {one} {other}: joins a client to itself; delete it")
        graph.add_edge(one, other)
    if connected and not nx.is_connected(graph):
        lonely = min(nx.connected_components(graph), key=lambda part: (len(part), min(part)))
        raise BadInputError(
            f"{where}: the graph is not connected (clients {', '.join(map(str, sorted(lonely)[:5]))} "
            f"cannot reach the others); add edges, or set connected = false"
        )
    return neighbours(graph)
