"""What a loader returns: raw rows as they lie on disk, and how they become floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from potluck.errors import BadInputError
from potluck.table import Table

Rows = npt.NDArray[np.int64]


class Four(NamedTuple):
    """A pool and its official test split, as arrays."""

    x: npt.NDArray[np.uint8]
    y: npt.NDArray[np.int64]
    test_x: npt.NDArray[np.uint8]
    test_y: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A pool of rows to be federated, and the official test rows beside it.

    `x` may be uint8 (pixels, possibly memory-mapped) or float32; `floats` turns rows into what a model sees.
    `groups` names columns with one integer a row (writer, source, patient, client) for natural partitions.
    `more_tests` holds tests beside the official one, by name.
    """

    name: str
    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    classes: int | None
    test_x: npt.NDArray[Any] | None = None
    test_y: npt.NDArray[Any] | None = None
    more_tests: Mapping[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]] = field(default_factory=dict)
    groups: Mapping[str, Rows] = field(default_factory=dict)
    group_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_rows(self.name, self.x, self.y, self.classes)
        if (self.test_x is None) != (self.test_y is None):
            raise BadInputError(f"data {self.name!r}: give both test_x and test_y, or neither")
        for test, (x, y) in self._raw_tests().items():
            where = f"{self.name}, test {test}"
            check_rows(where, x, y, self.classes)
            if x.shape[1:] != self.x.shape[1:]:
                raise BadInputError(
                    f"data {where!r}: its rows have shape {x.shape[1:]}, those of the pool {self.x.shape[1:]}"
                )
        for column, group in self.groups.items():
            if len(group) != len(self.y):
                raise BadInputError(
                    f"data {self.name!r}: {len(self.y)} rows but {len(group)} in group {column!r}"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of one row as a model sees it."""
        return tuple(self.x.shape[1:])

    def floats(self, x: npt.NDArray[Any]) -> Tensor:
        """Turn raw rows into float32: bytes to [0, 1], then (x - mean) / std per channel if set."""
        out = torch.from_numpy(np.array(x, dtype=np.float32, order="C"))
        if x.dtype == np.uint8:
            out.div_(255.0)
        if self.mean:
            shape = (-1, *[1] * (out.ndim - 2))
            out.sub_(torch.tensor(self.mean).reshape(shape)).div_(torch.tensor(self.std).reshape(shape))
        return out

    def targets(self, y: npt.NDArray[Any]) -> Tensor:
        """Return targets as int64 classes, or float32 for regression."""
        kind = np.int64 if self.classes is not None else np.float32
        return torch.from_numpy(np.array(y, dtype=kind, order="C"))

    def table(self, rows: Rows) -> Table:
        """Return the named rows of the pool as floats."""
        return Table(self.floats(self.x[rows]), self.targets(self.y[rows]))

    def test(self) -> Table | None:
        """Return the official test split, if the data have one."""
        return self.tests().get("global")

    def tests(self) -> dict[str, Table]:
        """Return all named test tables; the official test split is called "global"."""
        return {name: Table(self.floats(x), self.targets(y)) for name, (x, y) in self._raw_tests().items()}

    def _raw_tests(self) -> dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        named = dict(self.more_tests)
        if self.test_x is not None and self.test_y is not None:
            named = {"global": (self.test_x, self.test_y)} | named
        return named


def check_rows(name: str, x: npt.NDArray[Any], y: npt.NDArray[Any], classes: int | None) -> None:
    """Refuse rows without a target, values that are not finite, and labels that are no class."""
    if len(x) != len(y):
        raise BadInputError(f"data {name!r}: {len(x)} rows but {len(y)} labels")
    check_labels(name, y, classes)
    if x.dtype != np.uint8:
        finite = np.isfinite(x)
        if not finite.all():
            row = int(np.flatnonzero(~finite.reshape(len(x), -1).all(axis=1))[0])
            raise BadInputError(f"data {name!r}: row {row} holds NaN or infinity; clean or drop it")


def check_labels(name: str, y: npt.NDArray[Any], classes: int | None) -> None:
    """Refuse labels outside 0..classes-1 (or non-finite targets) with the row at fault."""
    if classes is None:
        wrong = np.unique(np.argwhere(~np.isfinite(y))[:, 0])
        if len(wrong):
            raise BadInputError(f"data {name!r}: the target of row {int(wrong[0])} is NaN or infinite")
        return
    wrong = np.flatnonzero(~((y >= 0) & (y < classes)))
    if len(wrong):
        row = int(wrong[0])
        raise BadInputError(
            f"data {name!r}: the label of row {row} is {y[row]},"
            f" but there are {classes} classes (0 to {classes - 1})"
        )
