"""The driver: cohorts, order, memories that roll back, stages one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.core import Algorithm, Client, Draw, Inbox, Merged, Reply, Sent, Site, Stage
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import Bench
from potluck.memory import Memories
from potluck.rounds import Step, in_order, rounds
from potluck.topology import Star, alone
from potluck.transport.codec import Codec
from potluck.visit import Answer, Call
from potluck.world import Faults, Stragglers, World


class Seen(NamedTuple):
    clients: tuple[int, ...]
    past: Any


class Number(NamedTuple):
    value: float


@dataclass(frozen=True)
class Count(Stage[Seen, Number, Number]):
    """Count visits in memory, and write down who was heard and when to stop. Oracle of 2026."""

    rounds: int = 3
    stream: str = "train"
    enough: int = 99
    reject: int = -1
    lazy: bool = False
    messages: ClassVar[tuple[type, ...]] = (Seen, Number)
    tell: ClassVar[tuple[str, ...]] = ("told",)

    def init(self, site: Site, past: Any) -> Merged[Seen]:
        return Merged(Seen((), past), {"begun": site.name})

    def view(self, state: Seen, client: int) -> Number:
        return Number(float(client))

    def local(self, view: Number, client: Client) -> Reply[Number]:
        assert view.value == client.id
        visits = client.memory.get(f"{self.stream}/visits", 0) + 1
        log = {"visits": visits, "told": 1.0}
        return Reply(Number(view.value), {f"{self.stream}/visits": visits}, log)

    def merge(self, state: Seen, inbox: Inbox[Number]) -> Merged[Seen]:
        if self.lazy:
            return Merged(state)
        heard = tuple(sent.client for sent in inbox.stream())
        notes = {self.reject: "nonfinite_state"} if self.reject in heard else {}
        return Merged(Seen((*state.clients, *heard), state.past), {"client/2/mark": 7}, notes)

    def done(self, state: Seen) -> bool:
        return len(state.clients) >= self.enough


def played(world: World, *, after: Step | None = None) -> tuple[list[Step], Memories]:
    memories = Memories(Codec(world.algorithm.messages))
    topology = alone(world.clients) if world.algorithm.setting == "alone" else Star()
    return list(rounds(world, Bench(world, shuffle=True), topology, memories, after=after)), memories


def world(*stages: Count, **changes: Any) -> World:
    made = toy.world(Algorithm(stages or (Count(),), "count"), participation=1.0)
    return replace(made, **changes)


def facts(step: Step, what: str) -> dict[str, Any]:
    return {fact.who: fact.value for fact in step.facts if fact.what == what}


def test_answers_are_heard_in_client_order_however_they_come() -> None:
    steps, memories = played(world())
    assert [(step.round, step.last) for step in steps] == [(0, False), (1, False), (2, False), (3, True)]
    assert steps[-1].states["server"].clients == tuple(range(7)) * 3
    assert {client: dict(memories.read(client)) for client in (0, 6)} == {
        0: {"train/visits": 3},
        6: {"train/visits": 3},
    }
    assert facts(steps[1], "mark") == {"client/2": 7}
    assert facts(steps[2], "visits") == {f"client/{client}": 2 for client in range(7)}


def test_bytes_are_those_of_views_answers_and_tells() -> None:
    step = played(world())[0][1]
    assert facts(step, "bytes/down") == {"server": 7 * 8}
    assert facts(step, "bytes/up") == {"server": 7 * 8}
    assert facts(step, "bytes/tell") == {"server": 7 * 8}
    assert facts(step, "bytes/up/value") == {"server": 7 * 8}


def test_stages_follow_one_another_and_hand_on_their_states() -> None:
    steps, memories = played(world(Count(rounds=1, stream="census"), Count(rounds=2)))
    assert [(step.stage, step.round) for step in steps] == [
        ("census", 0),
        ("census", 1),
        ("train", 0),
        ("train", 1),
        ("train", 2),
    ]
    assert steps[-1].states["server"].past.clients == tuple(range(7))
    assert dict(memories.read(3)) == {"census/visits": 1, "train/visits": 2}


def test_a_stage_may_end_early() -> None:
    steps, _ = played(world(Count(rounds=9, enough=14)))
    assert [(step.round, step.last) for step in steps] == [(0, False), (1, False), (2, True)]


@pytest.mark.parametrize("position", range(5))
def test_the_rest_of_a_run_is_the_same(position: int) -> None:
    given_world = world(Count(rounds=1, stream="census"), Count(rounds=2))
    whole, _ = played(given_world)
    rest, _ = played(given_world, after=whole[position])
    assert [(step.position, step.round) for step in rest] == [
        (step.position, step.round) for step in whole[position + 1 :]
    ]
    assert [step.states for step in rest] == [step.states for step in whole[position + 1 :]]


def test_the_memory_of_a_rejected_answer_rolls_back() -> None:
    steps, memories = played(world(Count(reject=4)))
    assert dict(memories.read(4)) == {}
    assert dict(memories.read(5)) == {"train/visits": 3}
    assert facts(steps[1], "reason") == {"client/4": "nonfinite_state"}


@pytest.mark.parametrize("fault", ["lost", "late", "crash"])
def test_an_answer_that_does_not_arrive_was_never_given(fault: str) -> None:
    faulty = world(faults=Faults(**{fault: 0.5}))
    steps, memories = played(faulty)
    heard = list(steps[-1].states["server"].clients)
    for client in range(7):
        assert dict(memories.read(client)).get("train/visits", 0) == heard.count(client)
    missed = [who for step in steps for who, reason in facts(step, "reason").items() if reason == fault]
    assert len(missed) + len(heard) == 21
    assert 0 < len(missed) < 21


def test_a_straggler_is_not_heard_where_partial_work_is_of_no_use() -> None:
    steps, _ = played(world(stragglers=Stragglers(share=1.0)))
    assert steps[-1].states["server"].clients == ()
    assert set(facts(steps[1], "reason").values()) == {"straggler"}


def test_what_a_merge_leaves_unread_was_answered_all_the_same() -> None:
    steps, memories = played(world(Count(lazy=True)))
    assert dict(memories.read(6)) == {"train/visits": 3}
    assert facts(steps[1], "bytes/up") == {"server": 56}


def test_alone_everybody_hears_only_itself() -> None:
    by_itself = replace(world(), algorithm=Algorithm((Count(),), "count", setting="alone"))
    steps, _ = played(by_itself)
    assert steps[-1].states["site/3"].clients == (3, 3, 3)
    assert {fact.value for step in steps for fact in step.facts if fact.what == "bytes/up"} == {0}


@given(clients=st.integers(1, 60), participation=st.floats(0.01, 1.0), seed=st.integers(0, 99))
def test_a_cohort_is_a_draw_without_replacement(clients: int, participation: float, seed: int) -> None:
    key = Key.root(seed) / "train" / "cohort" / 1
    draw = Draw(list(range(clients)), participation, key)
    chosen = list(Count().cohort(Seen((), None), draw))
    assert chosen == sorted(set(chosen))
    assert len(chosen) == max(1, int(participation * clients + 0.5))
    assert set(chosen) <= set(range(clients))
    assert chosen == list(Count().cohort(Seen((), None), draw))


@given(st.permutations(range(9)))
def test_answers_are_put_in_the_order_of_the_calls(order: Sequence[int]) -> None:
    calls = [Call("local", 0, 1, client, None) for client in range(9)]
    arrived: Iterator[tuple[int, Answer]] = ((position, Answer(position)) for position in order)
    assert [answer.client for _, answer in in_order(calls, arrived)] == list(range(9))


def test_an_inbox_can_be_streamed_or_held() -> None:
    def fresh() -> Inbox[Number]:
        answers = [Sent(2, Number(1.5)), Sent(5, Number(2.5))]
        return Inbox(answers, key=Key.root(0), population=range(6))

    assert [sent.client for sent in fresh().stream()] == [2, 5]
    held = fresh()
    assert held.scalars("value") == {2: 1.5, 5: 2.5}
    assert [sent.client for sent in held.stream()] == [2, 5]
    assert len(held.answers) == 2
    once = fresh()
    assert len(list(once.stream())) == 2
    assert list(once.stream()) == []


def test_streams_of_stages_must_differ() -> None:
    with pytest.raises(ValueError, match="two stages share a stream name"):
        Algorithm((Count(), Count()), "twice")
    with pytest.raises(ValueError, match="has no stage"):
        Algorithm((), "empty")


def test_hostile_clients_are_the_same_in_all_rounds() -> None:
    hostile = world(faults=Faults(hostile=0.4)).hostile
    assert len(hostile) == 3
    assert hostile == world(faults=Faults(hostile=0.4)).hostile
    assert not world().hostile
