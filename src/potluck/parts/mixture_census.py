"""The label census of FedEP: every client describes its labels once, and every site pools what it heard.

H. Guan, "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling" (thesis,
University of Zurich, 2024), section 4.1. A client sends its label mixture and its number of rows (3 M + 1
numbers), or with `dist = "histogram"` its class counts. A message that cannot be used is set aside with a
reason code that names its sender. Clients that were not heard are asked once more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from potluck.core import Client, Inbox, Merged, Reach, Reply, Site, Stage, Value
from potluck.errors import BadInputError
from potluck.parts.counted import counted, histogram
from potluck.parts.mixture import CLASS_LABELS, Mixture, MixtureFit
from potluck.parts.pooling import Pooled, Pooling, Told, check, refusal
from potluck.parts.support import Support, every_class, quadrature, seen_labels

Where = Literal["global", "local_labels"]
Dist = Literal["mixture", "histogram"]
FORMS = (["pi", "mu", "s2"], ["counts"])


class LabelSketch(NamedTuple):
    """What a client says: a mixture (pi, mu, s2) or counts, its rows; its labels only where needed."""

    said: Mapping[str, Tensor]
    rows: int
    labels: Tensor | None


class LabelShares(NamedTuple):
    """What a site knows: raw weights by client, all usable messages, and how many clients it waits for."""

    raw: Mapping[int, float]
    heard: Mapping[int, LabelSketch]
    classes: int
    waiting: int


@dataclass(frozen=True)
class MixtureCensus(Stage[LabelShares, None, LabelSketch]):
    """Ask all clients how their labels are distributed, and weigh them by their divergence from the pool.

    `support` is the label space, or with "local_labels" the labels that the pooling peer itself holds (the
    published listing); `reach` how far descriptions travel in a mesh.
    """

    fit: MixtureFit = field(default_factory=MixtureFit)
    pooling: Pooling = field(default_factory=Pooling)
    support: Where = "global"
    dist: Dist = "mixture"
    reach: Reach = "neighbours"
    rounds: int = 2
    stream: str = "mixture"

    everyone: ClassVar[bool] = True
    messages: ClassVar[tuple[type, ...]] = (LabelSketch, LabelShares)

    @property
    def partial(self) -> bool:
        """Hear stragglers: a description is never half done."""
        return True

    def init(self, site: Site, past: Any) -> Merged[LabelShares]:
        """Know nothing yet."""
        if not site.classes and (self.dist == "histogram" or self.support == "local_labels"):
            key = 'dist = "histogram"' if self.dist == "histogram" else 'support = "local_labels"'
            raise BadInputError(f"algorithm: {key} needs classes, but the data set has real targets")
        if self.support == "local_labels" and not site.name.startswith("site/"):
            raise BadInputError(
                f'algorithm.support: "local_labels" are those of a pooling peer, but the {site.name} holds '
                f'no data; choose a mesh topology or support = "global"'
            )
        return Merged(LabelShares({}, {}, site.classes, len(site.clients)))

    def view(self, state: LabelShares, client: int) -> None:
        """Show nothing."""
        return None

    def local(self, view: None, client: Client) -> Reply[LabelSketch]:
        """Describe the labels of the own training rows."""
        labels, rows = client.train.y.numpy(), len(client.train)
        seen = counted(labels)
        own = torch.from_numpy(seen.values) if self.support == "local_labels" else None
        if self.dist == "histogram":
            counts = torch.from_numpy(histogram(labels, client.classes))
            return Reply(LabelSketch({"counts": counts}, rows, own))
        found = self.fit(seen)
        said = {name: torch.from_numpy(part) for name, part in found.mixture._asdict().items()}
        log = {"components": len(found.mixture.pi), "loglik": found.loglik, "bic": found.bic}
        return Reply(LabelSketch(said, rows, own), log=log)

    def merge(self, state: LabelShares, inbox: Inbox[LabelSketch]) -> Merged[LabelShares]:
        """Pool all usable descriptions heard so far, and weigh their senders."""
        heard, notes = dict(state.heard), dict[int, str]()
        for sent in inbox.stream():
            reason = self.problem(sent.message, state.classes)
            if reason is None:
                heard[sent.client] = sent.message
            else:
                notes[sent.client] = reason
        silent = [client for client in inbox.population if client not in heard]
        notes = dict.fromkeys(silent, "no_message") | notes
        clients = sorted(heard)
        mine = None if inbox.mine is None else heard.get(inbox.mine)
        found = self._pooled([heard[client] for client in clients], state.classes, mine)
        notes |= {clients[place]: reason for place, reason in found.notes.items()}
        raw = {client: float(found.raw[place]) for place, client in enumerate(clients)}
        kl = {client: float(found.kl[place]) for place, client in enumerate(clients)}
        return Merged(LabelShares(raw, heard, state.classes, len(silent)), self._log(raw, kl, state), notes)

    def _pooled(self, messages: Sequence[LabelSketch], classes: int, mine: LabelSketch | None) -> Pooled:
        told, sizes = [_told(message) for message in messages], [message.rows for message in messages]
        usable = [said for said, rows in zip(told, sizes, strict=True) if rows and isinstance(said, Mixture)]
        support: Support | None = None
        if self.support == "local_labels":
            support = seen_labels(mine.labels.numpy()) if mine and mine.labels is not None else None
        elif classes:
            support = every_class(classes)
        elif usable:
            support = quadrature(usable)
        if support is None or not len(support.points):
            return Pooled(np.zeros(len(told)), np.full(len(told), np.nan), {})
        return self.pooling(told, sizes, support)

    def _log(self, raw: Mapping[int, float], kl: Mapping[int, float], state: LabelShares) -> dict[str, Value]:
        total = sum(raw.values()) or 1.0
        alphas = {client: value / total for client, value in raw.items()}
        log: dict[str, Value] = {f"client/{client}/alpha": alpha for client, alpha in alphas.items()}
        log |= {f"client/{client}/kl": value for client, value in kl.items() if math.isfinite(value)}
        square = sum(alpha * alpha for alpha in alphas.values())
        given = self.pooling.eps_class
        eps = self.pooling.eps_mass / state.classes if given is None and state.classes else given
        return {
            **log,
            "participants": len(raw),
            "eps": eps,
            "effective_alphas": 1 / square if square else 0.0,
        }

    def done(self, state: LabelShares) -> bool:
        """Stop when everybody was heard."""
        return state.waiting == 0

    def problem(self, message: object, classes: int) -> str | None:
        """Return the reason to set a message aside, or None; a client without rows says so rightly."""
        if not isinstance(message, LabelSketch) or not isinstance(message.said, Mapping):
            return "bad_message"
        if not isinstance(message.rows, int) or message.rows < 0:
            return "bad_rows"
        if list(message.said) not in FORMS or not all(
            isinstance(part, Tensor) and part.is_floating_point() and part.ndim == 1
            for part in message.said.values()
        ):
            return "wrong_shape"
        told = _told(message)
        if message.rows == 0:
            return None
        if isinstance(told, Mixture):
            most = max(1, math.ceil(self.fit.rho * (classes or CLASS_LABELS)), self.fit.max_components)
            return check(told, most)
        return "wrong_length" if len(told) != classes else refusal(told, message.rows)


def _told(message: LabelSketch) -> Told:
    parts = [part.double().numpy() for part in message.said.values()]
    return parts[0] if len(parts) == 1 else Mixture(*parts)
