"""How calls reach clients. A transport is one method: `send(calls)` yields (position, answer) in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from potluck.transport.inline import Inline
from potluck.transport.processes import Processes
from potluck.visit import Answer, Call
from potluck.world import World


class Transport(Protocol):
    """Carries calls to clients and their answers back; opened and closed around a run."""

    def send(self, calls: Sequence[Call]) -> Iterator[tuple[int, Answer]]:
        """Yield each call's position and answer, in any order."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_transport(world: World, workers: int) -> Transport:
    """Return the transport for a number of worker processes; 0 works in this process."""
    return Processes(world, workers) if workers > 0 else Inline(world)


__all__ = ["Inline", "Processes", "Transport", "open_transport"]
