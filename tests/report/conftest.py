"""Synthetic run directories: three methods, three seeds, twenty rounds, ten clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import pytest

Row = dict[str, object]
CLASSES = ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Boot"]


@dataclass(frozen=True)
class Made:
    """What a synthetic run is made of."""

    label: str
    limit: float = 0.85
    speed: float = 5.0
    seeds: int = 3
    rounds: int = 20
    clients: int = 10
    classes: int = 10
    global_figures: bool = True
    reason_every: int = 0
    mesh: bool = False
    warmup: int = 0
    finished: bool = True

    def write(self, folder: Path) -> Path:
        """Write the run directory and return it."""
        path = folder / self.label.lower().replace(" ", "-")
        path.mkdir(parents=True)
        (path / "config.toml").write_text(f'name = "demo"\nalgorithm = {{ name = "{self.label}" }}\n')
        (path / "manifest.json").write_text(json.dumps(self.manifest()))
        rows = [row for seed in range(self.seeds) for row in self.rows(seed)]
        (path / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        if self.finished:
            (path / "result.json").write_text(json.dumps(self.result(rows)))
        return path

    def manifest(self) -> Row:
        return {
            "label": self.label,
            "name": "fashion-dirichlet-03",
            "command": f"potluck run experiments/demo.toml --set algorithm.name={self.label.lower()}",
            "created": "2026-01-02T03:04:05Z",
            "versions": {"potluck": "0.1.0", "torch": "2.13.0", "numpy": "2.4.6", "python": "3.11.2"},
            "cpu": {"model": "Example CPU @ 2.4 GHz", "threads": 2},
            "datasets": {"fashion-mnist": {"sha256": "ab" * 32, "rows": 70000}},
            "partition_digest": {str(seed): f"{seed:02x}" * 32 for seed in range(self.seeds)},
            "seeds": list(range(self.seeds)),
            "class_names": (CLASSES if self.classes == 10 else [f"c{i}" for i in range(self.classes)]),
        }

    def rows(self, seed: int) -> list[Row]:
        noise = np.random.default_rng([seed, sum(self.label.encode())])
        shared = np.random.default_rng(seed)
        shares = shared.dirichlet(np.full(self.clients, 0.3), size=self.classes)
        counts = np.floor(shares * 6000).astype(int).T
        rows = [
            _row(seed, "partition", 0, f"client/{k}", what, value)
            for k in range(self.clients)
            for what, value in (("histogram", counts[k].tolist()), ("rows", int(counts[k].sum())))
        ]
        for number in range(1, self.warmup + 1):
            rows += [_row(seed, "density", number, "server", "bytes/up", 1_000_000)]
            rows += [_row(seed, "density", number, "server", "bytes/down", 1_000_000)]
        for number in range(self.rounds + 1):
            rows += self.round(seed, number, noise, counts)
        return rows

    def round(self, seed: int, number: int, noise: np.random.Generator, counts: np.ndarray) -> list[Row]:
        def row(who: str, what: str, value: object) -> Row:
            return _row(seed, "train", number, who, what, value)

        level = 0.1 + (self.limit - 0.1) * (1 - np.exp(-number / self.speed)) + noise.normal(0, 0.012)
        scores = np.clip(level + noise.normal(0.02, 0.09, self.clients), 0, 1)
        weights = counts.sum(axis=1) / counts.sum()
        merging = [f"site/{k}" for k in range(self.clients)] if self.mesh else ["server"]
        rows: list[Row] = []
        for place, who in enumerate(merging):
            own = level + (noise.normal(0, 0.2 / (1 + number)) if self.mesh else 0.0)
            rows += [row(who, f"global/{name}", value) for name, value in self.figures(own).items()]
            rows += [
                row(who, f"local/{name}/accuracy", value) for name, value in _spread(scores, counts).items()
            ]
            if number:
                rows += [row(who, "bytes/up", 4_200_000), row(who, "bytes/down", 4_200_000)]
                rows += [row(who, "bytes/up/fc1.weight", 4_000_000), row(who, "seconds", 1.5)]
                rows += [row(who, "participants", self.clients), row(who, "note", "fine")]
                rows += [row(who, "effective_clients", float(1 / (weights**2).sum()) + 0.01 * place)]
            if self.mesh:
                rows += [row(who, "consensus", float(2.0 / (1 + number)))]
        for k in range(self.clients):
            rows += [row(f"client/{k}", "test/accuracy", float(scores[k]))]
            rows += [row(f"client/{k}", "test/rows", int(counts[k].sum() // 5))]
            if number:
                rows += [row(f"client/{k}", "weight", float(weights[k]))]
            if number and self.reason_every and (k + number) % self.reason_every == 0:
                rows += [row(f"client/{k}", "reason", "zero_weights")]
        return rows

    def figures(self, level: float) -> dict[str, float | None]:
        values = {
            "accuracy": level,
            "accuracy_macro": level - 0.01,
            "precision_macro": level - 0.005,
            "recall_macro": level - 0.01,
            "f1_macro": level - 0.02,
            "loss": 2.4 * (1 - level) + 0.05,
        }
        return {name: float(value) if self.global_figures else None for name, value in values.items()}

    def result(self, rows: list[Row]) -> Row:
        names = {f"global/{name}": name for name in self.figures(0.5)}
        names |= {"local/weighted/accuracy": "local_accuracy", "local/mean/accuracy": "local_accuracy_mean"}
        names |= {"local/min/accuracy": "local_accuracy_worst"}
        seeds: dict[str, Row] = {}
        for seed in range(self.seeds):
            last = [row for row in rows if row["seed"] == seed and row["round"] == self.rounds]
            entry: Row = {"fingerprint": f"{seed}f" * 32, "rounds": self.rounds, "seconds": 30.0 + seed}
            entry |= {"bytes_up": 84_000_000 + 1_000_000 * self.warmup, "bytes_down": 84_000_000}
            for what, name in names.items():
                values = [row["value"] for row in last if row["what"] == what]
                there = [value for value in values if isinstance(value, float)]
                entry[name] = float(np.mean(there)) if there else None
            seeds[str(seed)] = entry
        return {"algorithm": self.label.lower(), "label": self.label, "seeds": seeds, "summary": {}}


def _row(seed: int, stage: str, number: int, who: str, what: str, value: object) -> Row:
    return {
        "run": "x",
        "seed": seed,
        "stage": stage,
        "round": number,
        "who": who,
        "what": what,
        "value": value,
    }


def _spread(scores: np.ndarray, counts: np.ndarray) -> dict[str, float]:
    rows = counts.sum(axis=1)
    names = {"weighted": np.average(scores, weights=rows), "mean": scores.mean(), "std": scores.std()}
    names |= {"min": scores.min(), "max": scores.max(), "median": np.median(scores)}
    names |= {"q1": np.quantile(scores, 0.25), "q3": np.quantile(scores, 0.75)}
    return {name: float(value) for name, value in names.items()}


class Parts(TypedDict, total=False):
    """The fields of `Made` that a test may choose."""

    limit: float
    speed: float
    seeds: int
    rounds: int
    clients: int
    classes: int
    global_figures: bool
    reason_every: int
    mesh: bool
    warmup: int
    finished: bool


@pytest.fixture(scope="session")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three methods of one federation: a plain one, one in its fallback, one without global figures."""
    folder = tmp_path_factory.mktemp("runs")
    made = (
        Made("FedAvg", limit=0.80),
        Made("FedEP", limit=0.86, speed=4, reason_every=5),
        Made("FedBN", limit=0.83, global_figures=False),
    )
    return [one.write(folder) for one in made]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Return a writer of one synthetic run directory."""

    def write(label: str = "FedAvg", **parts: Unpack[Parts]) -> Path:
        return Made(label, **parts).write(tmp_path)

    return write
