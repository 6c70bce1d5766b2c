"""A federation: which rows each client holds, what was done to them, and how each client splits them.

Nothing here depends on an algorithm: the same configuration and seed give the same federation to all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch

from potluck.data.dataset import Dataset, Rows
from potluck.data.tenths import tenths
from potluck.errors import BadInputError
from potluck.key import Key
from potluck.table import Table

if TYPE_CHECKING:
    from potluck.skew.measure import Skew


@dataclass(frozen=True, eq=False)
class Labels:
    """What a partition may look at: labels and group columns, never inputs."""

    y: Rows
    classes: int
    groups: Mapping[str, Rows] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.y)


@runtime_checkable
class Partition(Protocol):
    """Rows to clients: pure, so that it can be tested on labels alone."""

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Return the rows of each client; every row at most once."""
        ...


@runtime_checkable
class Shift(Protocol):
    """What is done to a client's table before it is split: feature noise, label noise, relabelling."""

    def __call__(self, table: Table, client: int, clients: int, key: Key) -> Table:
        """Return the shifted table of one client; `key` is the client's own."""
        ...


@dataclass(frozen=True)
class Split:
    """Shares of each client's rows kept back for validation and for testing (seeded, not stratified)."""

    val: float = 0.1
    test: float = 0.2

    def __post_init__(self) -> None:
        if not (0 <= self.val < 1 and 0 <= self.test < 1 and self.val + self.test < 1):
            raise BadInputError(f"split: val {self.val} and test {self.test} must leave rows to train on")

    def __call__(self, table: Table, key: Key) -> tuple[Table, Table, Table]:
        """Cut a table into train, validation and test rows; a client with one row trains on it."""
        rows = torch.from_numpy(key.numpy().permutation(len(table)))
        n_test, n_val = int(self.test * len(table)), int(self.val * len(table))
        cut = len(table) - n_test - n_val
        return table.take(rows[:cut]), table.take(rows[cut : cut + n_val]), table.take(rows[cut + n_val :])


@dataclass(frozen=True, eq=False)
class Holder:
    """One data holder's rows."""

    train: Table
    val: Table
    test: Table


@dataclass(frozen=True, eq=False)
class Federation:
    """All data holders of one experiment and the global test tables."""

    holders: Sequence[Holder]
    tests: Mapping[str, Table]
    classes: int | None
    shape: tuple[int, ...]
    name: str = "data"
    class_names: tuple[str, ...] = ()
    rows: Sequence[Rows] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    partition: Mapping[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.holders)

    def digest(self) -> str:
        """Hash which rows went to which client (sha256): the identity of the partition."""
        hashed = hashlib.sha256()
        for k, rows in enumerate(self.rows):
            hashed.update(f"{k}:{len(rows)};".encode())
            hashed.update(np.ascontiguousarray(rows, dtype="<i8").tobytes())
        return hashed.hexdigest()

    def describe(self) -> Skew:
        """Measure how much the clients differ."""
        from potluck.skew.measure import describe

        return describe(self)

    def plot(self, folder: str | Path = "skew") -> Path:
        """Write the measures, the advice and pictures of the clients as one page into a folder; return the page."""
        from potluck.skew.advice import advise
        from potluck.skew.draw import figures
        from potluck.skew.page import write

        skew = self.describe()
        return write(Path(folder), skew, advise(skew), figures(skew, self))

    def histogram(self) -> Rows:
        """Count rows by client (down) and class (across), over train, validation and test parts."""
        classes = self.classes or 1
        out = np.zeros((len(self.holders), classes), dtype=np.int64)
        for k, holder in enumerate(self.holders):
            for part in (holder.train, holder.val, holder.test):
                if self.classes is None:
                    out[k, 0] += len(part)
                else:
                    out[k] += part.counts(classes).numpy()
        return out


def build(
    dataset: Dataset, partition: Partition, shifts: Sequence[Shift], split: Split, key: Key
) -> Federation:
    """Deal the rows of a data set to clients, shift every client's table, and split it."""
    labels = labels_of(dataset)
    dealt = partition(labels, key / "partition")
    if not dealt:
        raise BadInputError("partition.clients: must be at least 1")
    holders = []
    for k, rows in enumerate(dealt):
        table = dataset.table(rows)
        for position, shift in enumerate(shifts):
            table = shift(table, k, len(dealt), key / "shift" / position / "client" / k)
        holders.append(Holder(*split(table, key / "split" / "client" / k)))
    return Federation(
        holders=holders,
        tests=dataset.tests(),
        classes=dataset.classes,
        shape=dataset.shape,
        name=dataset.name,
        class_names=dataset.class_names,
        rows=dealt,
        checksums=dataset.checksums,
        notes=dataset.notes,
        groups=groups_of(dataset, dealt),
    )


def groups_of(dataset: Dataset, dealt: Sequence[Rows]) -> dict[str, list[str]]:
    """Return by group column the group that each client's rows share, "" where they are mixed or none is known."""
    found = {}
    for column, values in dataset.groups.items():
        names = dataset.group_names.get(column, ())
        shared = [np.unique(values[rows]) for rows in dealt]
        whole = [int(one[0]) if len(one) == 1 else -1 for one in shared]
        if max(whole) >= 0:
            found[column] = ["" if one < 0 else names[one] if one < len(names) else str(one) for one in whole]
    return found


def labels_of(dataset: Dataset) -> Labels:
    """Return what a partition may look at; the tenths of real targets stand in for classes."""
    if dataset.classes is None:
        parts, names = tenths(dataset.y)
        return Labels(parts, len(names), dataset.groups)
    return Labels(np.asarray(dataset.y, dtype=np.int64), dataset.classes, dataset.groups)
