"""A gate that learns from labels: the remedy that FedEx's authors propose for their online layer.

Miles et al., "FedEx: an exploration of clustering clients in federated learning", University of Michigan, 2024, find
that their layer rewards confidence and not accuracy, and leave a gate that looks at labels to future work. This is
one, ours: the layer's table of weights, made to depend on what the experts say,

    w_ij(x) = exp(a_ij . (m, m^2) + b_ij),   s_j = sum_i w_ij(x) m_j^(i),   loss -log(s_y / sum_j s_j)

trained by averaging on the clients' validation rows, with the experts held fixed. It starts as the plain mean. One
full-batch step a round is the default: several local steps on a client's few classes cancel out between clients.
A client is handed the experts once and keeps what they say about its validation rows; later rounds carry the gate
alone, G C (2 G C + 1) numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from potluck.combine import Weighed, combine
from potluck.core import Client, Inbox, Merged, Reply, Site, Stage
from potluck.learn import Fit
from potluck.metrics import Tally
from potluck.model import Model
from potluck.parts.double_softmax import LossHead, with_head
from potluck.parts.experts import Clustered
from potluck.parts.gate import Floats, Ints, heard
from potluck.parts.panel import Panel, logs, of_experts, outputs, tally
from potluck.table import Table
from potluck.tree import Params


class Arbiter(nn.Module):
    """The gate: from what the experts say (rows x experts x classes, flat) to the logarithm of their mixture."""

    def __init__(self, experts: int, classes: int) -> None:
        super().__init__()
        self.experts, self.classes = experts, classes
        self.trust = nn.Linear(2 * experts * classes, experts * classes)
        nn.init.zeros_(self.trust.weight)
        nn.init.zeros_(self.trust.bias)

    def forward(self, said: Tensor) -> Tensor:
        """Return the log of the mixture by row and class."""
        tiny = torch.finfo(said.dtype).tiny
        trust: Tensor = self.trust(torch.cat([said, said.square()], dim=1))
        parts = (trust + said.clamp(min=tiny).log()).reshape(len(said), self.experts, self.classes)
        return parts.logsumexp(dim=1).log_softmax(dim=1)


class Taught(NamedTuple):
    """What the server remembers: the experts, the gate, and who has been handed the experts."""

    panel: Panel
    gate: Params
    served: tuple[int, ...]


class Lesson(NamedTuple):
    """What a client is shown: the experts (none if it had them before) and the gate."""

    panel: Panel
    gate: Params


class Learnt(NamedTuple):
    """What a client sends: its gate after training, and on how many validation rows."""

    gate: Params
    rows: int


@dataclass(frozen=True)
class LearnedGate(Stage[Taught, Lesson, Learnt]):
    """Federated averaging of a gate over fixed experts, on validation rows."""

    rounds: int = 50
    fit: Fit = field(default_factory=lambda: Fit(lr=1.0, batch="all"))
    loss_head: LossHead = "logits"
    stream: str = "gate"

    whole_tables: ClassVar[bool] = True
    messages: ClassVar[tuple[type, ...]] = (Taught, Lesson, Learnt, Panel)

    def network(self, given: Model) -> Model:
        """Return the experts' model under the loss head."""
        return with_head(given, self.loss_head)

    def init(self, site: Site, past: Clustered) -> Merged[Taught]:
        """Take over the experts, and start from their plain mean."""
        experts = tuple(group.params for group in past.groups)
        sizes = tuple(len(past.sorting.members(cluster)) for cluster in range(len(experts)))
        gate = arbiter(len(experts), site.classes).init(site.key)
        return Merged(Taught(Panel(experts, sizes, {}), gate, ()))

    def view(self, state: Taught, client: int) -> Lesson:
        """Show a client the gate, and the experts unless it has heard them already."""
        return Lesson(Panel((), (), {}) if client in state.served else state.panel, state.gate)

    def local(self, view: Lesson, client: Client) -> Reply[Learnt]:
        """Train the gate on what the experts say about the validation rows."""
        said: Tensor = client.memory["said"] if "said" in client.memory else self._said(view, client)
        model = arbiter(said.shape[1], client.classes)
        table = Table(said.flatten(start_dim=1), client.val.y)
        trained = self.fit(model, view.gate, table, client.key, round=client.round, effort=client.effort)
        return Reply(
            Learnt(trained.params, len(client.val)), keep={"said": said}, log={"train/loss": trained.loss}
        )

    def merge(self, state: Taught, inbox: Inbox[Learnt]) -> Merged[Taught]:
        """Average the gates by validation rows."""
        answers = [
            Weighed(client, sent.gate, float(sent.rows), float(sent.rows)) for client, sent in inbox.answers
        ]
        combined = combine(answers, state.gate)
        served = sorted(
            {*state.served, *(c for c, *_ in answers if combined.notes.get(c) != "nonfinite_state")}
        )
        log = {f"client/{client}/weight": weight for client, weight in combined.weights.items()}
        return Merged(
            Taught(state.panel, combined.params, tuple(served)),
            {**log, "participants": len(combined.weights)},
            combined.notes,
        )

    def deploy(self, state: Taught, client: int) -> Lesson:
        """Hand out the experts and the gate."""
        return Lesson(state.panel, state.gate)

    def predict(self, view: Lesson, client: Client, x: Tensor) -> Tensor:
        """Return the mixture's class scores."""
        return logs(mixture(view.gate, heard(outputs(client.model, view.panel, x))))

    def score(self, view: Lesson, client: Client, table: Table) -> Tally:
        """Score the mixture on a table; the site's own tests also expert by expert."""
        if not len(table):
            return Tally(0)
        raw = outputs(client.model, view.panel, table.x)
        sums = mixture(view.gate, heard(raw))
        details: dict[str, float] = {}
        if client.id < 0:
            details = of_experts(raw, table.y, self.loss_head)
            right = sums.argmax(axis=1) == np.asarray(table.y.numpy())
            details["gate/learned/accuracy"] = float(right.mean())

        def combined(said: Floats, order: Ints, y: Ints) -> Floats:
            return sums

        return tally(raw, table.y, combined, [np.arange(len(table))], self.loss_head, details)

    def _said(self, view: Lesson, client: Client) -> Tensor:
        return torch.from_numpy(heard(outputs(client.model, view.panel, client.val.x))).float()


def arbiter(experts: int, classes: int) -> Model:
    """Return the gate as a model."""
    return Model(partial(Arbiter, experts, classes), shape=(experts * classes,), classes=classes)


def mixture(gate: Params, said: Floats) -> Floats:
    """Return the mixture of what the experts say, by row and class."""
    rows, experts, classes = said.shape
    spoken = torch.from_numpy(said).float().reshape(rows, experts * classes)
    return np.asarray(arbiter(experts, classes)(gate, spoken).double().exp().numpy())
