"""From an experiment to a run directory: play, journal, score, save, and go on where a killed run stopped."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from threadpoolctl import threadpool_limits

from potluck.config import Experiment
from potluck.data.places import Places
from potluck.errors import BadInputError
from potluck.evaluate import Scores, evaluate, facts, local, site_means
from potluck.federation import Federation
from potluck.memory import Memories
from potluck.record import Records, RunDirectory, machine, read_json, write_json, write_text
from potluck.rounds import Fact, Step, rounds
from potluck.topology import Star, Topology, alone
from potluck.transport import Transport, open_transport
from potluck.transport.codec import Codec, read_tree, write_tree
from potluck.transport.worker import keep_heap
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

    def __call__(self, standing: Progress) -> None:
        """Show it."""
        ...


@dataclass(frozen=True)
class Options:
    """How to run, as opposed to what: none of this changes a number."""

    workers: int = 0
    resume: bool = False
    overwrite: bool = False
    places: Places | None = None
    watch: Watcher | None = None
    command: str = ""
    stop_after: int | None = None


class Interrupted(KeyboardInterrupt):
    """A run that was stopped between two rounds and can be resumed."""


def run(
    experiment: Experiment,
    out: Path,
    options: Options = Options(),
    *,
    label: str | None = None,
    federations: Mapping[int, Federation] | None = None,
) -> dict[str, Any]:
    """Run all seeds of an experiment into a directory and return its result."""
    directory = RunDirectory(out)
    label = label or str(experiment.algorithm["name"])
    world_of = {
        seed: _world(experiment, seed, options, (federations or {}).get(seed)) for seed in experiment.seeds
    }
    _claim(directory, experiment, options)
    with _one_thread():
        _describe(directory, experiment, world_of, label, options)
        done: dict[int, dict[str, Any]] = {}
        offset = 0
        for seed, world in world_of.items():
            if directory.scores(seed).exists():
                done[seed] = read_json(directory.scores(seed))
                offset = done[seed]["offset"]
                continue
            seed_run = SeedRun(directory, experiment, world, seed, label, options, offset)
            done[seed] = seed_run.play()
            offset = done[seed]["offset"]
    result = _result(experiment, label, done)
    write_json(directory.result, result)
    return result


def _world(experiment: Experiment, seed: int, options: Options, given: Federation | None) -> World:
    return experiment.world(seed, given, options.places)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Work with one intra-op thread: sums with two differ in the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    keep_heap()
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


def _claim(directory: RunDirectory, experiment: Experiment, options: Options) -> None:
    """Make the directory ours, or refuse one that holds something else."""
    path = directory.path
    if not path.exists() or not any(path.iterdir()):
        path.mkdir(parents=True, exist_ok=True)
        return
    if not directory.manifest.exists():
        raise BadInputError(f"{path}: is not empty and holds no run; choose another --out")
    if options.overwrite:
        _clear(directory)
        return
    if read_json(directory.manifest).get("digest") != experiment.digest():
        raise BadInputError(
            f"{path}: belongs to another configuration; choose another --out, or --overwrite to start anew"
        )
    if not options.resume:
        raise BadInputError(
            f"{path}: already holds this run; --resume to go on with it, or --overwrite to start anew"
        )


def _clear(directory: RunDirectory) -> None:
    """Delete the files of a run, the manifest last; nothing that is not ours."""
    for folder in ("checkpoints", "memories", "figures"):
        for file in sorted((directory.path / folder).rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
    for name in ("result.json", "report.html", "records.jsonl", "config.toml", "manifest.json"):
        (directory.path / name).unlink(missing_ok=True)


def _describe(
    directory: RunDirectory,
    experiment: Experiment,
    worlds: Mapping[int, World],
    label: str,
    options: Options,
) -> None:
    """Write the resolved configuration and the manifest."""
    first = next(iter(worlds.values()))
    write_text(directory.config, experiment.toml())
    manifest = {
        "label": label,
        "name": experiment.name,
        "digest": experiment.digest(),
        "command": options.command or shlex.join(["potluck", *sys.argv[1:]]),
        "seeds": experiment.seeds,
        "datasets": {first.federation.name: dict(first.federation.checksums)},
        "notes": list(first.federation.notes),
        "class_names": list(first.federation.class_names),
        "clients": {str(seed): len(world.federation) for seed, world in worlds.items()},
        "partition_digest": {str(seed): world.federation.digest() for seed, world in worlds.items()},
        "parameters": first.model.count(),
        **machine(),
    }
    write_json(directory.manifest, manifest)


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
        self.after, offset = self._restored(offset)
        self.records = Records(directory.records, experiment.name, offset)

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
        file = self.directory.checkpoint(self.seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_tree(file, dict(step.states), self.codec, extra)
        self.memories.sweep()

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
        final = {
            "fingerprint": fingerprint,
            **headline(scores),
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
    return out


def headline(scores: Scores) -> dict[str, float | None]:
    """Return the figures of one seed: the global test's under their own names, the clients' as local_..."""
    means = site_means(scores)
    out: dict[str, float | None] = dict(next(iter(means.values()), {"accuracy": None, "loss": None}))
    for test, figures in list(means.items())[1:]:
        out |= {f"{test}_{name}": value for name, value in figures.items()}
    for name, summary in local(scores.clients).items():
        out[f"local_{name}"] = summary["weighted"]
        if name in ("accuracy", "loss"):
            out |= {f"local_{name}_{what}": summary[what] for what in ("mean", "std", "min", "median", "max")}
    return out


def _result(experiment: Experiment, label: str, done: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Gather the seeds' figures: each, and mean and standard deviation (n - 1) over seeds."""
    seeds = {str(seed): {k: v for k, v in done[seed].items() if k != "offset"} for seed in experiment.seeds}
    names = [name for name in next(iter(seeds.values())) if name not in ("fingerprint", "rounds")]
    summary = {}
    for name in names:
        values = [figures.get(name) for figures in seeds.values()]
        known = torch.tensor([value for value in values if value is not None], dtype=torch.float64)
        complete = len(known) == len(values)
        summary[name] = {
            "mean": float(known.mean()) if complete else None,
            "std": float(known.std()) if complete and len(known) > 1 else None,
        }
    return {
        "algorithm": experiment.algorithm["name"],
        "label": label,
        "name": experiment.name,
        "seeds": seeds,
        "summary": summary,
        "seconds": round(sum(figures["seconds"] for figures in seeds.values()), 3),
        "bytes_up": sum(figures["bytes_up"] for figures in seeds.values()),
        "bytes_down": sum(figures["bytes_down"] for figures in seeds.values()),
    }


def total_rounds(experiment: Experiment) -> int:
    """Return how many rounds an experiment has, over all stages and seeds."""
    return sum(stage.rounds for stage in experiment.build_algorithm().stages) * len(experiment.seeds)


def compare_all(
    variants: Mapping[str, Experiment], out: Path, options: Options = Options()
) -> dict[str, dict[str, Any]]:
    """Run several experiments below one directory; those that share data and partition share the federation."""
    known: dict[str, dict[int, Federation]] = {}
    results: dict[str, dict[str, Any]] = {}
    for label, variant in variants.items():
        same = repr([variant.resolved()[key] for key in ("data", "partition", "shifts", "split")])
        held = known.setdefault(same, {})
        for seed in variant.seeds:
            if seed not in held:
                held[seed] = variant.federation(seed, options.places)
        results[label] = run(variant, out / label, options, label=label, federations=held)
    return results
