"""What `docs/make_fedex.py` shows beside whole runs: gates on small digits, and what tells sources apart.

    python docs/fedex_measure.py gates                 # docs/records/fedex/gates.json, two minutes
    python docs/fedex_measure.py sources DATA_DIR      # docs/records/fedex/sources.json, four minutes of one core
    python docs/fedex_measure.py memory DATA_DIR       # docs/records/fedex/memory.json, seconds

`gates`: twenty clients with 1,797 small digits; ten hold 0-4 and ten 5-9 ("halves"), or ten train on the labels
y + 5 mod 10 ("mistaken"). `sources`: the warm-up of scenario SC-11 with the 1.66-million-parameter CNN, one epoch at
100 clients; then the same clients' updates are clustered by several similarities. `memory`: the peak of a process that
plays the warm-up of SC-10 (100 clients, the same network), one step a client: answers, not steps, fill the memory.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from blocks import RECORDS
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedex import fedex
from potluck.average import Update
from potluck.config import experiment
from potluck.core import Algorithm, Inbox, Merged
from potluck.data.places import Places
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.memory import Memories
from potluck.model import Model
from potluck.models.mlp import mlp
from potluck.parts.clusters import clusters
from potluck.parts.similarity import affinity, cosines, gram
from potluck.parts.warm_up import Sorted, WarmUp, first_layer
from potluck.rounds import rounds
from potluck.table import Table
from potluck.threads import one_thread
from potluck.topology import Star
from potluck.transport import Inline
from potluck.transport.codec import Codec
from potluck.world import World

FOLDER = RECORDS / "fedex"
SURE = Fit(optimizer="adam", lr=0.005, batch=10, epochs=3)
SEEDS = (0, 1, 2)
SEED = 42
WARM = Fit(optimizer="adam", lr=0.001, batch=10, epochs=1)
DEALS: Mapping[str, Mapping[str, object]] = {
    "two shards": {"name": "shards", "clients": 100, "size": 350, "within": "source"},
    "IID in each source": {"name": "blocks", "column": "source", "size": 700},
}


def two_populations(kind: str, seed: int, algorithm: Algorithm) -> World:
    """Return twenty clients of two populations, in turn."""
    pixels, labels = load_digits(return_X_y=True)
    x = torch.from_numpy((pixels / 16).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(labels.astype(np.int64))
    order = torch.from_numpy((Key.root(seed) / "deal").numpy().permutation(len(y)))
    test, pool = Table(x[order[:300]], y[order[:300]]), order[300:]
    parts = [pool[y[pool] < 5], pool[y[pool] >= 5]] if kind == "halves" else [pool[0::2], pool[1::2]]
    holders = []
    for client in range(20):
        rows = parts[client % 2].tensor_split(10)[client // 2]
        told = (y[rows] + 5) % 10 if client % 2 and kind == "mistaken" else y[rows]
        train, val = Table(x[rows[20:]], told[20:]), Table(x[rows[:20]], y[rows[:20]])
        holders.append(Holder(train, val, val.take(slice(0, 0))))
    model = Model(partial(mlp, (1, 8, 8), 10, hidden=(32,)), shape=(1, 8, 8), classes=10)
    federation = Federation(holders, {"global": test}, 10, (1, 8, 8))
    return World(federation, model, algorithm, Key.root(seed))


def gates() -> None:
    """Score every gate, and FedAvg, on both kinds and three seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    rules = ("online", "frozen", "mean", "oracle")
    for kind in ("halves", "mistaken"):
        out = found.setdefault(kind, {})
        for seed in SEEDS:
            for gate in ("online", "learned"):
                method = fedex(5, SURE, 2, expert_init="w0", gate=gate)
                figures = accuracies(two_populations(kind, seed, method))
                for rule in rules if gate == "online" else ("learned",):
                    out.setdefault(rule, []).append(figures[f"gate/{rule}/accuracy"])
            single = accuracies(two_populations(kind, seed, fedavg(5, SURE)))
            out.setdefault("FedAvg, one model", []).append(single["accuracy"])
    keep("gates", {"seeds": SEEDS, "accuracy": found})


def accuracies(world: World) -> Mapping[str, float]:
    """Return the figures on the global test at the end of a run."""
    tally = play(world).scores.sites["server", "global"]
    assert tally is not None
    return tally.figures()


@dataclass(frozen=True)
class Watched(WarmUp):
    """The warm-up, which also notes how alike its clients are by each similarity."""

    seen: dict[str, Any] = field(default_factory=dict)

    def merge(self, state: Sorted, inbox: Inbox[Update]) -> Merged[Sorted]:
        """Note the cosines, and go on."""
        states, names = [sent.message.params for sent in inbox.answers], state.compared
        self.seen["weights"] = cosines(gram(states, None, names))
        self.seen["delta"] = cosines(gram(states, state.start, names))
        self.seen["first_layer"] = cosines(gram(states, state.start, first_layer(names)))
        return super().merge(state, inbox)


def sources(data: Path) -> None:
    """Play the warm-up under both deals, and cluster by every similarity."""
    record: dict[str, object] = {"seed": SEED}
    for deal, partition in DEALS.items():
        table = {
            "name": "sources",
            "data": {"name": "mnist-cifar"},
            "split": {"val": 0.1, "test": 0.0},
            "partition": partition,
            "model": {"name": "cnn_mcmahan"},
            "algorithm": {"name": "fedex", "fit": WARM.__dict__},
        }
        world = experiment(table).world(SEED, None, Places.usual([data]))
        seen = cosines_of(world)
        truth = [str(group) for group in world.federation.groups["source"]]
        most = world.federation.histogram().argmax(axis=1)
        record[deal] = {
            "clients": {group: truth.count(group) for group in sorted(set(truth))},
            "found": {name: by_count(cosine, truth, most.tolist()) for name, cosine in seen.items()},
        }
    keep("sources", record)


def memory(data: Path) -> None:
    """Play the warm-up of SC-10 and note the most memory that the process ever held."""
    table = {
        "name": "memory",
        "data": {"name": "mnist"},
        "partition": {"name": "shards", "clients": 100, "size": 300},
        "model": {"name": "cnn_mcmahan"},
        "algorithm": {"name": "fedex", "fit": {**WARM.__dict__, "steps": 1}},
    }
    world = experiment(table).world(SEED, None, Places.usual([data]))
    before = peak()
    cosines_of(world)
    keep("memory", {"before_gb": before, "peak_gb": peak()})


def peak() -> float:
    """Return the most memory that this process ever held (GB)."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2)


def cosines_of(world: World) -> Mapping[str, Any]:
    """Play the warm-up alone, as a run does, and return the cosines that it saw."""
    stage = world.algorithm.stages[0]
    assert isinstance(stage, WarmUp)
    watched = Watched(stage.average, stage.sorting, stage.loss_head)
    alone = World(world.federation, world.model, Algorithm((watched,), "fedex"), world.key)
    with one_thread(), Inline(alone) as transport:
        for _step in rounds(alone, transport, Star(), Memories(Codec(alone.algorithm.messages))):
            pass
    return watched.seen


def by_count(cosine: Any, truth: Sequence[str], most: Sequence[int]) -> dict[str, dict[str, float]]:
    """Return, for every number of clusters, how they agree with the sources and with the clients' main classes."""
    out = {}
    likeness = affinity(cosine, "relu")
    for wanted in (2, 3, 4, "auto"):
        found = clusters(likeness, wanted, "kmeans", "reduce", SEED)
        labels = found.labels
        rare = np.array([group == "cifar" for group in truth])
        homes = np.unique(labels[rare])
        out[str(wanted)] = {
            "clusters": found.many,
            "ari_source": float(adjusted_rand_score(truth, labels)),
            "ari_class": float(adjusted_rand_score(most, labels)),
            "homes": len(homes),
            "strangers": int((np.isin(labels, homes) & ~rare).sum()),
        }
    return out


def keep(name: str, record: object) -> None:
    """Write a record."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["gates"]:
            gates()
        case ["sources", folder]:
            sources(Path(folder))
        case ["memory", folder]:
            memory(Path(folder))
        case _:
            raise SystemExit(__doc__)
