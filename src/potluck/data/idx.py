"""Reader of IDX files, the format of MNIST (Y. LeCun, C. Cortes and C. Burges, 1998).

Two zero bytes, a byte for the type of the values, a byte for the number of dimensions, each length as a
big-endian 32-bit number, then the values in row-major order.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from potluck.data.checksums import content
from potluck.errors import BadInputError

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path, dimensions: int) -> npt.NDArray[Any]:
    """Return the array of an IDX file (packed or not) with the number of dimensions that is expected."""
    raw = content(path)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in TYPES or raw[3] != dimensions:
        raise BadInputError(
            f"{path}: not an IDX file with {dimensions} dimension(s): it starts with"
            f" {raw[:4].hex() or 'nothing'} where 0000..{dimensions:02x} is expected; fetch it again"
        )
    kind = np.dtype(TYPES[raw[2]])
    start = 4 + 4 * dimensions
    if len(raw) < start:
        raise BadInputError(f"{path}: truncated IDX file: {len(raw)} bytes; delete it and fetch it again")
    lengths = np.frombuffer(raw, dtype=">u4", count=dimensions, offset=4).tolist()
    size = start + math.prod(lengths) * kind.itemsize
    if len(raw) != size:
        raise BadInputError(
            f"{path}: truncated or damaged IDX file: {len(raw)} bytes where its header promises {size};"
            " delete it and fetch it again"
        )
    return np.frombuffer(raw, dtype=kind, offset=start).reshape(lengths)


def read_images(path: Path) -> npt.NDArray[np.uint8]:
    """Return images (N, 1, H, W) of bytes."""
    images = read_idx(path, 3)
    if images.dtype != np.uint8:
        raise BadInputError(f"{path}: pixels must be unsigned bytes, not {images.dtype}; fetch it again")
    return np.asarray(images[:, None], dtype=np.uint8)


def read_labels(path: Path) -> npt.NDArray[np.int64]:
    """Return labels (N,)."""
    return read_idx(path, 1).astype(np.int64)
