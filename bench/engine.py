"""The engine's own cost: idle clients, and a real round of LeNet, on random data."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import torch
from raw import data

from potluck.average import Average, Down, Update
from potluck.core import Algorithm, Client, Inbox, Merged, Reply, Site, Stage
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.learn import Fit
from potluck.memory import Memories
from potluck.model import Model
from potluck.models import MODELS
from potluck.rounds import rounds
from potluck.table import Table
from potluck.topology import Star
from potluck.transport import open_transport
from potluck.transport.codec import Codec
from potluck.world import World


@dataclass(frozen=True)
class Idle(Stage[Any, Down, Update]):
    """FedAvg whose clients send back what they were shown: all that is left is the engine."""

    rounds: int = 20
    inner: Average = field(default_factory=Average)

    messages: ClassVar[tuple[type, ...]] = Average.messages

    def init(self, site: Site, past: Any) -> Merged[Any]:
        """Start as averaging does."""
        return self.inner.init(site, past)

    def view(self, state: Any, client: int) -> Down:
        """Show what averaging shows."""
        return self.inner.view(state, client)

    def local(self, view: Down, client: Client) -> Reply[Update]:
        """Answer at once."""
        return Reply(Update(view.params, len(client.train), {}, {}))

    def merge(self, state: Any, inbox: Inbox[Update]) -> Merged[Any]:
        """Merge as averaging does."""
        return self.inner.merge(state, inbox)


def federation(clients: int, rows: int) -> Federation:
    """Return random image clients, as in the raw loop."""
    x, y = data(clients, rows)
    empty = Table(x[0, :0], y[0, :0])
    return Federation(
        [Holder(Table(a, b), empty, empty) for a, b in zip(x, y, strict=True)], {}, 10, (3, 32, 32)
    )


def vectors(clients: int, rows: int, width: int) -> Federation:
    """Return random vector clients."""
    generator = torch.Generator().manual_seed(0)
    empty = Table(torch.zeros(0, width), torch.zeros(0, dtype=torch.int64))
    holders = [
        Holder(
            Table(
                torch.randn(rows, width, generator=generator),
                torch.randint(0, 10, (rows,), generator=generator),
            ),
            empty,
            empty,
        )
        for _ in range(clients)
    ]
    return Federation(holders, {}, 10, (width,))


def play(world: World, workers: int) -> list[float]:
    """Return the seconds of each round after the first."""
    torch.set_num_threads(1)
    memories = Memories(Codec(world.algorithm.messages))
    ends = []
    with open_transport(world, workers) as transport:
        for step in rounds(world, transport, Star(), memories):
            if step.round:
                ends.append(time.perf_counter())
    return [after - before for before, after in pairwise(ends)]


def idle_milliseconds(workers: int, clients: int = 100) -> float:
    """Return the engine's own milliseconds per client: median round of idle clients, 784-200-200-10 network."""
    given = vectors(clients, 20, 784)
    model = Model(partial(MODELS["mlp"], given.shape, 10), shape=given.shape, classes=10)
    world = World(given, model, Algorithm((Idle(),)), Key.root(0))
    spans = sorted(play(world, workers))
    return 1e3 * spans[len(spans) // 2] / clients


def lenet_samples_per_second(workers: int = 2, clients: int = 30, rows: int = 1000, played: int = 4) -> float:
    """Return samples per second of whole FedAvg rounds with all clients: median of the rounds after the first."""
    given = federation(clients, rows)
    model = Model(partial(MODELS["lenet"], given.shape, 10), shape=given.shape, classes=10)
    stage = Average(played, Fit(lr=0.01, batch=64, epochs=2))
    spans = sorted(play(World(given, model, Algorithm((stage,)), Key.root(0)), workers))
    return clients * rows * 2 / spans[len(spans) // 2]
