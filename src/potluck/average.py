"""Averaging, the one stage that most methods are presets of.

A round: clients train from the site's model, the answers are combined with weights (`Weigh`), and the site
takes a step towards the outcome (`Server`). What clients minimise is an `Objective`; which leaves travel is
a `Share`. With the neutral choices it is FedAvg (McMahan, Moore, Ramage, Hampson and Agüera y Arcas,
"Communication-efficient learning of deep networks from decentralized data", AISTATS 2017).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from potluck.combine import Combined, Fold, NormBuffers, Weighed, pool_variances, with_squares
from potluck.core import Algorithm, Client, Inbox, Merged, Reply, Sent, Site, Stage, Value
from potluck.errors import BadInputError
from potluck.learn import Fit, measure
from potluck.metrics import Tally
from potluck.model import Model
from potluck.roles import (
    Architecture,
    ByRows,
    Everything,
    Never,
    Objective,
    Plain,
    Replace,
    Server,
    Share,
    Stop,
    Told,
    Watch,
    Weigh,
)
from potluck.table import Table
from potluck.tree import Params, finite, nbytes

Rounds = Annotated[int, Field(ge=1)]
TrainOn = Literal["train", "train_and_val"]


class Global(NamedTuple):
    """What a site remembers: the shared leaves, the server's memory, the objective's leaves, the statistics, losses."""

    params: Params
    server: Params
    extra: Params
    past: Any
    watch: Watch | None = None

    @property
    def best(self) -> Params:
        """Return what the next stage should use: the best leaves known, or the last if none were measured worse."""
        return self.watch.best if self.watch is not None and self.watch.waited else self.params


class Down(NamedTuple):
    """What a client is shown: the shared leaves of the model, and the objective's."""

    params: Params
    extra: Params


class Update(NamedTuple):
    """What a client sends: its shared leaves after training, its rows, numbers for weighing, more leaves."""

    params: Params
    rows: int
    told: Mapping[str, float]
    extra: Params


@dataclass(frozen=True)
class Average(Stage[Global, Down, Update]):
    """Federated averaging with choices."""

    rounds: Rounds = 10
    fit: Fit = field(default_factory=Fit)
    weigh: Weigh = field(default_factory=ByRows)
    objective: Objective = field(default_factory=Plain)
    server: Server = field(default_factory=Replace)
    share: Share = field(default_factory=Everything)
    bn_buffers: NormBuffers = "average"
    train_on: TrainOn | Literal["val"] = "train"
    stream: str = "train"
    architecture: Architecture | None = None
    stop: Stop = field(default_factory=Never)
    judged: bool = False

    messages: ClassVar[tuple[type, ...]] = (Global, Down, Update, Watch)

    @property
    def newcomer(self) -> bool:
        """Tell whether all that prediction needs is at the site."""
        return self.share.newcomer and self.bn_buffers != "local"

    def serves(self, model: Model) -> bool:
        """Tell whether all that prediction with this model needs is at the site."""
        return self.newcomer or not self.personal(model)

    def network(self, given: Model) -> Model:
        """Return the model, another one if an architecture is given, with what the objective adds to it."""
        return self.objective.network(self.architecture.model(given) if self.architecture else given)

    @property
    def partial(self) -> bool:
        """Tell whether the objective makes use of partial work."""
        return self.objective.partial

    def init(self, site: Site, past: Any) -> Merged[Global]:
        """Draw the initial model; all sites draw the same one without a message."""
        refusal = self.objective.refuse(site.model, self.fit) or self.server.refuse(self.bn_buffers)
        if (self.weigh.validates or self.stop.validates) and self.train_on != "train":
            what = "weights" if self.weigh.validates else "losses that end the stage"
            refusal = f"algorithm.train_on: the {what} are measured on the validation rows; train on others"
        if refusal:
            raise BadInputError(refusal)
        params, personal = site.first(), self.personal(site.model)
        shared = {name: leaf for name, leaf in params.items() if name not in personal}
        note = self.share.note(site.model)
        extra = self.objective.start(site.model, shared)
        state = Global(shared, self.server.start(site.model, shared), extra, past, self.stop.start(shared))
        return Merged(state, {"note": note} if note else {})

    def view(self, state: Global, client: int) -> Down:
        """Show a client the model and the objective's leaves."""
        return Down(state.params, state.extra)

    def local(self, view: Down, client: Client) -> Reply[Update]:
        """Train from the given model on the own rows."""
        client = self.with_rows(client)
        model = client.model
        given = self.objective.enter(self.assembled(view, client), client)
        plan = self.objective.plan(view.extra, given, client)
        before = self.stop.measure(model, given, client)
        trained = self.fit(
            model, given, client.train, client.key, plan=plan, round=client.round, effort=client.effort
        )
        after = self.objective.after(view.extra, given, trained, client)
        told = {**before, **self.weigh.measure(model, given, trained.params, client)}
        personal = self.personal(model)
        kept = {name: leaf for name, leaf in trained.params.items() if name in personal}
        sent = {name: leaf for name, leaf in trained.params.items() if name not in kept}
        if self.bn_buffers == "pooled":
            sent = with_squares(sent, model.norms)
        return Reply(
            Update(sent, len(client.train), told, after.send),
            keep={**after.keep, **({"personal": kept} if kept else {})},
            log={
                "train/loss": trained.loss,
                "train/steps": trained.steps,
                **{f"told/{name}": value for name, value in told.items()},
            },
        )

    def idle(self, view: Down, client: Client) -> Reply[Update]:
        """Stand in with the model as it is: a mesh peer that did not train this round."""
        client = self.with_rows(client)
        personal = self.personal(client.model)
        given = self.assembled(view, client)
        sent = {name: leaf for name, leaf in given.items() if name not in personal}
        if self.bn_buffers == "pooled":
            sent = with_squares(sent, client.model.norms)
        before = self.stop.measure(client.model, given, client)
        told = {**before, **self.weigh.measure(client.model, given, given, client)}
        zeros = {name: leaf.new_zeros(leaf.shape) for name, leaf in view.extra.items()}
        return Reply(Update(sent, len(client.train), told, zeros))

    def merge(self, state: Global, inbox: Inbox[Update]) -> Merged[Global]:
        """Combine the answers and take the server's step."""
        extras, heard = Fold(), dict[int, Told]()
        answers: Iterator[Weighed] | list[Weighed]
        if self.weigh.streams and self.server.streams and inbox.mixing is None:
            answers = (
                self._weighed(sent, float(sent.message.rows), extras, heard) for sent in inbox.stream()
            )
        else:
            held = inbox.answers
            raws = self._raws(held, state.past, inbox)
            answers = [self._weighed(sent, raw, extras, heard) for sent, raw in zip(held, raws, strict=True)]
        combined = self.server.gather(answers, state.params)
        if not combined.weights:
            return Merged(state, {"participants": 0}, combined.notes)
        moved = self._moved(state, combined, extras, inbox.population)
        counted = [heard[client] for client in combined.weights]
        if inbox.mine is not None:  # a peer's loss is that of its own model
            counted = [told if told.client == inbox.mine else told._replace(values={}) for told in counted]
        watch = self.stop.watch(state.watch, state.params, counted)
        return moved._replace(state=moved.state._replace(watch=watch))

    def done(self, state: Global) -> bool:
        """Tell whether the losses say so."""
        return self.stop.done(state.watch)

    def _raws(self, held: Sequence[Sent[Update]], past: Any, inbox: Inbox[Update]) -> Sequence[float]:
        if inbox.mixing is not None:
            return [inbox.mixing[sent.client] for sent in held]
        told = [Told(sent.client, sent.message.rows, sent.message.told) for sent in held]
        return self.weigh.raw(told, past, inbox.population)

    def _weighed(self, sent: Sent[Update], raw: float, extras: Fold, heard: dict[int, Told]) -> Weighed:
        """Hand on one answer; it counts with all of its leaves or, if any or its weight is not finite, with none."""
        update = sent.message
        heard[sent.client] = Told(sent.client, update.rows, update.told)
        if update.extra and not finite(update.extra):
            raw = math.nan
        elif update.extra and math.isfinite(raw) and finite(update.params):
            extras.add(1.0, update.extra)
        return Weighed(sent.client, update.params, raw, float(update.rows))

    def _moved(self, state: Global, combined: Combined, extras: Fold, crowd: Sequence[int]) -> Merged[Global]:
        mean, weights = combined.params, combined.weights
        mean = pool_variances(mean, frozenset(mean)) if self.bn_buffers == "pooled" else mean
        mean = self.weigh.rescale(mean, state.params, list(weights), state.past, crowd)
        params, memory = self.server.step(state.params, mean, state.server)
        sums = extras.sums() if extras.total else None
        extra = state.extra if sums is None else self.objective.settle(state.extra, sums, len(crowd))
        log: dict[str, Value] = {f"client/{client}/weight": weight for client, weight in weights.items()}
        log |= {"effective_clients": 1.0 / sum(w * w for w in weights.values()), "participants": len(weights)}
        return Merged(Global(params, memory, extra, state.past), log, combined.notes)

    def personal(self, model: Model) -> frozenset[str]:
        """Return the names of the leaves that stay with a client."""
        local = frozenset(name for name in model.buffers if name in model.norms)
        kept = self.share.personal(model) | self.objective.personal(model)
        return kept | (local if self.bn_buffers == "local" else frozenset())

    def assembled(self, view: Down, client: Client) -> Params:
        """Put the shared leaves together with the client's own (those of the initial model at first)."""
        personal = self.personal(client.model)
        if not personal:
            return view.params
        own = client.memory.get("personal") or client.first()
        return {name: (own if name in personal else view.params)[name] for name in client.model.slots}

    def with_rows(self, client: Client) -> Client:
        """Return the client with its validation rows among or in place of the training rows, if so chosen."""
        if self.train_on == "train":
            return client
        if self.train_on == "val":
            if len(client.train) and not len(client.val):
                raise BadInputError(
                    f"split.val: stage {self.stream!r} trains on validation rows, but client {client.id} has none"
                )
            return replace(client, train=client.val, val=client.val.take(slice(0, 0)))
        both = Table(torch.cat([client.train.x, client.val.x]), torch.cat([client.train.y, client.val.y]))
        return replace(client, train=both, val=client.val.take(slice(0, 0)))

    def predict(self, view: Down, client: Client, x: Tensor) -> Tensor:
        """Return the class scores of the assembled model."""
        params, own = self.assembled(view, client), "personal" in client.memory
        return self.share.outputs(client.model, params, x, own=own)

    def score(self, view: Down, client: Client, table: Table) -> Tally:
        """Count hits and losses, or what else the model has for figures."""
        if client.model.figures is None:
            return super().score(view, client, table)
        return measure(client.model.figures, client.model, self.assembled(view, client), table)

    def show(self, view: Down, client: Client, test: Table | None = None) -> Mapping[str, Value]:
        """Return what the model has to show of the client's training rows, or of a test."""
        if client.model.show is None:
            return {}
        module = client.model.load(self.assembled(view, client)).eval()
        return client.model.show(module, client.train if test is None else test, client.key, test is not None)


def averaging(
    name: str,
    rounds: int,
    fit: Fit,
    weigh: Weigh,
    objective: Objective,
    server: Server,
    share: Share,
    bn_buffers: NormBuffers = "average",
    train_on: TrainOn = "train",
    *,
    architecture: Architecture | None = None,
    stream: str = "train",
    judged: bool = False,
    topologies: frozenset[str] = frozenset({"star", "rotating", "mesh"}),
    refusal: str = "",
) -> Algorithm:
    """Return the algorithm that averages with these choices, behind the statistics stages that its weights need."""
    stage = Average(
        rounds, fit, weigh, objective, server, share, bn_buffers, train_on, stream, architecture, judged=judged
    )  # fmt: skip
    if objective.central:
        topologies, refusal = topologies - {"mesh"}, objective.central
    return Algorithm((*weigh.before(), stage), name, topologies=topologies, refusal=refusal)


def crossing(model: Model, told: int = 0) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up, with `told` numbers besides model and rows."""
    size = nbytes({name: slot.detach() for name, slot in model.slots.items()})
    return size, size + 8 * (1 + told)
