"""A hub whose host moves: the same numbers as a server, a schedule, and the state handed over."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from potluck.algorithms.fedavg import fedavg
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import Played, play
from potluck.learn import Fit
from potluck.topology import Rotating, Star
from potluck.tree import nbytes, same
from potluck.world import Faults, World

FIT = Fit(lr=0.1, batch=8)
STILL = Fit(epochs=0)
DEALT = {"name": "iid", "clients": 3}
Floats = npt.NDArray[np.float64]


def facts(played: Played, what: str, who: str = "server", stage: str = "train") -> list[Any]:
    return [fact.value for fact in played.facts if (fact.what, fact.who, fact.stage) == (what, who, stage)]


def test_a_rotating_hub_computes_what_a_star_does() -> None:
    algorithm = fedavg(rounds=5, fit=FIT)
    star = play(toy.world(algorithm), topology=Star())
    hub = play(toy.world(algorithm), topology=Rotating(7, Key.root(1)))
    assert same(star.steps[-1].states["server"], hub.steps[-1].states["hub"])
    assert facts(hub, "effective_clients", "hub") == facts(star, "effective_clients")
    own = [fact for fact in star.facts if fact.what == "weight"]
    assert [fact for fact in hub.facts if fact.what == "weight"] == own


def test_the_host_moves_by_a_schedule_and_the_state_is_handed_over() -> None:
    algorithm = fedavg(rounds=14, fit=STILL)
    played = play(toy.world(algorithm, participation=1.0), topology=Rotating(7, Key.root(1)))
    hosts = facts(played, "host", "hub")
    assert sorted(hosts[:7]) == sorted(hosts[7:]) == list(range(7))
    assert hosts[:7] != hosts[7:]
    moves = sum(one != other for one, other in pairwise(hosts))
    state = nbytes(played.steps[-1].states["hub"])
    assert facts(played, "bytes/handover") == [state] * moves
    params = nbytes(played.steps[-1].states["hub"].params)
    assert facts(played, "bytes/down") == [6 * params] * 14
    assert facts(played, "bytes/up") == [6 * (params + 8)] * 14


def test_a_host_may_stay_for_several_rounds() -> None:
    played = play(toy.world(fedavg(rounds=6, fit=STILL)), topology=Rotating(7, Key.root(1), every=3))
    hosts = facts(played, "host", "hub")
    assert hosts[0] == hosts[1] == hosts[2] != hosts[3] == hosts[4] == hosts[5]


def test_a_dead_host_is_skipped_and_all_dead_leave_the_state_where_it_was() -> None:
    topology = Rotating(4, Key.root(2))
    plain = [next(topology.scheduled(number)) for number in range(1, 5)]
    second = list(topology.scheduled(2))
    down = {(2, second[0]), (3, 0), (3, 1), (3, 2), (3, 3)}
    hosts = [topology.host(number, lambda r, k: (r, k) in down) for number in range(1, 5)]
    assert hosts == [plain[0], second[1], second[1], plain[3]]
    assert topology.host(2, lambda r, k: True) == plain[0]
    world = World(
        toy.federation((6,) * 4),
        toy.world(fedavg(), norms=False).model,
        fedavg(rounds=12, fit=STILL),
        Key.root(1),
        faults=Faults(crash=0.4),
    )
    recorded = facts(play(world, topology=topology), "host", "hub")
    for number, host in enumerate(recorded, start=1):
        alive = [k for k in range(4) if world.fault(0, number, k) != "crash"]
        assert host in alive or not alive
    assert recorded != [next(topology.scheduled(number)) for number in range(1, 13)]
