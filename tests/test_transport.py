"""Transports: the same answers in any process, in spite of deaths, crowds and messages that do not fit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import pytest
import torch
from torch import Tensor

from potluck.core import Algorithm, Client, Inbox, Merged, Reply, Site, Stage
from potluck.errors import RunError
from potluck.laws import toy
from potluck.memory import Memories
from potluck.rounds import rounds
from potluck.topology import Star
from potluck.transport import Processes, open_transport, processes
from potluck.transport.arena import Arena
from potluck.transport.codec import Codec
from potluck.tree import digest
from potluck.visit import Answer, Call
from potluck.world import World


class Shown(NamedTuple):
    table: Tensor


class Told(NamedTuple):
    table: Tensor
    pid: int


@dataclass(frozen=True)
class Echo(Stage[Shown, Shown, Told]):
    """Send back what was shown plus the client's number; die or fail where told to. Oracle of 2026."""

    width: int = 8
    die: int = -1
    fail: int = -1
    times: int = 0
    folder: str = ""
    wait: float = 0.0
    slow: int = -1
    keeps: bool = False
    rounds: int = 1
    messages: ClassVar[tuple[type, ...]] = (Shown, Told)

    def init(self, site: Site, past: Any) -> Merged[Shown]:
        return Merged(Shown(torch.arange(self.width, dtype=torch.float32)))

    def view(self, state: Shown, client: int) -> Shown:
        return state

    def local(self, view: Shown, client: Client) -> Reply[Told]:
        if client.id == self.fail:
            raise ValueError("no such thing")
        if client.id == self.die and len(list(Path(self.folder).iterdir())) < self.times:
            (Path(self.folder) / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1.0 if client.id == self.slow else self.wait)
        seen = client.memory.get("seen", torch.zeros(self.width))
        keep = {"seen": seen + 1} if self.keeps else {}
        return Reply(Told(view.table + client.id + seen, os.getpid()), keep, {"note": "x" * 10})

    def merge(self, state: Shown, inbox: Inbox[Told]) -> Merged[Shown]:
        total = state.table.clone()
        for sent in inbox.stream():
            total += sent.message.table
        return Merged(Shown(total), {"participants": 1})


def world(stage: Echo, clients: int = 7, **changes: Any) -> World:
    given = toy.federation(tuple([1] * clients))
    made = toy.world(Algorithm((stage,), "echo"), given=given, participation=1.0)
    return replace(made, **changes)


def calls(stage: Echo, clients: int, memory: dict[str, Any] | None = None) -> list[Call]:
    view = Shown(torch.arange(stage.width, dtype=torch.float32))
    return [Call("local", 0, 1, client, view, memory or {}) for client in range(clients)]


def tables(answers: Iterator[tuple[int, Answer]]) -> dict[int, Tensor]:
    return {position: answer.send.table for position, answer in answers}


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_every_call_is_answered_once_with_what_is_its_own(workers: int) -> None:
    stage = Echo()
    with open_transport(world(stage), workers) as transport:
        for _ in range(2):
            got = list(transport.send(calls(stage, 7)))
            assert sorted(position for position, _ in got) == list(range(7))
            for position, answer in got:
                assert answer.client == position
                assert torch.equal(answer.send.table, torch.arange(8.0) + position)
                assert answer.log == {"note": "x" * 10}
    pids = {answer.send.pid for _, answer in got}
    assert (os.getpid() in pids) == (workers == 0)


@pytest.mark.parametrize("short", [0.0, 10.0])
def test_what_does_not_fit_into_shared_memory_goes_through_the_pipe(
    monkeypatch: pytest.MonkeyPatch, short: float
) -> None:
    """Views, memories and answers of 4 MB each, shared memory of kilobytes, calls that queue: nothing blocks."""
    monkeypatch.setattr(processes, "ROOM", 1024)
    monkeypatch.setattr(processes, "SHORT", short)
    stage = Echo(width=1 << 20, keeps=True)
    given = world(stage, clients=9)
    memory = {"seen": torch.full((stage.width,), 2.0)}
    with Processes(given, 2) as transport:
        got = tables(transport.send(calls(stage, 9, memory)))
    assert all(torch.equal(got[k], torch.arange(float(stage.width)) + k + 2) for k in range(9))


def test_a_view_that_many_share_is_laid_down_once() -> None:
    """The shared memory that a round uses does not grow with its participants, nor with their memories."""
    stage = Echo(width=1000, keeps=True)
    used = []
    for clients in (3, 60):
        with Processes(world(stage, clients), 2) as transport:
            list(transport.send(calls(stage, clients, {"seen": torch.ones(1000)})))
            used.append(transport._down.at)
    assert used[0] == used[1] == 4032


def test_an_arena_lays_down_what_is_shared_once_and_spills_what_is_left_over() -> None:
    arena = Arena(256)
    shared, other, large = torch.ones(32), torch.zeros(16), torch.arange(32.0)
    assert arena.intern(shared) == arena.intern(shared)
    places = [arena.intern(shared), arena.put(other), arena.put(large), arena.intern(large)]
    assert [place[0] for place in places] == [0, 128, -1, -2]
    spilled = arena.take_spilled()
    back = [arena.get(place, spilled) for place in places]
    assert [digest(tensor) for tensor in back] == [digest(each) for each in (shared, other, large, large)]
    assert arena.take_spilled() == []


def test_early_answers_are_held_back_within_a_window() -> None:
    """However slow the first client is, no call beyond the window is begun before it has answered."""
    stage = Echo(slow=0)
    order = []
    with Processes(world(stage, 40), 2, window=8) as transport:
        order = [position for position, _ in transport.send(calls(stage, 40))]
    assert sorted(order) == list(range(40))
    assert order.index(0) in (6, 7)  # one more may lie ready behind the slow client
    for count in range(40):
        done = set(order[:count])
        assert max(done, default=0) < min(set(range(40)) - done) + 8


def test_no_tensor_is_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Tensor, protocol: Any) -> Any:
        raise AssertionError("a tensor was pickled")

    monkeypatch.setattr(Tensor, "__reduce_ex__", refuse)
    stage = Echo(width=100, keeps=True)
    with Processes(world(stage), 2) as transport:
        assert len(tables(transport.send(calls(stage, 7, {"seen": torch.ones(100)})))) == 7


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_dies_is_replaced_and_its_visit_tried_again(tmp_path: Path, workers: int) -> None:
    stage = Echo(die=3, times=1, folder=str(tmp_path))
    with Processes(world(stage), workers) as transport:
        got = tables(transport.send(calls(stage, 7)))
    assert sorted(got) == list(range(7))
    assert torch.equal(got[3], torch.arange(8.0) + 3)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_visit_that_kills_two_workers_is_lost(tmp_path: Path, workers: int) -> None:
    stage = Echo(die=3, times=9, folder=str(tmp_path))
    with Processes(world(stage), workers) as transport:
        got = dict(transport.send(calls(stage, 7)))
        again = dict(transport.send(calls(stage, 3)))
    assert sorted(got) == list(range(7))
    assert {position for position, answer in got.items() if answer.failed} == {3}
    assert "died twice (exit code -9)" in got[3].failed
    assert sorted(again) == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 2


def stepped(given: World, workers: int, memories: Memories | None = None) -> Sequence[Any]:
    memories = memories or Memories(Codec(given.algorithm.messages))
    with open_transport(given, workers) as transport:
        return list(rounds(given, transport, Star(), memories))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_client_that_fails_stops_the_run_and_is_named(workers: int) -> None:
    given = world(Echo(fail=4))
    with pytest.raises(RunError, match=r"stage 'train', round 1, client 4 failed: ValueError: no such thing"):
        stepped(given, workers)


@pytest.mark.parametrize("workers", [0, 2])
def test_or_the_run_goes_on_without_it_if_it_may(workers: int) -> None:
    steps = stepped(world(Echo(fail=4), on_error="skip"), workers)
    reasons = [(fact.who, fact.value) for fact in steps[-1].facts if fact.what == "reason"]
    assert reasons == [("client/4", "error")]
    expected = torch.arange(8.0) * 7 + sum(k for k in range(7) if k != 4)
    assert torch.equal(steps[-1].states["server"].table, expected)


@pytest.mark.parametrize(("on_error", "reasons"), [("stop", None), ("skip", [("client/3", "error")])])
def test_a_dead_worker_counts_as_the_clients_failure(
    tmp_path: Path, on_error: str, reasons: list[tuple[str, str]] | None
) -> None:
    given = world(Echo(die=3, times=9, folder=str(tmp_path)), on_error=on_error)
    if reasons is None:
        with pytest.raises(
            RunError, match="stage 'train', round 1, client 3 failed: the worker process died"
        ):
            stepped(given, 2)
        return
    facts = stepped(given, 2)[-1].facts
    assert [(fact.who, fact.value) for fact in facts if fact.what == "reason"] == reasons


def test_no_worker_outlives_its_transport() -> None:
    stage = Echo(wait=0.05)
    pids: list[int | None] = []

    def interrupted() -> None:
        with Processes(world(stage), 3) as transport:
            pids.extend(worker.process.pid for worker in transport._workers)
            next(transport.send(calls(stage, 7)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(pids) == 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_an_abandoned_send_leaves_a_pool_that_works() -> None:
    stage = Echo(wait=0.02)
    with Processes(world(stage), 2) as transport:
        answers = cast(Generator[tuple[int, Answer], None, None], transport.send(calls(stage, 7)))
        next(answers)
        answers.close()
        assert sorted(tables(transport.send(calls(stage, 5)))) == [0, 1, 2, 3, 4]


def test_what_a_client_may_not_send_is_its_own_failure() -> None:
    @dataclass(frozen=True)
    class Odd(Echo):
        """Keep what is no tree."""

        def local(self, view: Shown, client: Client) -> Reply[Told]:
            return Reply(Told(view.table, 0), {"odd": {1, 2}})

    stage = Odd()
    with Processes(world(stage), 1) as transport:
        got = dict(transport.send(calls(stage, 2)))
    assert "CodecError: a set may not cross" in got[0].failed


@pytest.mark.parametrize("workers", [0, 2])
def test_memories_travel_with_the_calls(tmp_path: Path, workers: int) -> None:
    given = world(Echo(rounds=3, keeps=True))
    memories = Memories(Codec(given.algorithm.messages), tmp_path / "memories")
    steps = stepped(given, workers, memories)
    assert [dict(memories.read(k))["seen"].tolist() for k in range(7)] == [[3.0] * 8] * 7
    expected = torch.arange(8.0)
    for seen in range(3):
        expected = expected + 7 * expected + sum(range(7)) + 7 * seen
    assert torch.equal(steps[-1].states["server"].table, expected)
