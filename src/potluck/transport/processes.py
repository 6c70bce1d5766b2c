"""Visits on persistent worker processes, one intra-op thread each.

Workers are forked, so they share the data without a copy. Calls and answers are small headers on a pipe;
tensors lie in shared memory, and a view that many clients are shown is laid down once. Nothing is pickled.
A worker that dies is replaced and its visit tried once more before it counts as lost.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import TracebackType
from typing import Any, Self

from potluck.errors import RunError
from potluck.transport.arena import Arena
from potluck.transport.codec import Codec
from potluck.transport.worker import serve
from potluck.visit import Answer, Call
from potluck.world import World

ROOM = 16 << 20
SHORT = 0.005
LIGHT = 32 << 10
"""Bytes that surely fit into a pipe: a call that lies ready behind another one must not block this process."""


@dataclass(eq=False)
class Worker:
    """One child, its pipe, its result memory, and the calls it has been given (position and slot)."""

    process: ForkProcess
    pipe: Connection
    up: Arena
    given: list[int] = field(default_factory=list)
    turn: int = 0


class Processes:
    """A pool of forked workers."""

    def __init__(self, world: World, workers: int, *, window: int = 64) -> None:
        if "fork" not in multiprocessing.get_all_start_methods():
            raise RunError("worker processes need fork, which this system lacks; use --workers 0")
        self.world, self.count, self.window = world, workers, max(window, 4 * workers)
        self.codec = Codec(world.algorithm.messages)
        self._context = multiprocessing.get_context("fork")
        self._workers: list[Worker] = []
        self._short = False

    def __enter__(self) -> Self:
        state = max(
            sum(slot.nbytes for slot in self.world.model_of(i).slots.values())
            for i in range(len(self.world.algorithm.stages))
        )
        self._room = ROOM + 4 * state
        self._down = Arena(4 * ROOM + 16 * state)
        _ = self.world.trainers
        self._workers = []
        for _ in range(self.count):
            self._workers.append(self._hire())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            self._dismiss(worker)
        self._workers = []

    def _hire(self) -> Worker:
        here, there = self._context.Pipe()
        up = Arena(2 * self._room)
        foreign = [here, *(worker.pipe for worker in self._workers)]
        arguments = (self.world, self.codec, there, self._down, up, foreign, os.getpid())
        process = self._context.Process(target=serve, args=arguments, daemon=True)
        with warnings.catch_warnings():
            # BLAS keeps idle threads; the children use none of them.
            warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*multi-threaded.*fork")
            process.start()
        there.close()
        return Worker(process, here, up)

    def _dismiss(self, worker: Worker) -> None:
        worker.pipe.close()
        if worker.given:
            worker.process.kill()
        worker.process.join(timeout=5)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()

    def send(self, calls: Sequence[Call]) -> Iterator[tuple[int, Answer]]:
        """Yield answers as they come; large clients go first, within a window that bounds what waits in memory."""
        self._down.reset()
        due, admitted = 0, 0
        open_: set[int] = set()
        waiting: set[int] = set()
        tried: dict[int, int] = {}
        try:
            while due < len(calls):
                fresh = range(admitted, min(due + self.window, len(calls)))
                open_.update(fresh)
                waiting.update(fresh)
                admitted += len(fresh)
                self._dispatch(calls, waiting)
                for position, answer in self._collect(calls, waiting, tried):
                    open_.discard(position)
                    yield position, answer
                while due < admitted and due not in open_:
                    due += 1
        finally:
            for worker in [worker for worker in self._workers if worker.given]:
                self._replace(worker)

    def _dispatch(self, calls: Sequence[Call], waiting: set[int]) -> None:
        """Give every idle worker a call; where visits are short, lay a light one ready behind it."""
        depth = 2 if self._short else 1
        order = sorted(waiting, key=lambda p: (-self._size(calls[p]), p))
        for level in range(depth):
            for worker in [worker for worker in self._workers if len(worker.given) == level]:
                if not order:
                    return
                if self._give(worker, order[0], calls[order[0]]):
                    waiting.discard(order.pop(0))

    def _size(self, call: Call) -> int:
        if call.kind == "score":
            return call.end - call.begin if call.end >= 0 else 0
        return len(self.world.holder(call.client).train)

    def _give(self, worker: Worker, position: int, call: Call) -> bool:
        """Send a call to a worker; tell whether it was sent, for a busy worker takes light ones only."""
        view = self.codec.flatten(call.view, self._down.intern)
        memory = self.codec.flatten(dict(call.memory.items()), self._down.spill)
        spilled = self._down.take_spilled()
        head = {
            "view": view,
            "memory": memory,
            "call": [call.kind, call.stage, call.round, call.client, call.table, call.begin, call.end],
            "slot": worker.turn,
            "spilled": len(spilled),
        }
        parts = [json.dumps(head).encode(), *spilled]
        if worker.given and sum(map(len, parts)) > LIGHT:
            return False
        worker.turn = 1 - worker.turn
        worker.given.append(position)
        with suppress(BrokenPipeError, ConnectionResetError):  # the collector finds the body
            for part in parts:
                worker.pipe.send_bytes(part)
        return True

    def _collect(
        self, calls: Sequence[Call], waiting: set[int], tried: dict[int, int]
    ) -> Iterator[tuple[int, Answer]]:
        busy: dict[Any, Worker] = {worker.pipe: worker for worker in self._workers if worker.given}
        for pipe in wait(list(busy)):
            worker = busy[pipe]
            try:
                answer = self._receive(worker)
            except (EOFError, OSError):  # gone, perhaps in the middle of a message
                yield from self._bury(worker, calls, waiting, tried)
                continue
            self._short = answer.seconds < SHORT
            yield worker.given.pop(0), answer

    def _receive(self, worker: Worker) -> Answer:
        head: dict[str, Any] = json.loads(worker.pipe.recv_bytes())
        spilled = [worker.pipe.recv_bytes() for _ in range(head["spilled"])]
        send, keep, log = self.codec.build(head["tree"], lambda place: worker.up.get(place, spilled).clone())
        return Answer(head["client"], send, keep, log, head["seconds"], head["failed"], head["trace"])

    def _bury(
        self, worker: Worker, calls: Sequence[Call], waiting: set[int], tried: dict[int, int]
    ) -> Iterator[tuple[int, Answer]]:
        given = list(worker.given)
        code = self._replace(worker)
        for order, position in enumerate(given):
            tried[position] = tried.get(position, 0) + (order == 0)
            if tried[position] > 1:
                failed = f"the worker process died twice (exit code {code}); is there enough memory?"
                yield position, Answer(calls[position].client, failed=failed)
            else:
                waiting.add(position)

    def _replace(self, worker: Worker) -> int | None:
        """End a worker and hire another in its place; return the exit code."""
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        place = self._workers.index(worker)
        del self._workers[place]
        self._workers.insert(place, self._hire())
        return worker.process.exitcode
