"""The one picture behind every partition: a vector that names each row's owner.

A row has one owner or none, so that no partition can hand out a row twice; `deal` turns the vector into the
clients' rows. Sizes are rounded by the largest remainder, so that no row is lost (spec A-4.14), and
`repair` moves rows from the largest client where a draw left somebody with too few (spec section 10),
instead of drawing for ever.
"""

from __future__ import annotations

import heapq
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from potluck.data.dataset import Rows
from potluck.errors import BadInputError
from potluck.federation import Labels

Owners = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

Clients = Annotated[int, Field(ge=1, description="number of clients")]
MinSize = Annotated[int, Field(ge=0, description="fewest rows that a client may hold")]
Concentration = Annotated[float, Field(gt=0, allow_inf_nan=False, description="Dirichlet concentration")]

NOBODY = -1
BETA = 0.5


def check_clients(clients: int, rows: int, min_size: int = 1) -> None:
    """Refuse a number of clients that the rows cannot serve."""
    if clients < 1:
        raise BadInputError(f"partition.clients: must be at least 1, not {clients}")
    if clients > rows:
        raise BadInputError(
            f"partition.clients: {clients} clients cannot share {rows} rows; "
            f"take at most {rows} clients or more data"
        )
    if clients * min_size > rows:
        raise BadInputError(
            f"partition.min_size: {clients} clients with {min_size} rows each need {clients * min_size}, "
            f"but there are {rows}; lower min_size to at most {rows // clients}, or take fewer clients"
        )


def column_of(labels: Labels, column: str) -> Rows:
    """Return a group column by name, or refuse with the names that exist."""
    if column not in labels.groups:
        have = ", ".join(sorted(labels.groups)) or "none"
        raise BadInputError(f"partition.column: the data have no group column {column!r}; columns: {have}")
    return labels.groups[column]


def one_of(beta: float | None, alpha: float | None) -> float:
    """Return the concentration given as `beta` or as its other name `alpha`; 0.5 without either."""
    given = [value for value in (beta, alpha) if value is not None] or [BETA]
    if len(given) > 1:
        raise BadInputError("partition.beta: give the Dirichlet concentration once, as beta or as alpha")
    if not (np.isfinite(given[0]) and given[0] > 0):
        raise BadInputError(f"partition.beta: must be a number above 0, not {given[0]}")
    return float(given[0])


def nobody(rows: int) -> Owners:
    """Return the vector in which no row has an owner yet."""
    return np.full(rows, NOBODY, dtype=np.int32)


def even(total: int, parts: int) -> Rows:
    """Return `parts` whole numbers that add up to `total` and differ by at most one, the larger first."""
    sizes: Rows = np.full(parts, total // parts, dtype=np.int64)
    sizes[: total % parts] += 1
    return sizes


def largest_remainder(shares: Floats, total: int) -> Rows:
    """Round `shares * total` to whole numbers with that sum: floors first, then the largest remainders."""
    exact = shares / shares.sum() * total
    sizes: Rows = np.floor(exact).astype(np.int64)
    left = total - int(sizes.sum())
    if left > 0:
        sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
    return sizes


def hand_out(owner: Owners, order: Rows, sizes: Rows, first: int = 0) -> None:
    """Give the rows of `order` to clients `first`, `first + 1`, ... in runs of the given sizes."""
    names = np.arange(first, first + len(sizes), dtype=np.int32)
    owner[order[: int(sizes.sum())]] = np.repeat(names, sizes)


def sizes_of(owner: Owners, clients: int) -> Rows:
    """Count each client's rows."""
    sizes: Rows = np.bincount(owner[owner >= 0], minlength=clients)
    return sizes


def by_value(values: npt.NDArray[np.integer[Any]], largest: int) -> Rows:
    """Return the order that sorts small whole numbers, equal ones as they come."""
    narrow = values.astype(np.int16) if largest < 2**15 else values  # sixteen bits are sorted by radix
    order: Rows = np.argsort(narrow, kind="stable").astype(np.int64, copy=False)
    return order


def deal(owner: Owners, clients: int) -> list[Rows]:
    """Return each client's rows, ascending."""
    ends = np.cumsum(sizes_of(owner, clients))
    order = by_value(owner, clients)
    return np.split(order[len(owner) - int(ends[-1]) :], ends[:-1])


def repair(owner: Owners, clients: int, min_size: int, draw: np.random.Generator) -> None:
    """Move random rows from whoever is the largest client until everybody holds `min_size` rows."""
    sizes = sizes_of(owner, clients)
    givers, takers = _moves(sizes, min_size)
    if not len(givers):
        return
    order = np.argsort(givers, kind="stable")
    givers, takers = givers[order], takers[order]
    who, given = np.unique(givers, return_counts=True)
    gives = np.zeros(clients, dtype=bool)
    gives[who] = True
    rows = np.flatnonzero((owner >= 0) & gives[owner])
    draw.shuffle(rows)
    rows = rows[np.argsort(owner[rows], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(sizes[who])[:-1]])
    inside = np.arange(len(givers)) - np.repeat(np.cumsum(given) - given, given)
    owner[rows[np.repeat(starts, given) + inside]] = takers


def _moves(sizes: Rows, min_size: int) -> tuple[Rows, Rows]:
    """Return who gives and who takes, one entry a row, the largest client giving first."""
    heap = [(-int(size), client) for client, size in enumerate(sizes) if size > min_size]
    heapq.heapify(heap)
    moves: list[tuple[int, int, int]] = []
    for taker in np.flatnonzero(sizes < min_size).tolist():
        need = min_size - int(sizes[taker])
        while need and heap:
            size, giver = heap[0]
            amount = min(need, -size - min_size)
            moves.append((giver, taker, amount))
            need -= amount
            if -size - amount > min_size:
                heapq.heapreplace(heap, (size + amount, giver))
            else:
                heapq.heappop(heap)
    table = np.array(moves, dtype=np.int64).reshape(-1, 3)
    return np.repeat(table[:, 0], table[:, 2]), np.repeat(table[:, 1], table[:, 2])
