"""Cross-check with Flower's own partitioners, statistics only; runs where flwr-datasets is installed, and says so."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.federation import Labels
from potluck.key import Key
from potluck.partition import Dirichlet, Iid, Shards
from potluck.partition.manifest import histogram
from potluck.skew.measure import Skew, from_histogram

ABSENT = "flwr-datasets is not installed: the partitions are not compared with Flower's here"
partitioners = pytest.importorskip("flwr_datasets.partitioner", reason=ABSENT)
datasets = pytest.importorskip("datasets", reason=ABSENT)

pytestmark = pytest.mark.slow

Y = np.repeat(np.arange(10), 1000)
LABELS = Labels(Y, 10)
SEEDS = 8


def theirs(name: str, **arguments: object) -> Skew:
    partitioner = getattr(partitioners, name)(**arguments)
    partitioner.dataset = datasets.Dataset.from_dict({"label": Y.tolist()})
    parts = [partitioner.load_partition(client)["label"] for client in range(partitioner.num_partitions)]
    return from_histogram(np.stack([np.bincount(part, minlength=10) for part in parts]))


def ours(scheme: Dirichlet | Iid | Shards, seed: int) -> Skew:
    return from_histogram(histogram(LABELS, scheme(LABELS, Key.root(seed))))


@pytest.mark.parametrize("clamp", [True, False])
@pytest.mark.parametrize("beta", [5.0, 0.5, 0.1])
def test_dirichlet_has_the_same_skew(beta: float, clamp: bool) -> None:
    mine = [ours(Dirichlet(clients=10, beta=beta, clamp=clamp), seed) for seed in range(SEEDS)]
    other = [
        theirs(
            "DirichletPartitioner",
            num_partitions=10,
            partition_by="label",
            alpha=beta,
            min_partition_size=10,
            self_balancing=clamp,
            seed=seed,
        )
        for seed in range(SEEDS)
    ]
    assert np.mean([s.mean_kl for s in mine]) == pytest.approx(np.mean([s.mean_kl for s in other]), rel=0.2)
    assert np.mean([s.size_cv for s in mine]) == pytest.approx(np.mean([s.size_cv for s in other]), rel=0.35)


def test_iid_has_the_same_sizes() -> None:
    mine, other = ours(Iid(clients=30), 0), theirs("IidPartitioner", num_partitions=30)
    assert sorted(mine.rows.tolist()) == sorted(other.rows.tolist())


def test_shards_have_the_same_sizes_and_classes() -> None:
    other = theirs(
        "ShardPartitioner",
        num_partitions=20,
        partition_by="label",
        num_shards_per_partition=2,
        shard_size=250,
    )
    mine = ours(Shards(clients=20, cut="sorted"), 0)
    assert mine.rows.tolist() == other.rows.tolist()
    assert mine.classes_held.max() <= 2 >= other.classes_held.max()
    assert mine.mean_kl == pytest.approx(other.mean_kl, rel=0.1)
