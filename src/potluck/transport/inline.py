"""Visits in this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from potluck.visit import Answer, Call, visit
from potluck.world import World


@dataclass(frozen=True, eq=False)
class Inline:
    """The simplest transport: calls the visit directly, without a copy of anything."""

    world: World

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def send(self, calls: Sequence[Call]) -> Iterator[tuple[int, Answer]]:
        """Yield the answers in the order of the calls."""
        for position, call in enumerate(calls):
            yield position, visit(self.world, call)
