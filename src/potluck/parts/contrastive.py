"""Training by contrast to prototypes: the stage of FedPCL, in which nothing but prototypes crosses the wire.

Tan, Long, Ma, Liu, Zhou and Jiang, "Federated learning from pre-trained models: a contrastive learning approach",
NeurIPS 2022; formulas in `potluck.parts.prototypes`, deviations in `potluck.algorithms.fedpcl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from potluck.core import Client, Inbox, Merged, Reply, Site, Stage
from potluck.learn import Fit, Plan
from potluck.model import Model, RowLoss
from potluck.parts.encoder import Encoder, body_of, encoder_of, stored
from potluck.parts.heads import refuse_headless
from potluck.parts.prototypes import class_means, contrast, filled, mean_of, nearest
from potluck.tree import Params, digest, finite


class Stored(NamedTuple):
    """What a site remembers: the shared prototypes, and the latest ones of every client heard."""

    shared: Tensor
    latest: Mapping[int, Tensor]


class Shown(NamedTuple):
    """What a client is shown: the shared prototypes, and everybody's."""

    shared: Tensor
    each: Tensor


class Prototypes(NamedTuple):
    """What a client sends: one row per class, zeros where it has none."""

    rows: Tensor


@dataclass(frozen=True)
class Contrastive(Stage[Stored, Shown, Prototypes]):
    """Training by contrast to prototypes (Tan et al., NeurIPS 2022)."""

    rounds: int = 10
    fit: Fit = field(default_factory=Fit)
    backbone: Path | None = None
    projection: int = 256
    tau: float = 0.07
    strength: float = 1.0
    stream: str = "train"

    messages: ClassVar[tuple[type, ...]] = (Stored, Shown, Prototypes)

    @property
    def newcomer(self) -> bool:
        """Say that only a client that trained has features that fit the prototypes."""
        return False

    def network(self, given: Model) -> Model:
        """Turn the model into an encoder; refuse one without body and head, and a backbone that does not fit."""
        refuse_headless(given, "fedpcl")
        body = (
            None
            if self.backbone is None
            else body_of(stored(self.backbone), given.module, str(self.backbone))
        )
        return replace(given, factory=partial(self._encoder, given, body))

    def _encoder(self, given: Model, body: Params | None) -> nn.Module:
        return Encoder(given.factory(), given.shape, body, self.projection)

    def init(self, site: Site, past: Any) -> Merged[Stored]:
        """Know no prototype yet; write down which backbone it is."""
        encoder = encoder_of(site.model)
        log = {} if self.backbone is None else {"backbone": digest(encoder.body.state_dict())}
        return Merged(Stored(torch.zeros(site.classes, encoder.width), {}), log)

    def view(self, state: Stored, client: int) -> Shown:
        """Show the shared prototypes, and everybody's latest."""
        each = list(state.latest.values())
        return Shown(
            state.shared, torch.stack(each) if each else state.shared.new_zeros(0, *state.shared.shape)
        )

    def deploy(self, state: Stored, client: int) -> Shown:
        """Show the shared prototypes only; they fill the gaps among the own ones."""
        return Shown(state.shared, state.shared.new_zeros(0, *state.shared.shape))

    def local(self, view: Shown, client: Client) -> Reply[Prototypes]:
        """Train by contrast to what is known, then compute the own prototypes."""
        model, encoder = client.model, encoder_of(client.model)
        learn = [name for name, part in encoder.named_parameters() if part.requires_grad]
        plan = Plan(loss=self.loss(view), learn=learn)
        trained = self.fit(
            model,
            assembled(client),
            client.train,
            client.key,
            plan=plan,
            round=client.round,
            effort=client.effort,
        )
        rows = class_means(model, trained.params, client.train, client.classes, encoder.width)
        own = {name: trained.params[name] for name in encoder.own}
        log = {"train/loss": trained.loss, "train/steps": trained.steps}
        return Reply(Prototypes(rows), {"own": own, "prototypes": rows}, log)

    def loss(self, view: Shown) -> RowLoss:
        """Return L_g + L_p per row, on top of cross-entropy where there is a head."""
        each = filled(view.each, view.shared)

        def loss(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            assert isinstance(module, Encoder)
            features = module.body(x)
            z = module.unit(features)
            apart = contrast(z, y, view.shared.unsqueeze(0), self.tau) + contrast(z, y, each, self.tau)
            if module.head is None:
                return apart
            return (
                functional.cross_entropy(module.head(features), y, reduction="none") + self.strength * apart
            )

        return loss

    def merge(self, state: Stored, inbox: Inbox[Prototypes]) -> Merged[Stored]:
        """Store what came, and average it anew, each class over the clients that know it."""
        latest, notes, heard = dict(state.latest), {}, 0
        for client, message in inbox.stream():
            if message.rows.shape != state.shared.shape:
                notes[client] = "bad_message"
            elif not finite(message.rows):
                notes[client] = "nonfinite_state"
            else:
                heard += 1
                if message.rows.any():
                    latest[client] = message.rows
        latest = {client: latest[client] for client in sorted(latest)}
        shared = mean_of(torch.stack(list(latest.values()))) if latest else state.shared
        log = {"participants": heard, "classes_known": int(shared.any(dim=1).sum())}
        return Merged(Stored(shared, latest), log, notes)

    def predict(self, view: Shown, client: Client, x: Tensor) -> Tensor:
        """Return scores by distance to the own prototypes, or to shared ones where there are none."""
        own = client.memory.get("prototypes", torch.zeros_like(view.shared))
        return nearest(client.model(assembled(client), x), filled(own, view.shared), self.tau)


def assembled(client: Client) -> Params:
    """Return the client's parameters: what it kept, the initial ones for the rest."""
    own: Params = client.memory.get("own", {})
    return own if own.keys() == client.model.slots.keys() else {**client.first(), **own}
