"""Stages that several runs of a comparison begin with are played once.

FedDisco with a beta-VAE at four strengths trains the same autoencoder four times, and once more as the federated VAE
that is its baseline; FedDisk's estimators share one density. A whole run can be the beginning of another. The streams
of a stage depend on its name and on the seed, not on what comes behind it, so runs that agree in everything but later
stages reach the end of the common ones with the same bits. The first of them leaves the state, the clients' memories
and its records there; the others go on from a copy, which counts its rounds, bytes and seconds as their own.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from potluck.config import Experiment

STATE, RECORDS, MEMORIES = "state.safetensors", "records.jsonl", "memories"


class Beginnings:
    """The finished beginnings of a comparison's runs, below one folder that goes when the comparison is done."""

    def __init__(self, folder: Path, experiments: Iterable[Experiment]) -> None:
        self.folder = folder
        runs = [names(each) for each in experiments]
        ends, counted = {run[-1] for run in runs}, Counter(name for run in runs for name in run[:-1])
        self._shared = frozenset(name for name, times in counted.items() if times > 1 or name in ends)

    def wanted(self, experiment: Experiment, position: int) -> bool:
        """Tell whether another run begins with the same stages up to a position."""
        return names(experiment)[position] in self._shared

    def place(self, experiment: Experiment, seed: int, position: int) -> Path:
        """Return where the state of a seed after the stage at a position lies, if it does."""
        return self.folder / f"{names(experiment)[position]}-{seed}"

    def find(self, experiment: Experiment, seed: int) -> Path | None:
        """Return the longest beginning of a run that has been played, if any."""
        for position in reversed(range(len(names(experiment)) - 1)):
            place = self.place(experiment, seed, position)
            if place.exists():
                return place
        return None

    def keep(self, place: Path, state: Path, memories: Iterable[Path], records: bytes) -> None:
        """Keep a committed state under a place: into another folder first, which is then renamed."""
        partial = place.with_name(f".{place.name}.part")
        shutil.rmtree(partial, ignore_errors=True)
        (partial / MEMORIES).mkdir(parents=True)
        shutil.copyfile(state, partial / STATE)
        for file in memories:
            shutil.copyfile(file, partial / MEMORIES / file.name)
        (partial / RECORDS).write_bytes(records)
        partial.rename(place)

    def clear(self) -> None:
        """Forget all of them."""
        shutil.rmtree(self.folder, ignore_errors=True)


def names(experiment: Experiment) -> list[str]:
    """Return a digest for every beginning of a run: of its first stages, and all settings but later stages."""
    algorithm = experiment.build_algorithm()
    settings: Mapping[str, Any] = {**experiment.deciding(), "algorithm": algorithm.setting}
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    out = []
    for stage in algorithm.stages:
        found.update(repr(stage).encode())
        out.append(found.hexdigest()[:24])
    return out
