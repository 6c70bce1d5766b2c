"""Your own arrays: a folder with one .npz a client, or one .npz with the arrays x, y and, optionally, client.

In a folder the file `test.npz` is the test split; in one file the arrays test_x and test_y are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from potluck.data.arrays import Array, as_rows, from_arrays, natural, refuse_gaps
from potluck.data.checksums import sha256_of
from potluck.data.compact import read_arrays
from potluck.data.dataset import Dataset
from potluck.data.normalise import Normalise
from potluck.data.places import Places
from potluck.errors import BadInputError


def npz(
    places: Places,
    path: str,
    classes: Annotated[int, Field(ge=1)] | None = None,
    normalise: Normalise = "unit",
    channels: Literal["first", "last"] = "first",
) -> Dataset:
    """Load your own arrays x and y from .npz files.

    `path`: a folder with one file a client (named for it), or one file, perhaps with a `client` for every
    row. `classes`: how many; by default one more than the largest whole-number label. Float targets are
    regressed on unless `classes` is given. `channels`: where the images have their channel axis.
    """
    root = places.resolve(path)
    files = sorted(root.glob("*.npz"), key=lambda file: natural(file.stem)) if root.is_dir() else [root]
    if not files:
        raise BadInputError(f"{root}: holds no .npz file; put one there for each client")
    if not root.is_dir():
        return _one_file(root, classes, normalise, channels)
    parts = {file.stem: _rows(file, read_arrays(file), channels) for file in files}
    test = parts.pop("test", None)
    if not parts:
        raise BadInputError(f"{root}: holds test.npz only; put one .npz there for each client")
    return from_arrays(
        [x for x, _ in parts.values()],
        [y for _, y in parts.values()],
        classes,
        list(parts),
        test=test,
        name=root.name,
        normalise=normalise,
        checksums={file.name: sha256_of(file) for file in files},
    )


def _one_file(
    file: Path, classes: int | None, normalise: Normalise, channels: Literal["first", "last"]
) -> Dataset:
    stored = read_arrays(file)
    x, y = _rows(file, stored, channels)
    tested = "test_x" in stored or "test_y" in stored
    return from_arrays(
        x,
        y,
        classes,
        stored.get("client"),
        test=_rows(file, stored, channels, "test_") if tested else None,
        name=file.stem,
        normalise=normalise,
        checksums={file.name: sha256_of(file)},
    )


def _rows(
    file: Path, stored: Mapping[str, Array], channels: Literal["first", "last"], prefix: str = ""
) -> tuple[Array, Array]:
    """Return x and y of one file, checked."""
    for key in (prefix + "x", prefix + "y"):
        if key not in stored:
            raise BadInputError(f"{file}: has no array {key!r}; save it with numpy.savez(file, x=..., y=...)")
    x, y = stored[prefix + "x"], stored[prefix + "y"]
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise BadInputError(f"{file}: x has shape {x.shape}, y {y.shape}; they need as many rows")
    client = None if prefix else stored.get("client")
    if client is not None and client.shape != (len(y),):
        raise BadInputError(f"{file}: client has shape {client.shape}, not one entry a row ({len(y)})")
    refuse_gaps(str(file), file.stem if client is None else client, x, y)
    if channels == "last" and x.ndim > 3:
        x = np.moveaxis(x, -1, 1)
    return as_rows(x), y
