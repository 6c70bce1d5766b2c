"""Data sets of other libraries, given as objects: torch's and Hugging Face's. Neither library is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from potluck.data.arrays import Array, as_array, from_arrays
from potluck.data.dataset import Dataset
from potluck.data.normalise import Normalise
from potluck.errors import BadInputError


@runtime_checkable
class Pairs(Protocol):
    """A map-style torch data set: a length, and (input, target) by position."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> Any: ...


@runtime_checkable
class Columns(Protocol):
    """A Hugging Face data set (one split): named columns."""

    column_names: Any

    def __getitem__(self, column: str, /) -> Any: ...


def from_torch(
    data: Pairs,
    classes: int | None = None,
    clients: Sequence[object] | None = None,
    *,
    test: Pairs | None = None,
    name: str = "torch",
    normalise: Normalise = "unit",
) -> Dataset:
    """Return the data set of a torch data set of (input, target) pairs; every row is read once.

    `clients` names the client of each row.
    """
    x, y = _pairs(data, name)
    held = None if test is None else _pairs(test, name)
    return from_arrays(x, y, classes, clients, test=held, name=name, normalise=normalise)


def from_hugging_face(
    data: Columns,
    x: str | Sequence[str] = "image",
    y: str = "label",
    client: str | None = None,
    classes: int | None = None,
    *,
    test: Columns | None = None,
    name: str = "hugging-face",
    normalise: Normalise = "unit",
) -> Dataset:
    """Return the data set of one split of a Hugging Face data set.

    `x`: the column of images or vectors, or several columns of numbers. `y`: the label. `client`: the
    column that names the client. Names of classes are taken from the label's feature, if it has them.
    """
    inputs, targets = _columns(data, x, y, name)
    feature = getattr(data, "features", {}).get(y)
    known = tuple(str(label) for label in getattr(feature, "names", None) or ())
    return from_arrays(
        inputs,
        targets,
        classes or len(known) or None,
        None if client is None else as_array(_column(data, client, name)),
        test=None if test is None else _columns(test, x, y, name),
        name=name,
        class_names=known,
        normalise=normalise,
    )


def _pairs(data: Pairs, name: str) -> tuple[Array, Array]:
    tensors = getattr(data, "tensors", None)
    if isinstance(tensors, tuple) and len(tensors) == 2:
        return as_array(tensors[0]), as_array(tensors[1])
    rows = [data[position] for position in range(len(data))]
    if not rows or not all(isinstance(row, tuple | list) and len(row) == 2 for row in rows):
        raise BadInputError(
            f"data {name!r}: every item must be a pair (input, target), and there must be some"
        )
    return _together([row[0] for row in rows], name), np.asarray([as_array(row[1]) for row in rows])


def _columns(data: Columns, x: str | Sequence[str], y: str, name: str) -> tuple[Array, Array]:
    if isinstance(x, str):
        inputs = _together(list(_column(data, x, name)), name)
    else:
        inputs = np.stack([as_array(_column(data, column, name)) for column in x], axis=1)
    return inputs, as_array(list(_column(data, y, name)))


def _column(data: Columns, column: str, name: str) -> Sequence[object]:
    if column not in data.column_names:
        raise BadInputError(f"data {name!r}: no column {column!r} among {', '.join(data.column_names)}")
    return list(data[column])


def _together(rows: Sequence[object], name: str) -> Array:
    """Stack inputs; pictures (H, W, C) of Pillow become channel first."""
    arrays = [as_array(row) for row in rows]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise BadInputError(
            f"data {name!r}: inputs of {len(shapes)} shapes, such as {sorted(shapes)[:2]}; resize"
        )
    stacked = np.stack(arrays) if arrays else np.empty((0, 0), np.float32)
    pictures = bool(rows) and hasattr(rows[0], "getbands")
    return np.moveaxis(stacked, -1, 1) if pictures and stacked.ndim == 4 else stacked
