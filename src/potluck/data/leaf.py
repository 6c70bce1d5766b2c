"""Reader of LEAF's JSON folders (Caldas et al., arXiv 1812.01097, 2018): `train/*.json` and `test/*.json`.

Each file has "users" and "user_data", which gives every user's rows as "x" (784 numbers in [0, 1]) and "y".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from potluck.data.arrays import refuse_gaps
from potluck.errors import BadInputError

SIDE = 28


Pixels = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Rows of one folder: images (N, 28, 28) of bytes, labels, and the user of each row by name."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]
    users: npt.NDArray[np.str_]


def read_leaf(files: Sequence[Path]) -> Rows:
    """Return all rows of some JSON files, user by user in the order of the files."""
    users = [(name, user) for file in files for name, user in _users(file)]
    return Rows(
        np.concatenate([np.empty((0, SIDE, SIDE), np.uint8), *(images for _, (images, _) in users)]),
        np.concatenate([np.empty(0, np.int64), *(labels for _, (_, labels) in users)]),
        np.repeat(np.array([name for name, _ in users], dtype=np.str_), [len(y) for _, (_, y) in users]),
    )


def _users(file: Path) -> list[tuple[str, tuple[Pixels, Labels]]]:
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInputError(f"{file}: not a readable JSON file ({error}); make it again with LEAF") from error
    known = data.get("user_data") if isinstance(data, dict) else None
    names = data.get("users") if isinstance(data, dict) else None
    if not isinstance(known, dict) or not isinstance(names, list):
        raise BadInputError(f"{file}: has no users and user_data; make it again with LEAF")
    return [(str(name), _rows(file, str(name), known.get(name))) for name in names]


def _rows(file: Path, name: str, given: object) -> tuple[Pixels, Labels]:
    if not isinstance(given, dict) or "x" not in given or "y" not in given:
        raise BadInputError(f"{file}: writer {name!r} has no x and y; make it again with LEAF")
    try:
        values = np.array(given["x"], dtype=np.float64).reshape(-1, SIDE, SIDE)
        labels = np.array(given["y"], dtype=np.int64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise BadInputError(
            f"{file}: the rows of writer {name!r} are not {SIDE * SIDE} numbers each ({error})"
        ) from error
    refuse_gaps(str(file), name, values)
    if len(values) and (values.min() < 0 or values.max() > 1):
        raise BadInputError(f"{file}: pixels of writer {name!r} lie outside [0, 1]; make it again with LEAF")
    if len(values) != len(labels):
        raise BadInputError(f"{file}: writer {name!r} has {len(values)} images but {len(labels)} labels")
    return np.rint(values * 255).astype(np.uint8), labels
