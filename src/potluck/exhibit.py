"""What is written down once a run is over, for pictures: of each client where it is, and of the site's model.

It changes no score and is no traffic: what a client shows stays in its own log, as everything it logs.
"""

from __future__ import annotations

from collections.abc import Sequence

from potluck.memory import Memories
from potluck.rounds import Fact, Step
from potluck.topology import Topology
from potluck.world import NEWCOMER, World

MOST_CLIENTS = 50


def exhibit(
    world: World, topology: Topology, memories: Memories, step: Step, tests: Sequence[str] | None = None
) -> list[Fact]:
    """Return what the last stage shows of the first fifty clients, and of the first site on the first test (if any)."""
    stage, facts = world.stage(step.position), list[Fact]()
    if world.algorithm.setting != "pooled":
        for client in world.clients[:MOST_CLIENTS]:
            view = stage.deploy(step.states[topology.home(client)], client)
            facts += _shown(world, step, client, view, memories, f"client/{client}")
    site, state = next(iter(step.states.items()))
    if stage.serves(world.model_of(step.position)):
        for test in list(world.federation.tests if tests is None else tests)[:1]:
            facts += _shown(world, step, NEWCOMER, stage.deploy(state, NEWCOMER), memories, site, test)
    return facts


def _shown(
    world: World, step: Step, client: int, view: object, memories: Memories, who: str, test: str = ""
) -> list[Fact]:
    memory = {} if client == NEWCOMER else dict(memories.read(client).items())
    visited = world.client(step.position, "show", step.round, client, memory, scoring=True)
    with visited.key.ambient():
        table = world.federation.tests[test] if test else None
        shown = world.stage(step.position).show(view, visited, table)
    return [Fact(step.stage, step.round, who, what, value) for what, value in shown.items()]
