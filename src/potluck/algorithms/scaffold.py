"""SCAFFOLD: correct every local gradient by what the client's direction differs from everybody's.

Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, "SCAFFOLD: stochastic controlled averaging for federated
learning", ICML 2020.

    client:  y <- y - lr (g(y) - c_k + c)                       starting from y = x
             option II:  c_k+ = c_k - c + (x - y) / (K_k lr)    K_k: steps really taken (default)
             option I:   c_k+ = gradient of the client's mean loss at x
    server:  x <- (1 - eta) x + eta mean_k y_k                  eta = server.lr
             c <- c + (1/N) sum over the answers of (c_k+ - c_k)    N: all clients

The variates start at zero, and c stays the mean of all c_k because a client whose answer did not count also
forgets it. A client that took no step keeps its c_k. Variates exist for trainable leaves that travel.
Deviations: the batch-norm statistics have no variates. The published code of some benchmarks starts the
variates at random weights and weighs by rows; the latter is `weigh = { name = "rows" }`.
Wire: twice the model down (x, c), twice up (y, c_k+ - c_k). State: c_k at each client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from potluck.algorithms.fedavg import Rounds
from potluck.average import TrainOn, averaging, crossing
from potluck.combine import NormBuffers
from potluck.core import Algorithm, Client
from potluck.learn import Fit, Plan, Trained, gradient
from potluck.model import Model
from potluck.parts.rate import Rate
from potluck.roles import After, Everything, Objective, Server, Share, Uniform, Weigh, difference
from potluck.tree import Params, nbytes

Option = Literal["I", "II"]


@dataclass(frozen=True)
class Variates(Objective):
    """Control variates on every gradient (Karimireddy et al., ICML 2020); plain descent only."""

    option: Option = "II"

    central: ClassVar[str] = (
        "its control variates must average to the server's over all clients, and a mesh has no server"
    )

    def refuse(self, model: Model, fit: Fit) -> str | None:
        """Refuse optimisers whose steps are not lr times a gradient."""
        if fit.optimizer == "adam" or fit.momentum:
            chosen = "optimizer = 'adam'" if fit.optimizer == "adam" else f"momentum = {fit.momentum}"
            return (
                f"algorithm.fit: {chosen} does not go with control variates, which read the mean gradient off the "
                "distance moved; use plain descent (optimizer = 'sgd', momentum = 0)"
            )
        return None

    def start(self, model: Model, params: Params) -> Params:
        """Return the server's variate c = 0."""
        return {name: torch.zeros_like(params[name]) for name in model.learnable if name in params}

    def plan(self, extra: Params, given: Params, client: Client) -> Plan:
        """Add c - c_k to every gradient."""
        zeros = {name: torch.zeros_like(given[name]) for name in client.model.learnable if name not in extra}
        return Plan(shift={**zeros, **difference(extra, _own(extra, client), list(extra))})

    def after(self, extra: Params, given: Params, trained: Trained, client: Client) -> After:
        """Return c_k+ - c_k to send and c_k+ to keep."""
        if not trained.steps:
            return After({name: torch.zeros_like(leaf) for name, leaf in extra.items()}, {})
        names, own = list(extra), _own(extra, client)
        if self.option == "I":
            change = difference(gradient(client.model, given, client.train), own, names)
        else:
            scale = 1.0 / (trained.steps * trained.lr)
            moved = difference(given, trained.params, names)
            change = {name: moved[name] * scale - extra[name] for name in names}
        return After(change, {"variate": {name: own[name] + change[name] for name in names}})

    def settle(self, extra: Params, summed: Params, population: int) -> Params:
        """Return c + (1/N) sum of the changes."""
        return {
            name: (leaf.double() + summed[name] / population).to(leaf.dtype) for name, leaf in extra.items()
        }


def _own(extra: Params, client: Client) -> Params:
    own: Params | None = client.memory.get("variate")
    return {name: torch.zeros_like(leaf) for name, leaf in extra.items()} if own is None else own


def scaffold(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    option: Option = "II",
    weigh: Weigh = Uniform(),
    server: Server = Rate(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
    train_on: TrainOn = "train",
) -> Algorithm:
    """SCAFFOLD, control variates against client drift (Karimireddy et al., ICML 2020)."""
    objective = Variates(option)
    return averaging("scaffold", rounds, fit, weigh, objective, server, share, bn_buffers, train_on)


def wire(model: Model) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up: the model and a variate each way."""
    down, up = crossing(model)
    variate = nbytes({name: model.slots[name].detach() for name in model.learnable})
    return down + variate, up + variate
