"""A pool of all clients' rows at the server: what FedDiskAb needs, and what federated learning is there to avoid.

FedDiskAb (Nguyen, Wu and Chang, IEEE TAI 2024) compares a client's rows with as many rows of all clients: an
upper bound for FedDisk. Every client sends all its training rows; the server keeps a sample of at most `most`,
and shows it to everybody. Rows leave the clients by design (`leaks`); use it on public data only. Their order
in the pool depends on what they hold, not on whose they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from potluck.core import Client, Inbox, Merged, Reply, Site, Stage
from potluck.key import Key


class Pool(NamedTuple):
    """Rows of all clients, and how many rows each client sent."""

    rows: Tensor
    sizes: dict[int, int]


class Rows(NamedTuple):
    """All training rows of one client."""

    rows: Tensor


@dataclass(frozen=True)
class RowPool(Stage[Pool, None, Rows]):
    """Collect the clients' rows."""

    most: Annotated[int, Field(ge=1)] = 10_000
    rounds: int = 1
    stream: str = "rows"

    everyone: ClassVar[bool] = True
    leaks: ClassVar[bool] = True
    messages: ClassVar[tuple[type, ...]] = (Pool, Rows)

    @property
    def partial(self) -> bool:
        """Hear stragglers: rows need no work."""
        return True

    def init(self, site: Site, past: Any) -> Merged[Pool]:
        """Start with nothing."""
        return Merged(
            Pool(torch.zeros(0, *site.model.shape), {}), {"note": "the rows of all clients are pooled"}
        )

    def view(self, state: Pool, client: int) -> None:
        """Show nothing."""
        return None

    def local(self, view: None, client: Client) -> Reply[Rows]:
        """Send all training rows."""
        return Reply(Rows(client.train.x))

    def merge(self, state: Pool, inbox: Inbox[Rows]) -> Merged[Pool]:
        """Keep a sample of all rows; an answer of another shape, or that is not finite, is left out."""
        kept, sizes, notes = [state.rows], dict(state.sizes), dict[int, str]()
        for client, message in inbox.answers:
            rows = message.rows
            if rows.shape[1:] != state.rows.shape[1:] or not bool(rows.isfinite().all()):
                notes[client] = "bad_message"
                continue
            kept.append(rows)
            sizes[client] = len(rows)
        pool = shuffled(torch.cat(kept), inbox.key / "order")
        chosen = torch.randperm(len(pool), generator=(inbox.key / "pool").torch())[: self.most]
        return Merged(Pool(pool[chosen.sort().values], sizes), {"rows": len(pool)}, notes)


def shuffled(rows: Tensor, key: Key) -> Tensor:
    """Return rows ordered by a random projection: the same order whatever the order they came in."""
    if not rows.numel():
        return rows
    flat = rows.flatten(1).double()
    direction = torch.randn(flat.shape[1], generator=key.torch(), dtype=torch.float64)
    return rows[(flat * direction).sum(dim=1).argsort(stable=True)]
