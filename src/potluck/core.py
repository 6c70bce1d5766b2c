"""The vocabulary of Potluck: stages, clients, replies, inboxes.

An algorithm is a short tuple of stages. A stage is four pure functions, `init`, `view`, `local` and `merge`,
repeated `rounds` times. `Reply(send, keep, log)` is the whole privacy statement of a method: `send` leaves
the client, `keep` stays with it, `log` is only written down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from torch import Tensor

from potluck.key import Key
from potluck.table import Table
from potluck.tree import Params

if TYPE_CHECKING:
    from potluck.metrics import Tally
    from potluck.model import Model

S = TypeVar("S")
V = TypeVar("V")
M = TypeVar("M")

Value = float | int | str | Tensor | Sequence[float] | None
Reach = Literal["neighbours", "all"]
Setting = Literal["federated", "alone", "pooled"]
REJECTIONS = frozenset({"nonfinite_state", "nonfinite_weight", "bad_message", "sorted"})
"""Reason codes after which an answer counts as never given: the client's memory stays as it was."""


class Merged(NamedTuple, Generic[S]):
    """What `init` and `merge` return: the new state, what to write down, and a reason code per odd client."""

    state: S
    log: Mapping[str, Value] = {}
    notes: Mapping[int, str] = {}


class Reply(NamedTuple, Generic[M]):
    """What a client answers: `send` leaves it, `keep` stays in its memory, `log` is written down."""

    send: M
    keep: Mapping[str, Any] = {}
    log: Mapping[str, Value] = {}


@dataclass(frozen=True, eq=False)
class Client:
    """One data holder, for the length of one visit."""

    id: int
    round: int
    train: Table
    val: Table
    test: Table
    model: Model
    key: Key
    birth: Key
    memory: Mapping[str, Any]
    effort: float = 1.0
    classes: int = 0
    initial: Mapping[str, Tensor] | None = None

    def first(self) -> Params:
        """Return the initial model, the same at every client and site."""
        return dict(self.initial) if self.initial is not None else self.model.init(self.birth)


class Site(NamedTuple):
    """A place that merges: the server, or a peer."""

    name: str
    model: Model
    key: Key
    clients: Sequence[int]
    classes: int = 0
    initial: Mapping[str, Tensor] | None = None

    def first(self) -> Params:
        """Return the initial model, the same at every client and site."""
        return dict(self.initial) if self.initial is not None else self.model.init(self.key)


class Draw(NamedTuple):
    """What a cohort is drawn from."""

    clients: Sequence[int]
    participation: float
    key: Key


class Sent(NamedTuple, Generic[M]):
    """One accepted envelope: who sent it, and what."""

    client: int
    message: M


class Inbox(Generic[M]):
    """The answers that one site hears in one round, ascending by client.

    `stream()` yields them once, as they come, so that a fold needs memory for one answer only; `answers`
    holds them all. `population` is every client that the site knows of, present or not; `mine` is the
    site's own client in a mesh; `mixing` gives fixed weights by client where the topology prescribes them.
    """

    def __init__(
        self,
        answers: Iterable[Sent[M]],
        *,
        key: Key,
        population: Sequence[int],
        mine: int | None = None,
        mixing: Mapping[int, float] | None = None,
    ) -> None:
        self._source = iter(answers)
        self._held: list[Sent[M]] | None = None
        self.key, self.population, self.mine, self.mixing = key, population, mine, mixing

    def stream(self) -> Iterator[Sent[M]]:
        """Yield every answer once, in client order."""
        return iter(self._held) if self._held is not None else self._source

    @property
    def answers(self) -> list[Sent[M]]:
        """Hold all answers and return them."""
        if self._held is None:
            self._held = list(self._source)
        return self._held

    def scalars(self, field: str) -> dict[int, float]:
        """Return one number of every message, by client."""
        return {sent.client: float(getattr(sent.message, field)) for sent in self.answers}


class Stage(ABC, Generic[S, V, M]):
    """One phase of an algorithm. Subclasses are final frozen dataclasses that hold hyper-parameters only.

    `stream` names its random streams and its records; `everyone` asks all clients whatever the participation;
    `reach` says how far answers travel in a mesh; `tell` names the entries of `log` that may leave the client;
    `leaks` says that rows move by design; `whole_tables` that scoring a table in parts would change the
    outcome; `judged` that it is scored although another stage follows; `messages` declares the named tuples
    that cross the wire.
    """

    stream: str = "train"
    rounds: int = 1
    everyone: ClassVar[bool] = False
    reach: Reach = "neighbours"
    tell: ClassVar[tuple[str, ...]] = ()
    leaks: ClassVar[bool] = False
    whole_tables: ClassVar[bool] = False
    judged: bool = False
    messages: ClassVar[tuple[type, ...]] = ()

    @property
    def newcomer(self) -> bool:
        """Tell whether somebody who never took part can be served."""
        return True

    def serves(self, model: Model) -> bool:
        """Tell whether somebody who never took part can be served with this model."""
        return self.newcomer

    @property
    def partial(self) -> bool:
        """Tell whether stragglers who did part of the work are heard."""
        return False

    def network(self, given: Model) -> Model:
        """Return the model that this stage trains; by default the one of the experiment."""
        return given

    @abstractmethod
    def init(self, site: Site, past: Any) -> Merged[S]:
        """Return the first state of a site; `past` is the state in which the previous stage ended there."""

    def cohort(self, state: S, draw: Draw) -> Sequence[int]:
        """Choose the participants of a round: all in a census, else the seeded draw without replacement."""
        if self.everyone:
            return list(draw.clients)
        wanted = max(1, int(draw.participation * len(draw.clients) + 0.5))
        chosen = draw.key.numpy().choice(
            len(draw.clients), size=min(wanted, len(draw.clients)), replace=False
        )
        return sorted(draw.clients[int(position)] for position in chosen)

    @abstractmethod
    def view(self, state: S, client: int) -> V:
        """Return what travels down to a client."""

    @abstractmethod
    def local(self, view: V, client: Client) -> Reply[M]:
        """Work where the data is; sees the view and the client, nothing else."""

    def idle(self, view: V, client: Client) -> Reply[M] | None:
        """Return what stands in for the own answer of a mesh peer outside the cohort, if anything."""
        return None

    @abstractmethod
    def merge(self, state: S, inbox: Inbox[M]) -> Merged[S]:
        """Combine the answers into the next state; sees the state and the inbox, nothing else."""

    def done(self, state: S) -> bool:
        """Tell whether the stage may stop before its rounds are over; pure, so that a resumed run agrees."""
        return False

    def deploy(self, state: S, client: int) -> V:
        """Return what travels once training is over."""
        return self.view(state, client)

    def predict(self, view: V, client: Client, x: Tensor) -> Tensor:
        """Return one row of class scores (logits) per row of `x`; the last stage of an algorithm must have it."""
        raise TypeError(f"{type(self).__name__} cannot predict: it is a preparation, not the last stage")

    def score(self, view: V, client: Client, table: Table) -> Tally:
        """Count how well the deployed view does on a table; counts of parts add up to those of the whole."""
        from potluck.learn import evaluate

        return evaluate(lambda x: self.predict(view, client, x), table, client.classes)

    def show(self, view: V, client: Client, test: Table | None = None) -> Mapping[str, Value]:
        """Return what a picture at the end could be drawn from: of a client, or of the site's model on a test."""
        return {}


@dataclass(frozen=True)
class Algorithm:
    """A tuple of stages with a name; `setting` says whether clients federate, train alone, or pool their rows."""

    stages: tuple[Stage[Any, Any, Any], ...]
    name: str = "algorithm"
    setting: Setting = "federated"
    topologies: frozenset[str] = frozenset({"star", "rotating", "mesh"})
    refusal: str = ""

    def __post_init__(self) -> None:
        streams = [stage.stream for stage in self.stages]
        if not streams:
            raise ValueError(f"algorithm {self.name!r} has no stage")
        if len(set(streams)) < len(streams):
            raise ValueError(
                f"algorithm {self.name!r}: two stages share a stream name ({', '.join(streams)})"
            )

    @property
    def messages(self) -> tuple[type, ...]:
        """Return all declared named tuples that may cross the wire or lie in a checkpoint."""
        found = dict.fromkeys(kind for stage in self.stages for kind in stage.messages)
        return tuple(found)
