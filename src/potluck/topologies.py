"""Topologies by name. A factory takes the number of clients first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from potluck.topology import Mesh, Star, Topology, alone


def star(clients: int) -> Topology:
    """One server that hears every client."""
    return Star()


def edgeless(clients: int) -> Topology:
    """A mesh without edges: every client trains alone."""
    return alone(range(clients))


TOPOLOGIES: Mapping[str, Callable[..., Topology]] = {
    "edgeless": edgeless,
    "star": star,
}

__all__ = ["TOPOLOGIES", "Mesh"]
