"""Reader of CIFAR's "python" batches without running them.

A batch is a pickled dictionary, and unpickling runs whatever the file says. So the file is only walked,
operation by operation, and two values are picked out: the longest run of bytes (the pixels) and the numbers
that follow the key "labels".
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from potluck.data.checksums import content
from potluck.errors import BadInputError

PIXELS = 3 * 32 * 32
SILENT = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "EMPTY_LIST", "MARK", "APPENDS"}


class Batch(NamedTuple):
    """Images (N, 3, 32, 32) of bytes and their labels."""

    x: npt.NDArray[np.uint8]
    y: npt.NDArray[np.int64]


def read_batch(path: Path) -> Batch:
    """Return images and labels of one batch."""
    try:
        pixels, labels = _pick(content(path))
    except (ValueError, IndexError) as error:
        raise _damaged(path, str(error)) from error
    if not labels or len(pixels) != PIXELS * len(labels):
        raise _damaged(path, f"{len(pixels)} bytes of pixels for {len(labels)} labels")
    return Batch(
        np.frombuffer(pixels, dtype=np.uint8).reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)
    )


def _damaged(path: Path, reason: str) -> BadInputError:
    return BadInputError(f"{path}: not a batch of CIFAR-10 ({reason}); delete it and fetch it again")


def _pick(raw: bytes) -> tuple[bytes, list[int]]:
    """Walk the operations once; nothing is executed."""
    pixels = b""
    labels: list[int] = []
    in_labels = False
    for operation, argument, _ in pickletools.genops(raw):
        if operation.name in SILENT:
            continue
        if in_labels and isinstance(argument, int):
            labels.append(argument)
            continue
        in_labels = argument in ("labels", b"labels")
        if operation.name.endswith("STRING") and isinstance(argument, str) and len(argument) > len(pixels):
            pixels = argument.encode("latin-1")  # the text strings of Python 2 are bytes
        elif isinstance(argument, bytes) and len(argument) > len(pixels):
            pixels = argument
    return pixels, labels
