"""FedEx's second stage: averaging inside each cluster, and one prediction from all experts.

Miles et al., "FedEx: an exploration of clustering clients in federated learning", University of Michigan, 2024.
`Experts` lifts the averaging stage over clusters: each has its own model, its own cohort of ceil(C |c|) clients and
its own merge, so that weights, objectives and servers go with it as they go with averaging. A client is shown its
cluster's model only; predicting takes all of them (see `potluck.parts.gate`).
A client that the warm-up missed is shown w0 once; its answer counts for nothing but its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from torch import Tensor

from potluck.average import Average, Down, Global, Update
from potluck.core import Client, Draw, Inbox, Merged, Reply, Sent, Site, Stage, Value
from potluck.errors import BadInputError
from potluck.metrics import Tally
from potluck.model import Model
from potluck.parts.double_softmax import LossHead, with_head
from potluck.parts.gate import RULES, Floats, Gate, Ints, Weights, heard, stream
from potluck.parts.panel import Panel, logs, of_experts, outputs, tally, visits
from potluck.parts.similarity import nearest
from potluck.parts.warm_up import NOBODY, Sorted
from potluck.roles import difference
from potluck.table import Table
from potluck.tree import finite

ExpertInit = Literal["warm", "w0"]
MARKS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)


class Clustered(NamedTuple):
    """What the server remembers: the state of averaging in each cluster, and who belongs where."""

    groups: tuple[Global, ...]
    sorting: Sorted


@dataclass(frozen=True)
class Experts(Stage[Clustered, Panel, Update]):
    """Averaging within clusters; `gate` says how the experts are heard together, `orders` how often they are tried."""

    average: Average = field(default_factory=Average)
    expert_init: ExpertInit = "warm"
    gate: Gate = field(default_factory=Gate)
    orders: int = 5
    loss_head: LossHead = "logits"
    rounds: int = 10
    stream: str = "train"

    judged: bool = True

    whole_tables: ClassVar[bool] = True
    messages: ClassVar[tuple[type, ...]] = (Clustered, Sorted, Global, Update, Panel)

    @property
    def partial(self) -> bool:
        """Tell whether the objective makes use of partial work."""
        return self.average.partial

    def network(self, given: Model) -> Model:
        """Return the model with what the objective adds, under the loss head."""
        return with_head(self.average.network(given), self.loss_head)

    def init(self, site: Site, past: Sorted) -> Merged[Clustered]:
        """Start every expert from the warm mean, or from the initial model that all methods share."""
        if self.average.personal(site.model):
            raise BadInputError(
                "algorithm: FedEx's experts are whole models; take an objective that keeps no leaves at a client"
            )
        merged = self.average.init(site, past.past)
        first = merged.state
        if self.expert_init == "warm":
            first = first._replace(params={**first.params, **past.mean})
        sorting = _trimmed(past._replace(mean={}, past=None), site.clients)
        return Merged(Clustered((first,) * past.many, sorting), merged.log)

    def cohort(self, state: Clustered, draw: Draw) -> Sequence[int]:
        """Draw ceil(C |c|) clients, at least one, of every cluster, and of those that are still to be sorted."""
        parts = [state.sorting.members(cluster) for cluster in range(len(state.groups))]
        parts.append(state.sorting.unheard(draw.clients))
        chosen: list[int] = []
        for place, members in enumerate(parts):
            key = draw.key / "cluster" / place if place else draw.key
            wanted = max(1, math.ceil(draw.participation * len(members) - 1e-9))
            drawn = key.numpy().choice(len(members), size=wanted, replace=False) if members else ()
            chosen += [members[int(position)] for position in drawn]
        return sorted(chosen)

    def view(self, state: Clustered, client: int) -> Panel:
        """Show a client its cluster's model, or w0 if it is still to be sorted."""
        label = state.sorting.labels.get(client)
        group = state.groups[0 if label is None else max(label, 0)]
        if label is None:
            group = group._replace(params={**group.params, **state.sorting.start})
        shown = self.average.view(group, client)
        return Panel((shown.params,), (), shown.extra)

    def local(self, view: Panel, client: Client) -> Reply[Update]:
        """Train from the given model on the own rows."""
        return self.average.local(Down(view.experts[0], view.extra), client)

    def merge(self, state: Clustered, inbox: Inbox[Update]) -> Merged[Clustered]:
        """Average inside every cluster, and sort the clients that were shown w0."""
        known, groups = state.sorting.labels, list(state.groups)
        log: dict[str, Value] = {}
        notes: dict[int, str] = {}
        late = [sent for sent in inbox.answers if sent.client not in known]
        heard_from = 0
        for cluster, group in enumerate(groups):
            own = [sent for sent in inbox.answers if known.get(sent.client) == cluster]
            if not own:
                continue
            key = inbox.key / "cluster" / cluster if cluster else inbox.key
            merged = self.average.merge(group, Inbox(own, key=key, population=state.sorting.members(cluster)))
            groups[cluster] = merged.state
            heard_from += sum(name.endswith("/weight") for name in merged.log)
            log |= _named(merged.log, cluster)
            notes |= merged.notes
            if not finite(merged.state.params):
                log[f"expert/{cluster}/reason"] = "nonfinite_state"
        log["participants"] = heard_from
        sorting = self._with(state.sorting, late, log, notes)
        return Merged(Clustered(tuple(groups), _trimmed(sorting, inbox.population)), log, notes)

    def _with(
        self, sorting: Sorted, late: Sequence[Sent[Update]], log: dict[str, Value], notes: dict[int, str]
    ) -> Sorted:
        """Sort late clients by the cosine of their first update to every cluster's mean update."""
        labels = dict(sorting.labels)
        for client, update in late:
            if not finite(update):
                notes[client] = "nonfinite_state"
                continue
            label = nearest(difference(update.params, sorting.start, sorting.compared), sorting.centres)
            labels[client] = NOBODY if label is None else label
            notes[client] = "sorted"
            log[f"client/{client}/cluster"] = labels[client]
        return sorting._replace(labels=labels)

    def deploy(self, state: Clustered, client: int) -> Panel:
        """Hand out all experts: the online layer hears them together."""
        sizes = tuple(len(state.sorting.members(cluster)) for cluster in range(len(state.groups)))
        return Panel(tuple(group.params for group in state.groups), sizes, {})

    def predict(self, view: Panel, client: Client, x: Tensor) -> Tensor:
        """Predict a stream of rows in the order given, from fresh weights."""
        said = heard(outputs(client.model, view, x))
        start = self._start(view, said.shape[2])
        return logs(self.gate.sums(said, start, np.arange(len(x))))

    def stream_predict(
        self, view: Panel, client: Client, x: Tensor, weights: Weights | None = None
    ) -> tuple[Tensor, Weights]:
        """Predict rows online from the weights that earlier rows left, and return the weights to go on with."""
        said = heard(outputs(client.model, view, x))
        before = self._start(view, said.shape[2]) if weights is None else weights
        seen = stream(said, before, self.gate.t_mode)
        return logs(seen.sums), seen.after

    def score(self, view: Panel, client: Client, table: Table) -> Tally:
        """Score the layer, begun anew for every order, on a table; the site's own tests also in detail."""
        if not len(table):
            return Tally(0)
        raw = outputs(client.model, view, table.x)
        start = self._start(view, raw.shape[2])
        online = self.gate.rule == "online"
        orders = visits(client, len(table), self.orders if online else 1)
        details: dict[str, float] = {}
        if client.id < 0:
            details = of_experts(raw, table.y, self.loss_head)
            details |= _of_rules(raw, table.y, start, orders[0], self.gate)
            if online:
                details |= _over_time(heard(raw)[orders[0]], start, self.gate)

        def combine(said: Floats, order: Ints, y: Ints) -> Floats:
            return self.gate.sums(said, start, order, y)

        return tally(raw, table.y, combine, orders, self.loss_head, details)

    def _start(self, view: Panel, classes: int) -> Weights:
        """Return fresh weights, none for experts that are not finite."""
        return self.gate.start(view.sizes, classes, [finite(expert) for expert in view.experts])


def _of_rules(raw: Floats, y: Tensor, start: Weights, order: Ints, gate: Gate) -> dict[str, float]:
    """Return the accuracy that every gate would have with these experts: training is the same for all."""
    said, truth = heard(raw), np.asarray(y.numpy())
    return {
        f"gate/{rule}/accuracy": float((sums(gate, said, start, order, truth).argmax(axis=1) == truth).mean())
        for rule, sums in RULES.items()
    }


def _over_time(said: Floats, start: Weights, gate: Gate) -> dict[str, float]:
    """Return each expert's weight, mean over classes, after 1, 3, 10, 30, ... rows of the stream and after the last."""
    out, now, seen = {}, start, 0
    for rows in [*(mark for mark in MARKS if mark < len(said)), len(said)]:
        now, seen = stream(said[seen:rows], now, gate.t_mode).after, rows
        for expert, weight in enumerate(now.table.mean(axis=1).tolist()):
            out[f"gate/{expert}/weight/{rows}"] = weight
    return out


def _named(log: Mapping[str, Value], cluster: int) -> dict[str, Value]:
    """Return a cluster's log; what is not about a client gets the expert's name."""
    return {
        name if name.startswith("client/") else f"expert/{cluster}/{name}": value
        for name, value in log.items()
    }


def _trimmed(sorting: Sorted, clients: Sequence[int]) -> Sorted:
    """Forget w0 and the mean updates once there is nobody left to sort."""
    return sorting if sorting.unheard(clients) else sorting._replace(start={}, centres=())
