"""The five choices that make an averaging method, and their neutral settings (FedAvg).

* `Weigh`: how much an answer counts.        * `Objective`: what a client minimises.
* `Server`: the step from the mean.          * `Share`: which leaves travel.
* `Centre`: what "mean" means.

An `Architecture` is another network to train than the experiment's; `Stop` says when enough is enough.

Any choice goes with any other, from Python and from TOML; a method of the literature is mostly one of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from potluck.combine import Combined, NormBuffers, Weighed, combine
from potluck.core import Client, Stage
from potluck.learn import Fit, Plan, Trained
from potluck.model import Model
from potluck.tree import Params


class Told(NamedTuple):
    """What a merge knows of one answer besides its parameters."""

    client: int
    rows: int
    values: Mapping[str, float]


class Weigh:
    """How much each answer counts; by number of training rows unless overridden (FedAvg).

    `measure` is the client half (numbers that ride with the update), `raw` the merge half (weights before the
    aggregation contract), `before` the statistics stages that are needed first. `streams` is true for rules
    whose raw weights are the numbers of rows, which need not see all answers at once; `validates` for rules
    that measure on the validation rows, which must then not be trained on.
    """

    streams: ClassVar[bool] = False
    validates: ClassVar[bool] = False

    def before(self) -> tuple[Stage[Any, Any, Any], ...]:
        """Return the stages whose outcome `raw` is given as `past`."""
        return ()

    def measure(self, model: Model, given: Params, trained: Params, client: Client) -> Mapping[str, float]:
        """Return the numbers that ride with the update."""
        return {}

    def raw(self, told: Sequence[Told], past: Any, population: Sequence[int]) -> Sequence[float]:
        """Return one raw weight per answer, in the same order."""
        return [float(answer.rows) for answer in told]

    def rescale(
        self, mean: Params, previous: Params, present: Sequence[int], past: Any, population: Sequence[int]
    ) -> Params:
        """Return what becomes of the mean when only some of the population is present; nothing by default."""
        return mean


@dataclass(frozen=True)
class ByRows(Weigh):
    """Weigh answers by their numbers of training rows n_k (McMahan et al., AISTATS 2017)."""

    streams: ClassVar[bool] = True


@dataclass(frozen=True)
class Uniform(Weigh):
    """Weigh all answers alike."""

    def raw(self, told: Sequence[Told], past: Any, population: Sequence[int]) -> Sequence[float]:
        """Return 1 for every client that has rows."""
        return [1.0 if answer.rows else 0.0 for answer in told]


class After(NamedTuple):
    """What an objective adds to a reply: leaves to send and leaves to keep."""

    send: Params
    keep: Mapping[str, Any]


class Objective:
    """What a client minimises: the model's own loss unless overridden.

    `start` is what the site holds for it, and `settle` how the sum of the accepted answers' extra leaves
    changes that (SCAFFOLD's control variate); `plan` is what training adds to the plain loop; `after` what
    remains. `partial` accepts the work of stragglers. `network` may add parts to the model, `personal` names
    those of them that never leave a client, and `enter` fills in what a client knows of itself. `central`
    says in one sentence why a mesh will not do, if so.
    """

    partial: ClassVar[bool] = False
    central: ClassVar[str] = ""

    def network(self, given: Model) -> Model:
        """Return the model that is trained; by default the one of the experiment."""
        return given

    def personal(self, model: Model) -> frozenset[str]:
        """Return the names of the leaves that the objective keeps at a client, whatever the share."""
        return frozenset()

    def enter(self, given: Params, client: Client) -> Params:
        """Return what training starts from, with what a client knows of itself filled in."""
        return given

    def refuse(self, model: Model, fit: Fit) -> str | None:
        """Return one sentence if the objective has no meaning with this model or this training loop."""
        return None

    def start(self, model: Model, params: Params) -> Params:
        """Return the leaves that the site holds besides the model."""
        return {}

    def plan(self, extra: Params, given: Params, client: Client) -> Plan:
        """Return what to add to plain training."""
        return Plan()

    def after(self, extra: Params, given: Params, trained: Trained, client: Client) -> After:
        """Return what to send and keep besides the model."""
        return After({}, {})

    def settle(self, extra: Params, summed: Params, population: int) -> Params:
        """Return the site's leaves after a round."""
        return extra


@dataclass(frozen=True)
class Plain(Objective):
    """Mean loss over the rows, nothing added."""


class Server:
    """How a site moves from its model to the clients' combined one: it replaces it unless overridden."""

    streams: ClassVar[bool] = True

    def refuse(self, bn_buffers: NormBuffers) -> str | None:
        """Return one sentence if the server cannot go with this policy for batch-norm statistics."""
        return None

    def start(self, model: Model, params: Params) -> Params:
        """Return what the server remembers between rounds; `params` are the shared leaves."""
        return {}

    def gather(self, answers: Iterable[Weighed], previous: Params) -> Combined:
        """Combine the answers' states; the weighted mean of spec 2.3."""
        return combine(answers, previous)

    def step(self, previous: Params, mean: Params, memory: Params) -> tuple[Params, Params]:
        """Return the next model and what to remember; only trainable leaves may be moved (spec 2.4)."""
        return mean, memory


@dataclass(frozen=True)
class Replace(Server):
    """Take the combined model as it is (FedAvg)."""


class Share:
    """Which leaves travel: all unless overridden. What does not travel lives in the client's memory."""

    @property
    def newcomer(self) -> bool:
        """Tell whether what travels is enough to serve somebody who never took part."""
        return True

    def personal(self, model: Model) -> frozenset[str]:
        """Return the names of the leaves that never leave a client."""
        return frozenset()

    def note(self, model: Model) -> str | None:
        """Return one sentence if the choice makes no difference with this model."""
        return None

    def outputs(self, model: Model, params: Params, x: Tensor, *, own: bool) -> Tensor:
        """Return the class scores of assembled parameters; `own` tells whether the client has leaves of its own."""
        return model(params, x)


@dataclass(frozen=True)
class Everything(Share):
    """All leaves travel."""


class Architecture(ABC):
    """A network that a stage trains in place of the experiment's, with its own loss (an autoencoder, a density)."""

    @abstractmethod
    def model(self, given: Model) -> Model:
        """Return the model for rows like those of the experiment's."""


class Watch(NamedTuple):
    """What a site remembers of losses: the best model, its loss, rounds since then, and the rows of who was heard."""

    best: Params
    loss: float
    waited: int
    rows: Mapping[int, int]


class Stop:
    """When a stage ends before its rounds are over: never, unless overridden.

    `measure` is the client half: numbers about the given model that ride with the update, found before
    training; `watch` the merge half. `validates` is true for rules that measure on the validation rows, which
    must then not be trained on.
    """

    validates: ClassVar[bool] = False

    def measure(self, model: Model, given: Params, client: Client) -> Mapping[str, float]:
        """Return the numbers that ride with the update."""
        return {}

    def start(self, params: Params) -> Watch | None:
        """Return what a site remembers of losses at first."""
        return None

    def watch(self, watch: Watch | None, given: Params, told: Sequence[Told]) -> Watch | None:
        """Return what a site remembers after a round whose participants were given `given`."""
        return watch

    def done(self, watch: Watch | None) -> bool:
        """Tell whether the stage may end."""
        return False


@dataclass(frozen=True)
class Never(Stop):
    """Play all rounds."""


def difference(one: Params, other: Params, names: Sequence[str]) -> Params:
    """Return one - other on the named leaves."""
    return dict(
        zip(names, torch._foreach_sub([one[n] for n in names], [other[n] for n in names]), strict=True)
    )
