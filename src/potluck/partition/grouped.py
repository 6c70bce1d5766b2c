"""Mixed federations: groups of clients with different label skew (spec SC-7, A-0.17; FedEP thesis, Guan).

Two readings. `grouped`: the rows are split IID into parts in proportion to the groups' numbers of clients,
and each part is dealt class-wise with its group's own beta. `client_prior`: every client draws a class
prior of its own, q_k ~ Dir(beta_k 1_C), and the table of priors is scaled (iterative proportional fitting)
to even sizes and to the classes' totals. One Dirichlet with a mixed concentration vector would give nearly
all rows to the even group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from potluck.data.dataset import Rows
from potluck.errors import BadInputError
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.dirichlet import TRIES, class_counts, cut, deal_classes, until
from potluck.partition.owner import (
    Clients,
    Concentration,
    Floats,
    MinSize,
    Owners,
    check_clients,
    deal,
    even,
    hand_out,
    largest_remainder,
    nobody,
    one_of,
    repair,
)

IID_LIKE = 1e4
FITS = 200


@dataclass(frozen=True, kw_only=True)
class Group:
    """Some clients with one concentration; without `beta` (or `alpha`) the group is IID."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    clients: Clients
    beta: Concentration | None = None
    alpha: Concentration | None = None

    def concentration(self) -> float | None:
        """Return beta, or None for an IID group."""
        if self.beta is None and self.alpha is None:
            return None
        return one_of(self.beta, self.alpha)


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """Deal with a different label skew in each group of clients.

    For instance `groups = [{ clients = 2, beta = 50 }, { clients = 8, beta = 0.5 }]`.
    Clients are numbered group after group. `reading` is "grouped" (class-wise within each group) or
    "client_prior" (every client draws its own class prior).
    """

    groups: Annotated[tuple[Group, ...], Field(min_length=1)] = (
        Group(clients=2, beta=50.0),
        Group(clients=8, beta=0.5),
    )
    reading: Literal["grouped", "client_prior"] = "grouped"
    clamp: bool = True
    min_size: MinSize = 10
    tries: Clients = TRIES

    def __post_init__(self) -> None:
        if not self.groups:
            raise BadInputError("partition.groups: name at least one group, as { clients = 2, beta = 0.5 }")

    def __call__(self, labels: Labels, key: Key) -> list[Rows]:
        """Deal every row to one client of one group."""
        clients = sum(group.clients for group in self.groups)
        check_clients(min((group.clients for group in self.groups), default=0), len(labels))
        check_clients(clients, len(labels), self.min_size)
        if self.reading == "client_prior":
            return self._by_prior(labels, clients, key)
        owner = self._by_group(labels, key)
        repair(owner, clients, max(self.min_size, 1), (key / "repair").numpy())
        return deal(owner, clients)

    def _by_group(self, labels: Labels, key: Key) -> Owners:
        """Cut the rows at random into parts in proportion to the groups, and deal each part within its group."""
        shares = np.array([group.clients for group in self.groups], dtype=np.float64)
        order = (key / "groups").numpy().permutation(len(labels))
        ends = np.cumsum(largest_remainder(shares, len(labels)))
        owner, first = nobody(len(labels)), 0
        for number, (group, rows) in enumerate(zip(self.groups, np.split(order, ends[:-1]), strict=True)):
            self._deal_group(group, labels, rows, owner, first, key / "group" / number)
            first += group.clients
        return owner

    def _deal_group(
        self, group: Group, labels: Labels, rows: Rows, owner: Owners, first: int, key: Key
    ) -> None:
        """Deal one group's rows among its clients, IID or class-wise."""
        beta = group.concentration()
        if beta is None:
            hand_out(owner, rows, even(len(rows), group.clients), first)
            return
        y = labels.y[rows]
        totals = np.bincount(y, minlength=labels.classes)
        counts = until(
            lambda draw: class_counts(totals, group.clients, beta, self.clamp, draw),
            self.min_size,
            key,
            self.tries,
        )
        deal_classes(owner, rows, y, counts, key, first)

    def _by_prior(self, labels: Labels, clients: int, key: Key) -> list[Rows]:
        """Draw q_k ~ Dir(beta_k 1_C) for every client and deal the classes in proportion."""
        totals = np.bincount(labels.y, minlength=labels.classes)
        betas = np.repeat(
            [group.concentration() or IID_LIKE for group in self.groups],
            [group.clients for group in self.groups],
        )
        draw = (key / "priors").numpy()
        priors = np.stack([draw.dirichlet(np.full(labels.classes, beta)) for beta in betas])
        shares = _fit(priors, totals)
        counts = np.stack(
            [cut(shares[:, c] / shares[:, c].sum(), int(n)) for c, n in enumerate(totals)], axis=1
        )
        owner = nobody(len(labels))
        deal_classes(owner, None, labels.y, counts, key)
        repair(owner, clients, max(self.min_size, 1), (key / "repair").numpy())
        return deal(owner, clients)


def _fit(priors: Floats, totals: Rows) -> Floats:
    """Scale rows and columns in turn to even sizes and to the class totals (a bounded number of times)."""
    table = np.maximum(np.nan_to_num(priors), 1e-12)
    for _ in range(FITS):
        table = table / table.sum(axis=1, keepdims=True)
        table = table / table.sum(axis=0, keepdims=True) * np.maximum(totals, 1e-9)
    return table
