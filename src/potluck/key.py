"""Randomness as a path: a stream is named by what it is for, never by where or when it is drawn.

`Key.root(7) / "train" / "local" / 3 / "client" / 12 / "batches"` is one stream. The path is hashed (keyed
BLAKE2b) into the key of a counter-based generator, so that a stream depends neither on the order of
execution, nor on the worker, nor on the position of a client in its cohort.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class Key:
    """A name in the tree of random streams."""

    path: tuple[str | int, ...]

    @classmethod
    def root(cls, seed: int) -> Key:
        """Return the key from which all streams of one run descend."""
        return cls((int(seed),))

    def __truediv__(self, part: str | int) -> Key:
        return Key((*self.path, part))

    def __str__(self) -> str:
        return "/".join(str(part) for part in self.path)

    def digest(self) -> bytes:
        """Hash the path into 16 bytes; text and numbers with the same letters differ."""
        hashed = hashlib.blake2b(key=b"potluck.key", digest_size=16)
        for part in self.path:
            body = str(part).encode()
            kind = b"s" if isinstance(part, str) else b"i"
            hashed.update(kind + len(body).to_bytes(4, "little") + body)
        return hashed.digest()

    def integer(self) -> int:
        """Return a non-negative number below 2**63, for libraries that want a seed."""
        return int.from_bytes(self.digest()[:8], "little") >> 1

    def numpy(self) -> np.random.Generator:
        """Return this stream as a numpy generator (Philox)."""
        return np.random.Generator(np.random.Philox(key=int.from_bytes(self.digest(), "little")))

    def torch(self) -> torch.Generator:
        """Return this stream as a torch generator."""
        return torch.Generator().manual_seed(self.integer())

    @contextmanager
    def ambient(self) -> Iterator[None]:
        """Seed torch's global generator (dropout, initialisers) and put the old state back afterwards."""
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(self.integer())
        try:
            yield
        finally:
            torch.set_rng_state(before)
