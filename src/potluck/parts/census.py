"""A census of labels: every client tells once how many training rows of each class it holds.

What FedDisco (Ye, Xu, Wang, Xu, Chen and Wang, ICML 2023) and other rules that look at label skew need before
they can weigh. Wire: one count per class, once. It tells the server each client's label histogram, in the
clear; that is more than averaging tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from potluck.core import Client, Inbox, Merged, Reply, Site, Stage
from potluck.errors import BadInputError


class Histograms(NamedTuple):
    """Label counts by client (int64), of those who answered."""

    classes: int
    counts: Mapping[int, Tensor]


class Counts(NamedTuple):
    """One client's training rows by class."""

    counts: Tensor


@dataclass(frozen=True)
class LabelCensus(Stage[Histograms, None, Counts]):
    """Ask all clients for their label histograms; `expected` is the number of classes that the asker reckons with."""

    expected: int = 0
    rounds: int = 1
    stream: str = "labels"

    everyone: ClassVar[bool] = True
    messages: ClassVar[tuple[type, ...]] = (Histograms, Counts)

    def init(self, site: Site, past: Any) -> Merged[Histograms]:
        """Refuse data without classes."""
        if not site.classes:
            raise BadInputError("algorithm: it weighs clients by their labels, but the data have no classes")
        if self.expected not in (0, site.classes):
            raise BadInputError(
                f"algorithm: a label distribution over {self.expected} classes is given,"
                f" but the data have {site.classes}"
            )
        return Merged(Histograms(site.classes, {}))

    def view(self, state: Histograms, client: int) -> None:
        """Show nothing; the question is always the same."""
        return None

    def local(self, view: None, client: Client) -> Reply[Counts]:
        """Count the training rows of every class."""
        return Reply(Counts(client.train.counts(client.classes)))

    def merge(self, state: Histograms, inbox: Inbox[Counts]) -> Merged[Histograms]:
        """Collect the counts; an answer that holds none is left out."""
        counts, notes = dict(state.counts), {}
        for client, message in inbox.stream():
            told = message.counts
            if told.shape == (state.classes,) and not told.is_floating_point() and bool((told >= 0).all()):
                counts[client] = told
            else:
                notes[client] = "bad_message"
        return Merged(Histograms(state.classes, counts), {"told": len(counts)}, notes)


def distributions(histograms: Histograms, clients: Sequence[int]) -> Tensor:
    """Return the label distributions of clients (rows, float64); NaN for those without rows or without an answer."""
    nothing = torch.zeros(histograms.classes, dtype=torch.int64)
    counts = torch.stack([histograms.counts.get(client, nothing) for client in clients]).double()
    return counts / counts.sum(dim=1, keepdim=True)
