"""Engines that the laws compare: in order, shuffled, through the codec, watched; and one play on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from potluck.evaluate import Scores, evaluate
from potluck.memory import Memories
from potluck.rounds import Fact, Step, rounds
from potluck.threads import one_thread
from potluck.topology import Star, Topology, alone
from potluck.transport import Transport
from potluck.transport.codec import Codec
from potluck.tree import digest
from potluck.visit import Answer, Call, visit
from potluck.world import World


@dataclass(eq=False)
class Bench:
    """An in-process transport with a hook around each visit, which may also change the order of the answers."""

    world: World
    around: Callable[[World, Call], Answer] = visit
    shuffle: bool = False
    visits: list[tuple[int, int, int]] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def send(self, calls: Sequence[Call]) -> Iterator[tuple[int, Answer]]:
        """Yield the answers, last call first if shuffled."""
        order = range(len(calls))
        for position in reversed(order) if self.shuffle else order:
            call = calls[position]
            if call.kind != "score":
                self.visits.append((call.stage, call.round, call.client))
            yield position, self.around(self.world, call)


def through_codec(world: World, call: Call) -> Answer:
    """Make a visit with everything that crosses turned into bytes and back."""
    codec = Codec(world.algorithm.messages)

    def crossed(tree: Any) -> Any:
        return codec.decode(codec.encode(tree))

    answer = visit(world, call._replace(view=crossed(call.view), memory=crossed(dict(call.memory))))
    return answer._replace(send=crossed(answer.send), keep=crossed(dict(answer.keep)))


def without_log(world: World, call: Call) -> Answer:
    """Make a visit and drop its log, but for what the stage may tell."""
    answer = visit(world, call)
    tell = world.stage(call.stage).tell
    return answer._replace(log={name: value for name, value in answer.log.items() if name in tell})


class Played(NamedTuple):
    """A finished play: the steps, the last scores, the memories, and the fingerprint of all."""

    steps: list[Step]
    scores: Scores
    facts: list[Fact]
    fingerprint: str
    snapshots: list[dict[int, Any]]
    digests: list[str]


def topology_for(world: World) -> Topology:
    """Return where an algorithm is tried: a star, or no links at all if it trains alone."""
    return alone(world.clients) if world.algorithm.setting == "alone" else Star()


def play(
    world: World,
    transport: Transport | None = None,
    *,
    topology: Topology | None = None,
    after: tuple[Step, dict[int, Any]] | None = None,
) -> Played:
    """Play an algorithm to its end, from the start or after a step with the memories of that time."""
    topology = topology or topology_for(world)
    memories = Memories(Codec(world.algorithm.messages))
    if after is not None:
        for client, memory in after[1].items():
            memories.accept(client, "before", memory)
    steps: list[Step] = []
    snapshots: list[dict[int, Any]] = []
    digests: list[str] = []
    with one_thread(), transport or Bench(world) as opened:
        for step in rounds(world, opened, topology, memories, after=after[0] if after else None):
            steps.append(step)
            digests.append(digest(dict(step.states)))
            snapshots.append({client: dict(memories.read(client)) for client in world.clients})
        last = steps[-1] if steps or after is None else after[0]
        scores = evaluate(world, opened, topology, memories, last)
    fingerprint = digest({"states": dict(last.states), "memories": memories.tree(), "scores": scores.tree()})
    facts = [fact for step in steps for fact in step.facts if not fact.what.endswith("seconds")]
    return Played(steps, scores, facts, fingerprint, snapshots, digests)
