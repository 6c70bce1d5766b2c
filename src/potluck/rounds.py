"""The driver: a generator that plays an algorithm's stages round by round.

What other frameworks do with callbacks is the body of the caller's loop: journal, evaluate, save, stop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from potluck.consensus import distances
from potluck.core import REJECTIONS, Draw, Inbox, Merged, Sent, Stage
from potluck.errors import BadInputError, RunError
from potluck.memory import Memories
from potluck.tape import Fact, Tape
from potluck.topology import Topology
from potluck.transport import Transport
from potluck.tree import nbytes
from potluck.visit import Answer, Call, Kind
from potluck.world import World

__all__ = ["Fact", "Step", "in_order", "rounds"]


class Step(NamedTuple):
    """A played round: where the run stands now. Round 0 is a stage's start, before any answer."""

    position: int
    stage: str
    round: int
    last: bool
    states: Mapping[str, Any]
    facts: Sequence[Fact]


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
    played = 0
    for index in range(after.position if after else 0, len(world.algorithm.stages)):
        stage = world.stage(index)
        if after is not None and index == after.position:
            played = after.round
        else:
            step = _begin(world, topology, index, states, played)
            states, played = step.states, 0
            yield step
        while played < stage.rounds and not all(stage.done(state) for state in states.values()):
            played += 1
            states, facts = _play(world, transport, topology, memories, index, states, played)
            last = played == stage.rounds or all(stage.done(state) for state in states.values())
            yield Step(index, stage.stream, played, last, states, facts)


def _begin(world: World, topology: Topology, index: int, past: Mapping[str, Any], played: int) -> Step:
    """Start a stage at every site from the states in which the one before ended after `played` rounds."""
    stage, states, tape = world.stage(index), {}, Tape(world.stage(index).stream, 0)
    if index:
        _move(world, topology, tape, past, (index - 1, played), (index, 1))
    for client, near in topology.graph(0).items() if not index else ():
        tape.facts.append(Fact("topology", 0, f"site/{client}", "neighbours", sorted(near)))
    for name in topology.sites(world.clients):
        merged = stage.init(world.site(index, name), past.get(name))
        states[name] = merged.state
        tape.merged(name, merged)
    return Step(index, stage.stream, 0, False, states, tape.total())


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
    host = _move(world, topology, tape, states, (index, max(number - 1, 1)), (index, number))
    calls = _calls(world, topology, memories, index, states, number)
    tape.note("server", "asked", sum(call.kind == "local" for call in calls))
    keeps: dict[int, Mapping[str, Any]] = {}
    heard = _heard(world, topology, stage, tape, calls, transport.send(calls), keeps, host)
    after: dict[str, Any] = {}
    rejected: set[int] = set()
    everyone = None if topology.kind != "mesh" else list(heard)
    for name, state in states.items():
        inbox = _inbox(world, topology, index, number, name, heard, everyone)
        merged = stage.merge(state, inbox) if inbox else Merged(state)
        after[name] = merged.state
        tape.merged(name, merged)
        rejected |= {client for client, reason in merged.notes.items() if reason in REJECTIONS}
    for _ in heard:  # what a merge left unread was answered all the same
        pass
    for client, keep in sorted(keeps.items()):
        if client not in rejected:
            memories.accept(client, f"{stage.stream}-{number}", keep)
    if everyone is not None:
        _mesh_facts(world, topology, tape, index, number, after)
    tape.total()
    tape.note("server", "seconds", time.perf_counter() - began)
    return after, tape.facts


def _inbox(
    world: World,
    topology: Topology,
    index: int,
    number: int,
    name: str,
    heard: Iterator[Sent[Any]],
    everyone: Sequence[Sent[Any]] | None,
) -> Inbox[Any] | None:
    """Return what a site hears: a server everybody, a peer its surroundings; None if nothing or down.

    Under fixed mixing weights a peer puts the weight of silent neighbours on itself.
    """
    key = world.key_of(index) / "merge" / number
    if everyone is None:
        return Inbox(heard, key=key, population=world.clients)
    reach, mine = world.stage(index).reach, topology.owner(name)
    near = topology.hears(name, number, reach) or frozenset()
    answers = [sent for sent in everyone if sent.client in near]
    if not answers or (mine is not None and world.fault(index, number, mine) == "crash"):
        return None
    mixing = topology.mixing(name, number) if reach == "neighbours" else None
    if mixing is not None and mine is not None:
        present = {sent.client for sent in answers}
        silent = sum(weight for peer, weight in mixing.items() if peer not in present | {mine})
        mixing = {**mixing, mine: mixing[mine] + silent}
    return Inbox(answers, key=key, population=sorted(near), mine=mine, mixing=mixing)


def _mesh_facts(
    world: World, topology: Topology, tape: Tape, index: int, number: int, states: Mapping[str, Any]
) -> None:
    """Write down the graph if it changed, what every peer sent, and how far the peers are apart."""
    reach, graph = world.stage(index).reach, topology.graph(number)
    if number > 1 and graph != topology.graph(number - 1):
        for client, near in graph.items():
            tape.note(f"site/{client}", "neighbours", sorted(near))
    for client, near in graph.items():
        carried = {client} if reach == "neighbours" else topology.hears(f"site/{client}", number, reach) or ()
        sent = len(near) * sum(tape.sizes.get(peer, 0) for peer in carried)
        tape.note(f"site/{client}", "bytes/sent", sent)
    if reach == "all":
        tape.add("bytes/flood", tape.sums.get("bytes/up", 0))
    found = distances(world.model_of(index), states)
    if found is not None:
        tape.note("server", "consensus", found.overall)
        for site, distance in found.sites.items():
            tape.note(site, "distance", distance)


def _move(
    world: World,
    topology: Topology,
    tape: Tape,
    states: Mapping[str, Any],
    before: tuple[int, int],
    now: tuple[int, int],
) -> int | None:
    """Return who hosts a (stage, round), and count the bytes of the state if it comes from another host."""

    def host(index: int, number: int) -> int | None:
        return topology.host(number, lambda round, client: world.fault(index, round, client) == "crash")

    here = host(*now)
    if here is not None:
        for name, state in states.items():
            tape.note(name, "host", here)
            if before != now and host(*before) != here:
                tape.count("handover", state, 1)
    return here


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
    host: int | None,
) -> Iterator[Sent[Any]]:
    """Yield the answers that count, in client order, and write down bytes, logs and losses on the way."""
    for call, answer in in_order(calls, answers):
        if topology.kind != "mesh" and call.client != host:
            tape.count("down", call.view, 1)
        if answer.failed == "idle":
            continue
        reason = _reason(world, stage, call, answer)
        if reason:
            tape.note(f"client/{call.client}", "reason", reason)
            continue
        links = 0 if call.client == host else topology.degree(call.client, call.round, stage.reach)
        told = {name: answer.log[name] for name in stage.tell if name in answer.log}
        tape.sizes[call.client] = nbytes(answer.send) + nbytes(told)
        tape.count("up", answer.send, links)
        tape.count("tell", told, links)
        for name, value in answer.log.items():
            tape.note(f"client/{call.client}", name, value)
        keeps[call.client] = answer.keep
        yield Sent(call.client, answer.send)


def _reason(world: World, stage: Stage[Any, Any, Any], call: Call, answer: Answer) -> str | None:
    """Return why an answer does not count; a client's own error stops the run unless it may go on without."""
    fault = world.fault(call.stage, call.round, call.client)
    if answer.failed and fault != "crash" and world.on_error == "stop":
        kind, _, words = answer.failed.partition(": ")
        if kind == BadInputError.__name__:
            raise BadInputError(words)
        raise RunError(f"{call.who(stage.stream)} failed: {answer.failed}\n{answer.trace}".rstrip())
    if fault is not None or answer.failed:
        return fault or "error"
    slow = call.kind == "local" and world.effort(call.stage, call.round, call.client) < 1
    return "straggler" if slow and not stage.partial else None


def in_order(calls: Sequence[Call], answers: Iterator[tuple[int, Answer]]) -> Iterator[tuple[Call, Answer]]:
    """Yield answers in the order of the calls, holding back those that came early."""
    early: dict[int, Answer] = {}
    due = 0
    for position, answer in answers:
        early[position] = answer
        while due in early:
            yield calls[due], early.pop(due)
            due += 1
