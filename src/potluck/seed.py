"""One seed of an experiment: play, journal, score, save, and go on where a killed run stopped."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from potluck.beginnings import MEMORIES, RECORDS, STATE, Beginnings
from potluck.config import Experiment
from potluck.data.places import Places
from potluck.errors import BadInputError
from potluck.evaluate import Scores, evaluate, facts, local, site_means
from potluck.exhibit import exhibit
from potluck.federation import Federation
from potluck.memory import Memories
from potluck.record import Records, RunDirectory, write_json
from potluck.rounds import Fact, Step, rounds
from potluck.topology import Star, Topology, alone
from potluck.transport import Transport, open_transport
from potluck.transport.codec import Codec, read_tree, write_tree
from potluck.tree import digest
from potluck.world import World


class Progress(NamedTuple):
    """Where a run stands, for whoever watches."""

    label: str
    seed: int
    stage: str
    round: int
    rounds: int
    participants: int
    accuracy: float | None
    resumed: bool = False


class Watcher(Protocol):
    """Somebody who is told after every round."""

    def __call__(self, standing: Progress, /) -> None:
        """Show it."""
        ...


@dataclass(frozen=True)
class Options:
    """How to run, as opposed to what: none of this changes a number.

    `beginnings` is where the runs of a comparison leave the states that others can go on from.
    """

    workers: int = 0
    resume: bool = False
    overwrite: bool = False
    places: Places | None = None
    watch: Watcher | None = None
    command: str = ""
    stop_after: int | None = None
    beginnings: Beginnings | None = None


class Interrupted(KeyboardInterrupt):
    """A run that was stopped between two rounds and can be resumed."""


class SeedRun:
    """One seed of an experiment, from its checkpoint to its final figures."""

    def __init__(
        self,
        directory: RunDirectory,
        experiment: Experiment,
        world: World,
        seed: int,
        label: str,
        options: Options,
        offset: int,
    ) -> None:
        self.directory, self.experiment, self.world = directory, experiment, world
        self.seed, self.label, self.options = seed, label, options
        self.codec = Codec(world.algorithm.messages)
        self.topology = topology_of(experiment, world)
        self.memories = Memories(self.codec, directory.memories(seed))
        self.seconds = 0.0
        self.bytes = {"up": 0, "down": 0}
        self.accuracy: float | None = None
        self.begin = offset
        if not directory.checkpoint(seed).exists():
            self._adopt()
        self.after, offset = self._restored(offset)
        self.records = Records(directory.records, experiment.name, offset)

    def _adopt(self) -> None:
        """Go on from where another run of the comparison has been before, if there is such a place."""
        found = self.options.beginnings and self.options.beginnings.find(self.experiment, self.seed)
        if not found:
            return
        for file in (found / MEMORIES).iterdir():
            self.directory.memories(self.seed).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, self.directory.memories(self.seed) / file.name)
        states, extra = read_tree(found / STATE, self.codec)
        records = Records(self.directory.records, self.experiment.name, self.begin)
        records.append((found / RECORDS).read_bytes())
        extra["offset"] = records.commit()
        records.close()
        self._checkpoint(states, extra)

    def _leave(self, step: Step) -> None:
        """Leave the state after a stage to the runs of the comparison that begin with the same stages."""
        beginnings = self.options.beginnings
        if beginnings is None or not step.last:
            return
        place = beginnings.place(self.experiment, self.seed, step.position)
        if beginnings.wanted(self.experiment, step.position) and not place.exists():
            records = self.directory.records.read_bytes()[self.begin :]
            memories = [self.directory.memories(self.seed) / name for name in self.memories.versions.values()]
            beginnings.keep(place, self.directory.checkpoint(self.seed), memories, records)

    def _restored(self, offset: int) -> tuple[Step | None, int]:
        """Return the last committed step and how many bytes of the records it vouches for."""
        file = self.directory.checkpoint(self.seed)
        if not file.exists():
            self.memories.restore({})
            return None, offset
        states, extra = read_tree(file, self.codec)
        self.memories.restore({int(client): name for client, name in extra["memories"].items()})
        self.seconds, self.bytes = extra["seconds"], extra["bytes"]
        stage = self.world.stage(extra["stage"])
        step = Step(extra["stage"], stage.stream, extra["round"], extra["last"], states, [])
        return step, extra["offset"]

    def play(self) -> dict[str, Any]:
        """Play what is left, and return the final figures."""
        if self.after is None:
            self.records.write(self.seed, partition_facts(self.world.federation))
        try:
            with open_transport(self.world, self.options.workers) as transport:
                step = self._rounds(transport)
                final = self._final(transport, step)
        finally:
            self.records.close()
        return final

    def _rounds(self, transport: Transport) -> Step:
        step = self.after
        if step is not None:
            self._tell(step, resumed=True)
        played = 0
        began = time.perf_counter()
        for step in rounds(self.world, transport, self.topology, self.memories, after=self.after):
            self.records.write(self.seed, step.facts)
            self._count(step.facts)
            if step.round and self._due(step):
                self._score(transport, step)
            now = time.perf_counter()
            self.seconds, began = self.seconds + now - began, now
            self._save(step)
            self._tell(step)
            played += step.round > 0
            if self.options.stop_after is not None and played >= self.options.stop_after:
                raise Interrupted(f"stopped after {played} rounds")
        assert step is not None
        return step

    def _due(self, step: Step) -> bool:
        final_stage = step.position == len(self.world.algorithm.stages) - 1
        judged = final_stage or self.world.stage(step.position).judged
        return judged and (step.last or step.round % self.experiment.evaluate.every == 0)

    def _score(self, transport: Transport, step: Step) -> Scores:
        options = self.experiment.evaluate
        scores = evaluate(
            self.world,
            transport,
            self.topology,
            self.memories,
            step,
            clients=options.who == "all",
            tests=options.tests,
        )
        self.records.write(self.seed, facts(scores, step.stage, step.round))
        self.accuracy = headline(scores).get("accuracy")
        return scores

    def _count(self, rows: Sequence[Fact]) -> None:
        for fact in rows:
            if fact.what in ("bytes/up", "bytes/down") and isinstance(fact.value, int | float):
                self.bytes[fact.what.removeprefix("bytes/")] += int(fact.value)

    def _save(self, step: Step) -> None:
        """Commit a round: records first, then the checkpoint whose rename makes both count."""
        if not (step.last or step.round % self.experiment.checkpoint.every == 0):
            return
        extra = {
            "stage": step.position,
            "round": step.round,
            "last": step.last,
            "offset": self.records.commit(),
            "memories": {str(client): name for client, name in self.memories.versions.items()},
            "seconds": self.seconds,
            "bytes": self.bytes,
        }
        self._checkpoint(dict(step.states), extra)
        self.memories.sweep()
        self._leave(step)

    def _checkpoint(self, states: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
        file = self.directory.checkpoint(self.seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_tree(file, states, self.codec, extra)

    def _tell(self, step: Step, *, resumed: bool = False) -> None:
        if self.options.watch is None:
            return
        participants = next((f.value for f in step.facts if f.what == "participants"), 0)
        self.options.watch(
            Progress(
                self.label,
                self.seed,
                step.stage,
                step.round,
                self.world.stage(step.position).rounds,
                int(participants) if isinstance(participants, int | float) else 0,
                self.accuracy,
                resumed,
            )
        )

    def _final(self, transport: Transport, step: Step) -> dict[str, Any]:
        """Score the last model once more, fingerprint the run, and write both down."""
        scores = evaluate(self.world, transport, self.topology, self.memories, step)
        fingerprint = digest(
            {"states": dict(step.states), "memories": self.memories.tree(), "scores": scores.tree()}
        )
        tests = self.experiment.evaluate.tests
        self.records.write(self.seed, exhibit(self.world, self.topology, self.memories, step, tests))
        final = {
            "fingerprint": fingerprint,
            **{name: _finite(value) for name, value in headline(scores).items()},
            "rounds": step.round,
            "bytes_up": self.bytes["up"],
            "bytes_down": self.bytes["down"],
            "seconds": round(self.seconds, 3),
            "offset": self.records.commit(),
        }
        write_json(self.directory.scores(self.seed), final)
        return final


def topology_of(experiment: Experiment, world: World) -> Topology:
    """Return who merges; alone is a mesh without edges and pooled a star, whatever is configured."""
    if world.algorithm.setting == "alone":
        return alone(world.clients)
    if world.algorithm.setting == "pooled":
        return Star()
    topology = experiment.build_topology(len(world.clients), world.key / "topology")
    if topology.kind not in world.algorithm.topologies:
        raise BadInputError(
            f"topology.name: {world.algorithm.name} does not run on a {topology.kind}; {world.algorithm.refusal}"
        )
    return topology


def partition_facts(federation: Federation) -> list[Fact]:
    """Return who holds what, as rows of the records."""
    out = []
    for client, counts in enumerate(federation.histogram()):
        out.append(Fact("partition", 0, f"client/{client}", "histogram", [int(count) for count in counts]))
        out.append(Fact("partition", 0, f"client/{client}", "rows", int(counts.sum())))
        for column, names in federation.groups.items():
            out.append(Fact("partition", 0, f"client/{client}", f"group/{column}", names[client]))
    return out


def headline(scores: Scores) -> dict[str, float | None]:
    """Return the figures of one seed: the global test's under their own names, the clients' as local_..."""
    means = site_means(scores)
    out: dict[str, float | None] = {"accuracy": None, **next(iter(means.values()), {"loss": None})}
    for test, figures in list(means.items())[1:]:
        out |= {f"{test}_{name}": value for name, value in figures.items()}
    for name, summary in local(scores.clients).items():
        out[f"local_{name}"] = summary["weighted"]
        if name in ("accuracy", "loss"):
            out |= {f"local_{name}_{what}": summary[what] for what in ("mean", "std", "min", "median", "max")}
    return out


def _finite(value: float | None) -> float | None:
    """Return a figure as JSON can hold it: null for a loss that has run away."""
    return value if value is not None and math.isfinite(value) else None
