"""The driver: a generator that plays an algorithm's stages round by round.

What other frameworks do with callbacks is the body of the caller's loop: journal, evaluate, save, stop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from potluck.core import REJECTIONS, Draw, Inbox, Merged, Sent, Stage, Value
from potluck.errors import RunError
from potluck.memory import Memories
from potluck.topology import Topology
from potluck.transport import Transport
from potluck.tree import leaf_bytes, leaves
from potluck.visit import Answer, Call, Kind
from potluck.world import World


class Fact(NamedTuple):
    """One row of the records: in which stage and round, about whom, what, and how much."""

    stage: str
    round: int
    who: str
    what: str
    value: Value


class Step(NamedTuple):
    """A played round: where the run stands now. Round 0 is a stage's start, before any answer."""

    position: int
    stage: str
    round: int
    last: bool
    states: Mapping[str, Any]
    facts: Sequence[Fact]


@dataclass
class Tape:
    """The facts of one round while it is played."""

    stage: str
    round: int
    facts: list[Fact] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)

    def note(self, who: str, what: str, value: Value) -> None:
        """Write down one fact."""
        self.facts.append(Fact(self.stage, self.round, who, what, value))

    def add(self, what: str, value: float) -> None:
        """Add to a sum over the round."""
        self.sums[what] = self.sums.get(what, 0) + value

    def merged(self, who: str, merged: Merged[Any]) -> None:
        """Write down what a merge says; entries named client/<id>/<what> are about that client."""
        for name, value in merged.log.items():
            head, _, what = name.removeprefix("client/").partition("/")
            if name.startswith("client/"):
                self.note(f"client/{head}", what if who == "server" else f"{who}/{what}", value)
            else:
                self.note(who, name, value)
        for client, reason in merged.notes.items():
            self.note(f"client/{client}", "reason" if who == "server" else f"{who}/reason", reason)


def rounds(
    world: World,
    transport: Transport,
    topology: Topology,
    memories: Memories,
    *,
    after: Step | None = None,
) -> Iterator[Step]:
    """Play all stages, from the beginning or after a step of an earlier run; yield after every round."""
    states: Mapping[str, Any] = after.states if after else {}
    for index in range(after.position if after else 0, len(world.algorithm.stages)):
        stage = world.stage(index)
        if after is not None and index == after.position:
            played = after.round
        else:
            step = _begin(world, topology, index, states)
            states, played = step.states, 0
            yield step
        while played < stage.rounds and not all(stage.done(state) for state in states.values()):
            played += 1
            states, facts = _play(world, transport, topology, memories, index, states, played)
            last = played == stage.rounds or all(stage.done(state) for state in states.values())
            yield Step(index, stage.stream, played, last, states, facts)


def _begin(world: World, topology: Topology, index: int, past: Mapping[str, Any]) -> Step:
    stage, states, tape = world.stage(index), {}, Tape(world.stage(index).stream, 0)
    for name in topology.sites(world.clients):
        merged = stage.init(world.site(index, name), past.get(name))
        states[name] = merged.state
        tape.merged(name, merged)
    return Step(index, stage.stream, 0, False, states, tape.facts)


def _play(
    world: World,
    transport: Transport,
    topology: Topology,
    memories: Memories,
    index: int,
    states: Mapping[str, Any],
    number: int,
) -> tuple[dict[str, Any], list[Fact]]:
    """Play one round: draw the cohort, call it, merge at every site, accept memories."""
    began = time.perf_counter()
    stage, tape = world.stage(index), Tape(world.stage(index).stream, number)
    calls = _calls(world, topology, memories, index, states, number)
    keeps: dict[int, Mapping[str, Any]] = {}
    heard = _heard(world, topology, stage, tape, calls, transport.send(calls), keeps)
    population = world.clients
    key = world.key_of(index) / "merge" / number
    after: dict[str, Any] = {}
    rejected: dict[int, int] = {}
    everyone = None if topology.kind != "mesh" else list(heard)
    for name, state in states.items():
        near = topology.hears(name, number, stage.reach)
        answers = heard if everyone is None else [sent for sent in everyone if near and sent.client in near]
        inbox: Inbox[Any] = Inbox(
            answers,
            key=key,
            population=population,
            mine=topology.owner(name),
            mixing=topology.mixing(name, number),
        )
        merged = stage.merge(state, inbox) if everyone is None or answers else Merged(state)
        after[name] = merged.state
        tape.merged(name, merged)
        for client, reason in merged.notes.items():
            rejected[client] = rejected.get(client, 0) + (reason in REJECTIONS)
    for _ in heard:  # what a merge left unread was answered all the same
        pass
    for client, keep in sorted(keeps.items()):
        if not rejected.get(client):
            memories.accept(client, f"{stage.stream}-{number}", keep)
    for what, value in sorted(tape.sums.items()):
        tape.note("server", what, value)
    tape.note("server", "seconds", time.perf_counter() - began)
    return after, tape.facts


def _calls(
    world: World, topology: Topology, memories: Memories, index: int, states: Mapping[str, Any], number: int
) -> list[Call]:
    """Draw who takes part, and write the calls in client order; in a mesh the others stand in idle."""
    stage, clients = world.stage(index), world.clients
    draw = Draw(clients, world.participation, world.key_of(index) / "cohort" / number)
    chosen = set(stage.cohort(next(iter(states.values())), draw))
    out = []
    for client in clients:
        mesh = topology.kind == "mesh"
        if client not in chosen and not mesh:
            continue
        view = stage.view(states[topology.home(client)], client)
        kind: Kind = "local" if client in chosen else "idle"
        out.append(Call(kind, index, number, client, view, memories.read(client)))
    return out


def _heard(
    world: World,
    topology: Topology,
    stage: Stage[Any, Any, Any],
    tape: Tape,
    calls: Sequence[Call],
    answers: Iterator[tuple[int, Answer]],
    keeps: dict[int, Mapping[str, Any]],
) -> Iterator[Sent[Any]]:
    """Yield the answers that count, in client order, and write down bytes, logs and losses on the way."""
    for call, answer in in_order(calls, answers):
        if topology.kind != "mesh":
            _count(tape, "down", call.view, 1)
        if answer.failed == "idle":
            continue
        reason = _reason(world, stage, call, answer)
        if reason:
            tape.note(f"client/{call.client}", "reason", reason)
            continue
        links = topology.degree(call.client, call.round, stage.reach)
        _count(tape, "up", answer.send, links)
        _count(tape, "tell", {name: answer.log[name] for name in stage.tell if name in answer.log}, links)
        for name, value in answer.log.items():
            tape.note(f"client/{call.client}", name, value)
        keeps[call.client] = answer.keep
        yield Sent(call.client, answer.send)


def _reason(world: World, stage: Stage[Any, Any, Any], call: Call, answer: Answer) -> str | None:
    """Return why an answer does not count; a client's own error stops the run unless it may go on without."""
    fault = world.fault(call.stage, call.round, call.client)
    if answer.failed and fault != "crash" and world.on_error == "stop":
        raise RunError(f"{call.who(stage.stream)} failed: {answer.failed}\n{answer.trace}".rstrip())
    if fault is not None or answer.failed:
        return fault or "error"
    slow = call.kind == "local" and world.effort(call.stage, call.round, call.client) < 1
    return "straggler" if slow and not stage.partial else None


def _count(tape: Tape, way: str, tree: Any, links: int) -> None:
    for path, leaf in leaves(tree):
        size = leaf_bytes(leaf) * links
        tape.add(f"bytes/{way}", size)
        tape.add(f"bytes/{way}/{path.partition('/')[0] or 'value'}", size)


def in_order(calls: Sequence[Call], answers: Iterator[tuple[int, Answer]]) -> Iterator[tuple[Call, Answer]]:
    """Yield answers in the order of the calls, holding back those that came early."""
    early: dict[int, Answer] = {}
    due = 0
    for position, answer in answers:
        early[position] = answer
        while due in early:
            yield calls[due], early.pop(due)
            due += 1
