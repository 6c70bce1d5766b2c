"""The far end of the process pool: a forked child that makes visits until its parent is gone."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

import torch

from potluck.transport.arena import Arena
from potluck.transport.codec import Codec
from potluck.visit import Answer, Call, visit
from potluck.world import World

DEATH_SIGNAL = 1
MALLOC = {-3: 32 << 20, -1: 1 << 30, -2: 64 << 20}
"""glibc: keep blocks up to 32 MiB on the heap, and the heap itself, instead of giving pages back."""


def keep_heap() -> None:
    """Tell glibc's allocator to keep its memory: the largest free gain for convolutions (1.27 x on LeNet)."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for option, value in MALLOC.items():
            getattr(libc, "mallopt", lambda *_: 0)(option, value)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when its parent does, and make sure that it has not done so already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def serve(
    world: World,
    codec: Codec,
    pipe: Connection,
    down: Arena,
    up: Arena,
    foreign: Sequence[Connection],
    parent: int,
) -> None:
    """Answer calls until the pipe closes."""
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in foreign:
        other.close()
    torch.set_num_threads(1)
    keep_heap()
    try:
        while True:
            _one(world, codec, pipe, down, up)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)


def _one(world: World, codec: Codec, pipe: Connection, down: Arena, up: Arena) -> None:
    head = json.loads(pipe.recv_bytes())
    spilled = [pipe.recv_bytes() for _ in range(head["spilled"])]
    view, memory = (
        codec.build(head[part], lambda place: down.get(place, spilled)) for part in ("view", "memory")
    )
    kind, stage, number, client, table, begin, end = head["call"]
    call = Call(kind, stage, number, client, view, memory, table, begin, end)
    answer = visit(world, call)
    half = up.size // 2
    up.reset(head["slot"] * half, (head["slot"] + 1) * half)
    try:
        tree = codec.flatten((answer.send, dict(answer.keep), dict(answer.log)), up.put)
    except (TypeError, ValueError) as error:
        answer = Answer(call.client, failed=f"{type(error).__name__}: {error}")
        tree = codec.flatten((None, {}, {}), up.put)
    out = up.take_spilled()
    reply = {
        "tree": tree,
        "client": answer.client,
        "seconds": answer.seconds,
        "failed": answer.failed,
        "trace": answer.trace,
        "spilled": len(out),
    }
    pipe.send_bytes(json.dumps(reply).encode())
    for data in out:
        pipe.send_bytes(data)
