"""A run's final model as a safetensors file, for `init = "file"`, for a frozen backbone, or for other programs."""

from __future__ import annotations

import os
from pathlib import Path

from safetensors.torch import save_file

from potluck.average import Global
from potluck.config import load
from potluck.errors import BadInputError
from potluck.record import RunDirectory
from potluck.transport.codec import Codec, read_tree


def export(run: Path, seed: int, out: Path) -> Path:
    """Write the model of a run's last committed round; the shared leaves, by their names in the network."""
    directory = RunDirectory(run)
    file = directory.checkpoint(seed)
    if not directory.config.exists() or not file.exists():
        raise BadInputError(
            f"{run}: holds no checkpoint of seed {seed}; give the folder of a run and one of its seeds"
        )
    algorithm = load(directory.config).build_algorithm()
    states, _ = read_tree(file, Codec(algorithm.messages))
    kept = [state for state in states.values() if isinstance(state, Global)]
    if len(kept) != 1 or len(states) != 1:
        raise BadInputError(
            f"{run}: {algorithm.name} ends with several models or none, so there is no one to export"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}.part")
    save_file(kept[0].params, partial)
    os.replace(partial, out)
    return out
