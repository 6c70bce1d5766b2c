"""One visit: the only function that touches a client's rows, called identically by every transport."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch

from potluck.key import Key
from potluck.metrics import Tally
from potluck.tree import Tree, map_tensors
from potluck.world import World

HOSTILITY = 100.0
Kind = Literal["local", "idle", "score"]


class Call(NamedTuple):
    """What a transport carries to a client: which stage and round, the view, and the client's memory.

    A call of kind "score" evaluates rows `begin` to `end` (all if `end` is -1) of the client's own test part
    (`table` is ""), or of the global test table of that name.
    """

    kind: Kind
    stage: int
    round: int
    client: int
    view: Any
    memory: Mapping[str, Any] = {}
    table: str = ""
    begin: int = 0
    end: int = -1

    def who(self, stream: str) -> str:
        """Return the call in words, for messages."""
        return f"stage {stream!r}, round {self.round}, client {self.client}"


class Answer(NamedTuple):
    """What comes back: message, what to keep, what to write down; or the reason why nothing did."""

    client: int
    send: Any = None
    keep: Mapping[str, Any] = {}
    log: Mapping[str, Any] = {}
    seconds: float = 0.0
    failed: str = ""
    trace: str = ""


class ClientCrashError(RuntimeError):
    """A simulated crash at a client."""


def visit(world: World, call: Call) -> Answer:
    """Do what a call asks for, at the client; an exception there becomes an answer that says so."""
    began = time.perf_counter()
    try:
        answer = _score(world, call) if call.kind == "score" else _work(world, call)
    except Exception as error:
        failed = f"{type(error).__name__}: {error}"
        return Answer(call.client, failed=failed, trace=traceback.format_exc())
    return answer._replace(seconds=time.perf_counter() - began)


def _work(world: World, call: Call) -> Answer:
    if world.fault(call.stage, call.round, call.client) == "crash":
        raise ClientCrashError("simulated crash")
    client = world.client(call.stage, call.kind, call.round, call.client, dict(call.memory.items()))
    stage = world.stage(call.stage)
    with client.key.ambient():
        reply = (stage.local if call.kind == "local" else stage.idle)(call.view, client)
    if reply is None:
        return Answer(call.client, failed="idle")
    if call.client in world.hostile:
        return Answer(call.client, _nonsense(reply.send, client.key / "hostile"), reply.keep, reply.log)
    return Answer(call.client, reply.send, reply.keep, reply.log)


def _nonsense(message: Tree, key: Key) -> Tree:
    """Return a message of the same form whose float tensors hold large random numbers."""
    noise = key.torch()
    return map_tensors(
        message,
        lambda leaf: (
            HOSTILITY * torch.randn(leaf.shape, generator=noise, dtype=leaf.dtype)
            if leaf.is_floating_point()
            else leaf
        ),
    )


def _score(world: World, call: Call) -> Answer:
    memory = dict(call.memory.items())
    client = world.client(call.stage, "score", call.round, call.client, memory, scoring=True)
    table = world.federation.tests[call.table] if call.table else client.test
    if call.end >= 0:
        table = table.take(slice(call.begin, call.end))
    with client.key.ambient():
        tally = world.stage(call.stage).score(call.view, client, table)
    return Answer(call.client, tally.tree())


def tally_of(answer: Answer) -> Tally:
    """Return the tally in an answer to a score call."""
    sent = answer.send
    return Tally(sent["rows"], sent["sums"], sent["confusion"])
