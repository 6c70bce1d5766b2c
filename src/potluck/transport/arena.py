"""Shared memory between a process and its forked children: tensors are laid down here instead of being sent.

Anonymous mappings need no name and no clean-up: they vanish with the last process, however it ends. What
does not fit goes through the pipe as plain bytes.
"""

from __future__ import annotations

import mmap
from typing import Any

from torch import Tensor

from potluck.transport.codec import aligned, kind_name, read_raw, write_raw
from potluck.tree import raw


class Arena:
    """A shared stretch of memory with a bump pointer; equal tensors (the same object) are laid down once."""

    def __init__(self, size: int) -> None:
        self.size = aligned(max(size, 1))
        self._map = mmap.mmap(-1, self.size)
        self._view = memoryview(self._map)
        self._interned: dict[int, tuple[Tensor, list[Any]]] = {}
        self.begin, self.end, self.at = 0, self.size, 0
        self.spilled: list[bytes] = []

    def reset(self, begin: int = 0, end: int | None = None) -> None:
        """Forget what was laid down and start again at `begin`."""
        self._interned.clear()
        self.begin = self.at = begin
        self.end = self.size if end is None else end

    def intern(self, tensor: Tensor) -> list[Any]:
        """Lay down a tensor that several messages share; the second time costs nothing."""
        known = self._interned.get(id(tensor))
        if known is None:
            known = self._interned[id(tensor)] = (tensor, self._place(tensor, spill=False))
        if known[1][0] < 0:
            return self.put(tensor)
        return known[1]

    def put(self, tensor: Tensor) -> list[Any]:
        """Lay down a tensor and return where it is; one that does not fit is spilled."""
        return self._place(tensor, spill=True)

    def spill(self, tensor: Tensor) -> list[Any]:
        """Set a tensor aside for the pipe: what only one message holds takes no room from the others."""
        self.spilled.append(raw(tensor))
        return [-len(self.spilled), kind_name(tensor), list(tensor.shape)]

    def _place(self, tensor: Tensor, *, spill: bool) -> list[Any]:
        if self.at + tensor.nbytes <= self.end:
            place: list[Any] = [self.at, kind_name(tensor), list(tensor.shape)]
            write_raw(self._view, self.at, tensor)
            self.at += aligned(tensor.nbytes)
            return place
        return self.spill(tensor) if spill else [-1]

    def take_spilled(self) -> list[bytes]:
        """Return what did not fit, and forget it."""
        spilled, self.spilled = self.spilled, []
        return spilled

    def get(self, place: list[Any], spilled: list[bytes]) -> Tensor:
        """Return the tensor at a place; it looks at the shared memory, so copy what must outlast it."""
        if place[0] < 0:
            return read_raw(memoryview(bytearray(spilled[-place[0] - 1])), 0, place[1], place[2])
        return read_raw(self._view, place[0], place[1], place[2])
