"""From an experiment to a run directory: all its seeds, and comparisons of several experiments."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from potluck.beginnings import Beginnings
from potluck.config import Experiment
from potluck.errors import BadInputError
from potluck.federation import Federation
from potluck.record import RunDirectory, machine, read_json, write_json, write_text
from potluck.seed import Interrupted, Options, Progress, SeedRun, Watcher, topology_of
from potluck.threads import one_thread
from potluck.transport.worker import keep_heap
from potluck.world import World

__all__ = ["Interrupted", "Options", "Progress", "Watcher", "compare_all", "run", "total_rounds"]

DEFAULTS = Options()


def run(
    experiment: Experiment,
    out: Path,
    options: Options = DEFAULTS,
    *,
    label: str | None = None,
    federations: Mapping[int, Federation] | None = None,
) -> dict[str, Any]:
    """Run all seeds of an experiment into a directory and return its result."""
    directory = RunDirectory(out)
    label = label or str(experiment.algorithm["name"])
    worlds = Worlds(experiment, options, federations or {})
    keep_heap()
    with one_thread():
        manifest = _manifest(experiment, worlds, label, options)
        existed = out.exists()
        fresh = _claim(directory, experiment, options)
        try:
            write_text(directory.config, experiment.toml())
            write_json(directory.manifest, manifest)
            done = _seeds(directory, experiment, worlds, label, options)
        except BadInputError:
            if fresh and not _played(directory):
                _clear(directory)
                if not existed:
                    out.rmdir()
            raise
    result = _result(experiment, label, done)
    write_json(directory.result, result)
    return result


def _seeds(
    directory: RunDirectory, experiment: Experiment, worlds: Worlds, label: str, options: Options
) -> dict[int, dict[str, Any]]:
    """Play the seeds that are not finished, one after the other, and return the figures of all."""
    done: dict[int, dict[str, Any]] = {}
    offset = 0
    for seed in experiment.seeds:
        if directory.scores(seed).exists():
            done[seed] = read_json(directory.scores(seed))
        else:
            done[seed] = SeedRun(directory, experiment, worlds[seed], seed, label, options, offset).play()
        offset = done[seed]["offset"]
    return done


class Worlds:
    """The worlds of a run's seeds, made when asked for; only the last is held, for each may fill the memory."""

    def __init__(self, experiment: Experiment, options: Options, given: Mapping[int, Federation]) -> None:
        self.experiment, self.options, self.given = experiment, options, given
        self._held: tuple[int, World] | None = None

    def __getitem__(self, seed: int) -> World:
        if self._held is None or self._held[0] != seed:
            self._held = None
            self._held = seed, self.experiment.world(seed, self.given.get(seed), self.options.places)
        return self._held[1]


def _claim(directory: RunDirectory, experiment: Experiment, options: Options) -> bool:
    """Make the directory ours, or refuse one that holds something else; tell whether the run starts anew."""
    path = directory.path
    if path.exists() and not path.is_dir():
        raise BadInputError(f"{path}: is not a folder; choose another --out")
    path.mkdir(parents=True, exist_ok=True)
    directory.sweep()
    if not directory.manifest.exists():
        if any(file != directory.config for file in path.iterdir()):
            raise BadInputError(f"{path}: is not empty and holds no run; choose another --out")
        return True
    if options.overwrite:
        _clear(directory)
        return True
    held = read_json(directory.manifest)
    if held.get("digest") != experiment.digest():
        raise BadInputError(
            f"{path}: belongs to another configuration; choose another --out, or --overwrite to start anew"
        )
    if not options.resume:
        raise BadInputError(
            f"{path}: already holds this run; --resume to go on with it, or --overwrite to start anew"
        )
    before = held.get("seeds", [])
    if experiment.seeds[: len(before)] != before:
        raise BadInputError(
            f"{path}: holds the seeds {', '.join(map(str, before))}; go on with the same, or add others behind them"
        )
    return False


def _played(directory: RunDirectory) -> bool:
    """Tell whether any round was played that a later start could go on from."""
    if not directory.records.exists():
        return False
    with directory.records.open(encoding="utf-8") as lines:
        return any(json.loads(line)["round"] > 0 for line in lines)


def _clear(directory: RunDirectory) -> None:
    """Delete the files of a run, the manifest last; nothing that is not ours."""
    for name in ("checkpoints", "memories", "figures"):
        folder = directory.path / name
        for file in sorted(folder.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        if folder.is_dir():
            folder.rmdir()
    for name in ("result.json", "report.html", "records.jsonl", "config.toml", "manifest.json"):
        (directory.path / name).unlink(missing_ok=True)


def _manifest(experiment: Experiment, worlds: Worlds, label: str, options: Options) -> dict[str, Any]:
    """Describe the run; whatever is wrong with its data, model or topology shows here, before anything is written."""
    clients: dict[str, int] = {}
    partitions: dict[str, str] = {}
    dealt: dict[str, dict[str, object]] = {}
    for seed in reversed(experiment.seeds):
        world = worlds[seed]
        topology_of(experiment, world)
        clients[str(seed)] = len(world.federation)
        partitions[str(seed)] = world.federation.digest()
        dealt[str(seed)] = dict(world.federation.partition)
    return {
        "label": label,
        "name": experiment.name,
        "digest": experiment.digest(),
        "command": options.command or shlex.join(["potluck", *sys.argv[1:]]),
        "seeds": experiment.seeds,
        "datasets": {world.federation.name: dict(world.federation.checksums)},
        "notes": list(world.federation.notes),
        "class_names": list(world.federation.class_names),
        "clients": dict(reversed(clients.items())),
        "partition_digest": dict(reversed(partitions.items())),
        "partition": dict(reversed(dealt.items())),
        "parameters": world.model_of(len(world.algorithm.stages) - 1).count(),
        **machine(),
    }


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
    variants: Mapping[str, Experiment], out: Path, options: Options = DEFAULTS
) -> dict[str, dict[str, Any]]:
    """Run several experiments below one directory.

    Those that share data and partition share the federation; those that begin with the same stages share these.
    """
    beginnings = Beginnings(out / ".beginnings", variants.values())
    if not options.resume:
        beginnings.clear()
    options = replace(options, beginnings=beginnings)
    known: dict[str, dict[int, Federation]] = {}
    results: dict[str, dict[str, Any]] = {}
    for label, variant in variants.items():
        same = repr([variant.resolved()[key] for key in ("data", "partition", "shifts", "split")])
        held = known.setdefault(same, {})
        for seed in variant.seeds:
            if seed not in held:
                with one_thread():
                    held[seed] = variant.federation(seed, options.places)
        results[label] = run(variant, out / label, options, label=label, federations=held)
    beginnings.clear()
    write_json(out / "comparison.json", {"runs": list(results)})
    return results
