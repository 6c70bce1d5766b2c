"""A run directory: configuration, manifest, tidy records, checkpoints, result. Every write is atomic or appended."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from potluck.errors import BadInputError
from potluck.rounds import Fact

PACKAGES = ("potluck", "torch", "numpy", "scipy", "scikit-learn", "networkx", "safetensors")


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        """Return where the resolved configuration lies."""
        return self.path / "config.toml"

    @property
    def manifest(self) -> Path:
        """Return where versions, checksums and digests lie."""
        return self.path / "manifest.json"

    @property
    def records(self) -> Path:
        """Return where the records lie."""
        return self.path / "records.jsonl"

    @property
    def result(self) -> Path:
        """Return where the result lies, once the run is done."""
        return self.path / "result.json"

    def checkpoint(self, seed: int) -> Path:
        """Return where the checkpoint of a seed lies."""
        return self.path / "checkpoints" / f"seed-{seed}.safetensors"

    def memories(self, seed: int) -> Path:
        """Return where the clients' memories of a seed lie."""
        return self.path / "memories" / f"seed-{seed}"

    def scores(self, seed: int) -> Path:
        """Return where the final figures of a finished seed lie."""
        return self.path / "checkpoints" / f"seed-{seed}.json"

    def sweep(self) -> None:
        """Delete half-written files that a killed run left."""
        for folder in (self.path, self.path / "checkpoints"):
            for file in folder.glob(".*.part"):
                file.unlink()


class Records:
    """The append-only records of a run; `offset` is how far a checkpoint vouches for them."""

    def __init__(self, file: Path, run: str, offset: int = 0) -> None:
        self.run = run
        self._file = file.open("ab")
        self._file.truncate(offset)
        self._file.seek(offset)

    def write(self, seed: int, facts: Iterable[Fact]) -> None:
        """Append facts."""
        lines = [
            json.dumps({"run": self.run, "seed": seed, **fact._asdict(), "value": plain(fact.value)})
            for fact in facts
        ]
        if lines:
            self.append(("\n".join(lines) + "\n").encode())

    def append(self, lines: bytes) -> None:
        """Append whole lines as they are."""
        self._file.write(lines)

    def commit(self) -> int:
        """Hand all rows to the operating system and return the offset after the last."""
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; what is not finite becomes text."""
    if isinstance(value, Tensor):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def write_text(file: Path, text: str) -> None:
    """Write a file under another name first, then rename it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, file)


def write_json(file: Path, value: Mapping[str, Any]) -> None:
    """Write JSON atomically."""
    write_text(file, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(file: Path) -> dict[str, Any]:
    """Read JSON, or say which file is broken."""
    try:
        value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"{file}: is not valid JSON ({error}); delete the folder and run again"
        ) from error
    return value


def machine() -> dict[str, Any]:
    """Describe what decides the last bits: versions, processor, threads."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "cpu": {
            "machine": platform.machine(),
            "capability": torch.backends.cpu.get_cpu_capability(),
            "flags": _cpu_flags(),
        },
        "blas": torch.__config__.show().partition("BLAS_INFO=")[2].partition(",")[0] or "unknown",
        "threads_per_visit": 1,
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cpu_flags() -> list[str]:
    """Return the vector extensions of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    flags = next(
        (line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), []
    )
    return sorted(flag for flag in flags if flag.startswith(("avx", "fma", "amx", "sse4", "asimd", "sve")))
