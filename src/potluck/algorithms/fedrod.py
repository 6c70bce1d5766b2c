"""FedRoD: one body with two heads, a generic one for everybody and a personal one for each client.

Chen and Chao, "On bridging generic and personalized federated learning for image classification", ICLR 2022.

    features z = body(x); generic scores g = head(z); personalised scores g + h_k(z)
    generic loss:  -log( n_{k,y}^gamma e^{g_y} / sum_c n_{k,c}^gamma e^{g_c} )      (balanced softmax)
    personal loss: cross-entropy of stopgrad(g) + h_k(stopgrad(z)); moves h_k only
    server:        body and head averaged by rows; h_k stays (`head = "linear"`), or is computed from the
                   client's class distribution by a shared network that is averaged too ("hypernetwork")

Both losses are minimised in one pass. The global tests see the generic head, a client's own tests its
personalised scores. A class without rows is masked out instead of taking log 0. The personal head starts at
zero, and a client that has never trained is served by the generic head.
Deviations: there is no official code. `coupling = "pfllib"` is the paper's rule; "flbench" is that of another
public library: both losses train the body, and the personal scores stand alone.
Wire: FedAvg's, plus the hypernetwork. Class counts stay at the client. State: the personal head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import Field
from torch import nn

from potluck.algorithms.fedavg import Rounds
from potluck.average import TrainOn, averaging, crossing
from potluck.combine import NormBuffers
from potluck.core import Algorithm, Client
from potluck.learn import Fit, Plan
from potluck.model import Model, plain_loss
from potluck.parts.heads import Coupling, Head, TwoHeads, balanced, decoupled, refuse_headless
from potluck.roles import ByRows, Everything, Objective, Replace, Server, Share, Weigh
from potluck.tree import Params

Gamma = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class BalancedSoftmax(Objective):
    """Cross-entropy that discounts a client's frequent classes (Ren et al., NeurIPS 2020)."""

    gamma: Gamma = 1.0

    def refuse(self, model: Model, fit: Fit) -> str | None:
        """Refuse targets without classes."""
        return None if model.classes else "data: the balanced softmax needs classes, not real targets"

    def plan(self, extra: Params, given: Params, client: Client) -> Plan:
        """Train on the balanced softmax of the client's own class counts."""
        return Plan(loss=balanced(client.train.counts(client.classes), self.gamma))


@dataclass(frozen=True)
class Decoupled(Objective):
    """A generic head under the balanced softmax and a personal head on top (Chen and Chao, ICLR 2022)."""

    head: Head = "linear"
    coupling: Coupling = "pfllib"
    gamma: Gamma = 1.0

    def network(self, given: Model) -> Model:
        """Add the personal part to the model; refuse one that has no body and head."""
        refuse_headless(given, "fedrod")
        factory = partial(self._two_headed, given)
        return replace(given, factory=factory, loss=plain_loss)

    def _two_headed(self, given: Model) -> nn.Module:
        add = self.coupling == "pfllib"
        return TwoHeads(given.factory(), given.shape, given.classes, self.head, add)

    def personal(self, model: Model) -> frozenset[str]:
        """Keep the class counts and a linear head at the client."""
        module = model.module
        assert isinstance(module, TwoHeads)
        head = {f"personal.{name}" for name in module.personal.state_dict()}
        return frozenset({"counts"} | (head if self.head == "linear" else set()))

    def enter(self, given: Params, client: Client) -> Params:
        """Tell the network how many rows of each class the client trains on."""
        return {**given, "counts": client.train.counts(client.classes)}

    def plan(self, extra: Params, given: Params, client: Client) -> Plan:
        """Train both heads at once."""
        return Plan(loss=decoupled(given["counts"], self.gamma, self.coupling))


def fedrod(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    head: Head = "linear",
    coupling: Coupling = "pfllib",
    gamma: Gamma = 1.0,
    weigh: Weigh = ByRows(),
    server: Server = Replace(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
    train_on: TrainOn = "train",
) -> Algorithm:
    """FedRoD, a generic and a personal head on one body (Chen and Chao, ICLR 2022)."""
    objective = Decoupled(head, coupling, gamma)
    return averaging("fedrod", rounds, fit, weigh, objective, server, share, bn_buffers, train_on)


def wire(model: Model) -> tuple[int, int]:
    """Return the bytes of one client's training round, down and up: as FedAvg's."""
    return crossing(model)
