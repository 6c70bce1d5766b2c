"""Law 12: what crosses in a training round is what the method's file states."""

from __future__ import annotations

import inspect
import sys

import pytest
from tests.laws.test_laws import built

from potluck.algorithms import ALGORITHMS
from potluck.laws import toy
from potluck.laws.engines import play

SILENT = ("alone", "pooled")
"""Reference settings: nothing crosses, or the rows themselves would."""


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - set(SILENT)))
def test_the_stated_bytes_cross(name: str) -> None:
    world = toy.world(built(name), participation=1.0)
    stated = sys.modules[ALGORITHMS[name].__module__].wire
    heard = sum(len(holder.train) > 0 for holder in world.federation.holders)
    arguments = (heard,) if "clients" in inspect.signature(stated).parameters else ()
    down, up = stated(world.model, *arguments)
    facts = play(world).facts
    trained = world.algorithm.stages[-1].stream
    last = max(fact.round for fact in facts if fact.stage == trained)
    crossed = {
        fact.what: fact.value
        for fact in facts
        if (fact.stage, fact.round, fact.who) == (trained, last, "server")
    }
    people = crossed["asked"]
    assert (crossed["bytes/down"], crossed["bytes/up"]) == (people * down, people * up)
