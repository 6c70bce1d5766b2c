"""Data that are in memory already, as one pool or client by client."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from potluck.data.dataset import Dataset, Rows
from potluck.data.normalise import Normalise, scale
from potluck.errors import BadInputError

Array = npt.NDArray[Any]
Given = npt.ArrayLike | torch.Tensor | Sequence[npt.ArrayLike] | Sequence[torch.Tensor]


def from_arrays(
    x: Given,
    y: Given,
    classes: int | None = None,
    clients: Sequence[object] | npt.NDArray[Any] | None = None,
    *,
    test: tuple[Given, Given] | None = None,
    name: str = "arrays",
    class_names: Sequence[str] = (),
    normalise: Normalise = "unit",
    checksums: Mapping[str, str] | None = None,
) -> Dataset:
    """Return a data set of arrays; lists of arrays, one a client, become the group column "client".

    Bytes are pixels (channel first; a missing channel is added), all else becomes float32. Targets are
    classes if they are whole numbers or `classes` is given, else numbers to regress on. `clients` names
    the client of each row, or, with lists, each client. `test` is an official test split (x, y).
    """
    column: Array | None
    if isinstance(y, list | tuple) and len(y) > 0 and np.ndim(as_array(y[0])) >= 1:
        inputs, targets, column = _stack(x, y, clients, name)
    else:
        inputs, targets = as_rows(x), as_array(y)
        column = None if clients is None else np.asarray([str(client) for client in clients])
    test_x, test_y = (None, None) if test is None else (as_rows(test[0]), as_array(test[1]))
    count = _count_classes(targets, test_y, classes, name)
    groups, names = ({}, {}) if column is None else _client_column(column)
    return Dataset(
        name=name,
        x=inputs,
        y=_as_targets(targets, count, name),
        classes=count,
        test_x=test_x,
        test_y=None if test_y is None else _as_targets(test_y, count, name),
        groups=groups,
        group_names=names,
        class_names=tuple(class_names),
        checksums={name: sha256(inputs, targets)} if checksums is None else checksums,
        **scale(normalise, inputs)._asdict(),
    )


def as_array(values: object) -> Array:
    """Return anything array-like as a numpy array."""
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def as_rows(values: object) -> Array:
    """Return inputs as bytes or float32; byte images without a channel get one."""
    array = as_array(values)
    if array.dtype == np.uint8:
        return array[:, None] if array.ndim == 3 else array
    if array.dtype.kind not in "biuf":
        raise BadInputError(f"inputs must be numbers of one shape, not {array.dtype}; convert or pad them")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return array.astype(np.float32)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key in which client2 comes before client10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name))


def sha256(*arrays: Array) -> str:
    """Hash the bytes, shapes and types of arrays."""
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(f"{array.dtype.str}{array.shape}".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


def refuse_gaps(where: str, client: str | Array, *arrays: Array) -> None:
    """Refuse NaN and infinity with file, row and client (one name, or one for each row)."""
    for array in arrays:
        gaps = np.argwhere(~np.isfinite(array)) if array.dtype.kind == "f" else np.empty((0, 1), np.int64)
        if len(gaps):
            row = int(gaps[0, 0])
            owner = client if isinstance(client, str) else str(client[row])
            raise BadInputError(
                f"{where}: row {row} of client {owner!r} holds NaN or infinity; clean or drop it"
            )


def _stack(x: Given, y: Given, clients: Iterable[object] | None, name: str) -> tuple[Array, Array, Array]:
    parts, targets = [as_rows(part) for part in _listed(x)], [as_array(part) for part in _listed(y)]
    names = [str(client) for client in (range(len(targets)) if clients is None else clients)]
    if not len(parts) == len(targets) == len(names):
        raise BadInputError(
            f"data {name!r}: {len(parts)} clients have inputs, {len(targets)} targets, {len(names)} names"
        )
    for client, part, target in zip(names, parts, targets, strict=True):
        if len(part) != len(target):
            raise BadInputError(
                f"data {name!r}: client {client!r} has {len(part)} rows, {len(target)} targets"
            )
        if part.shape[1:] != parts[0].shape[1:] or part.dtype != parts[0].dtype:
            raise BadInputError(
                f"data {name!r}: rows of client {client!r} are {part.dtype} of shape {part.shape[1:]}, those"
                f" of client {names[0]!r} {parts[0].dtype} of shape {parts[0].shape[1:]}; make them alike"
            )
        refuse_gaps(f"data {name!r}", client, part, target)
    column = np.repeat(np.asarray(names), [len(target) for target in targets])
    return np.concatenate(parts), np.concatenate(targets), column


def _listed(values: Given) -> list[object]:
    if not isinstance(values, list | tuple):
        raise BadInputError("give both x and y client by client (lists of arrays), or neither")
    return list(values)


def _client_column(column: Array) -> tuple[dict[str, Rows], dict[str, tuple[str, ...]]]:
    """Number the clients in natural order of their names."""
    names, inverse = np.unique(column, return_inverse=True)
    order = sorted(range(len(names)), key=lambda position: natural(str(names[position])))
    number = np.empty(len(names), dtype=np.int64)
    number[order] = np.arange(len(names))
    return {"client": number[inverse.reshape(-1)]}, {"client": tuple(str(names[at]) for at in order)}


def _count_classes(y: Array, test_y: Array | None, classes: int | None, name: str) -> int | None:
    if y.dtype.kind not in "biuf":
        raise BadInputError(
            f"data {name!r}: targets must be numbers, not {y.dtype}; number the classes from 0"
        )
    if classes is not None or y.dtype.kind == "f":
        return classes
    every = y if test_y is None else np.concatenate([y.ravel(), test_y.ravel()])
    return int(every.max()) + 1 if len(every) else 1


def _as_targets(y: Array, classes: int | None, name: str) -> Array:
    if classes is None:
        with np.errstate(over="ignore"):
            return y.astype(np.float32)
    if y.ndim != 1:
        raise BadInputError(f"data {name!r}: labels must be one number a row, not of shape {y.shape[1:]}")
    broken = np.flatnonzero(y != np.trunc(y))
    if len(broken):
        raise BadInputError(
            f"data {name!r}: the label of row {int(broken[0])} is {y[broken[0]]}, not a class"
        )
    return y.astype(np.int64)
