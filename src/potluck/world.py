"""The world of one run: what every participant rebuilds from the configuration and the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from potluck.core import Algorithm, Client, Site, Stage
from potluck.errors import BadInputError
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.model import Model
from potluck.table import Table
from potluck.tree import Params

Share = Annotated[float, Field(ge=0, le=1)]
NEWCOMER = -1


@dataclass(frozen=True)
class Stragglers:
    """Slow clients: a `share` of them a round does a seeded part of the work, between `least` and all of it."""

    share: Share = 0.0
    least: Share = 0.1


@dataclass(frozen=True)
class Faults:
    """Simulated trouble, drawn from the key: answers `lost` or `late` never count, `crash` raises at the client.

    `hostile` is the share of clients, the same ones in all rounds, whose answers are large random numbers.
    """

    lost: Share = 0.0
    late: Share = 0.0
    crash: Share = 0.0
    hostile: Share = 0.0


@dataclass(frozen=True, eq=False)
class World:
    """Data holders, model, algorithm, and the root of all randomness."""

    federation: Federation
    model: Model
    algorithm: Algorithm
    key: Key
    participation: float = 1.0
    stragglers: Stragglers = field(default_factory=Stragglers)
    faults: Faults = field(default_factory=Faults)
    on_error: Literal["stop", "skip"] = "stop"
    initial: Params | None = None

    def __post_init__(self) -> None:
        if not len(self.federation):
            raise BadInputError("partition.clients: must be at least 1")

    @property
    def classes(self) -> int:
        """Return the number of classes, or 0 for regression."""
        return self.federation.classes or 0

    @cached_property
    def trainers(self) -> Sequence[Holder]:
        """Return who trains: the data holders, or one that holds the union of their rows ("pooled")."""
        holders = self.federation.holders
        return [_union(holders)] if self.algorithm.setting == "pooled" else holders

    @property
    def clients(self) -> list[int]:
        """Return the ids of those who train."""
        return list(range(len(self.trainers)))

    def stage(self, index: int) -> Stage[Any, Any, Any]:
        """Return a stage of the algorithm."""
        return self.algorithm.stages[index]

    def model_of(self, index: int) -> Model:
        """Return the model that a stage trains; the same object every time."""
        return self._models[index]

    @cached_property
    def _models(self) -> list[Model]:
        return [stage.network(self.model) for stage in self.algorithm.stages]

    def key_of(self, index: int) -> Key:
        """Return the root of a stage's streams."""
        return self.key / self.stage(index).stream

    def site(self, index: int, name: str) -> Site:
        """Return what a stage's `init` sees of a site; all sites have the same key, so they start alike."""
        model = self.model_of(index)
        key = self.key_of(index) / "init"
        return Site(name, model, key, self.clients, self.classes, self._initial(index))

    def effort(self, index: int, round: int, client: int) -> float:
        """Return the share of its work that a client does in a round."""
        if not self.stragglers.share:
            return 1.0
        draw = (self.key / "effort" / self.stage(index).stream / round / "client" / client).numpy()
        if draw.random() >= self.stragglers.share:
            return 1.0
        return float(self.stragglers.least + (1 - self.stragglers.least) * draw.random())

    def fault(self, index: int, round: int, client: int) -> str | None:
        """Return what goes wrong with a client in a round, if anything."""
        if not (self.faults.lost or self.faults.late or self.faults.crash):
            return None
        draw = (self.key / "fault" / self.stage(index).stream / round / "client" / client).numpy().random()
        for name in ("lost", "late", "crash"):
            draw -= getattr(self.faults, name)
            if draw < 0:
                return name
        return None

    @cached_property
    def hostile(self) -> frozenset[int]:
        """Return the clients whose answers are nonsense; the number is rounded half up."""
        count = int(self.faults.hostile * len(self.clients) + 0.5)
        return frozenset(map(int, (self.key / "hostile").numpy().permutation(len(self.clients))[:count]))

    def holder(self, client: int, *, scoring: bool = False) -> Holder:
        """Return a client's rows; the newcomer (-1) has none."""
        if client == NEWCOMER:
            return self._newcomer
        return (self.federation.holders if scoring else self.trainers)[client]

    @cached_property
    def _newcomer(self) -> Holder:
        kind = torch.int64 if self.classes else torch.float32
        nothing = Table(torch.zeros(0, *self.federation.shape), torch.zeros(0, dtype=kind))
        return Holder(nothing, nothing, nothing)

    def client(
        self, index: int, kind: str, round: int, client: int, memory: Any, *, scoring: bool = False
    ) -> Client:
        """Return one data holder as a stage sees it on one visit."""
        holder = self.holder(client, scoring=scoring)
        return Client(
            id=client,
            round=round,
            train=holder.train,
            val=holder.val,
            test=holder.test,
            model=self.model_of(index),
            key=self.key_of(index) / kind / round / "client" / client,
            birth=self.key_of(index) / "init",
            memory=memory,
            effort=1.0 if scoring else self.effort(index, round, client),
            classes=self.classes,
            initial=self._initial(index),
        )

    def _initial(self, index: int) -> Params | None:
        """Return the given initial weights, with drawn ones for what a stage adds to the experiment's model."""
        model = self.model_of(index)
        if self.initial is None or model is self.model:
            return self.initial
        shapes = {name: slot.shape for name, slot in model.slots.items()}
        if any(shapes.get(name) != leaf.shape for name, leaf in self.initial.items()):
            return None
        return {**model.init(self.key_of(index) / "init"), **self.initial}


def _union(holders: Sequence[Holder]) -> Holder:
    def joined(part: str) -> Table:
        tables: list[Table] = [getattr(holder, part) for holder in holders]
        return Table(torch.cat([table.x for table in tables]), torch.cat([table.y for table in tables]))

    return Holder(joined("train"), joined("val"), joined("test"))
