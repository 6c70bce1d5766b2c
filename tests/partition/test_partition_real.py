"""SC-11, SC-13 and SC-14 on the real data, and what the measures make of them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from potluck.data import DATASETS
from potluck.data.dataset import Dataset
from potluck.data.places import Places
from potluck.federation import Federation, Partition, Split, build
from potluck.key import Key
from potluck.partition import Blocks, ByGroup, Shards
from potluck.skew.measure import describe

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module")
def places() -> Places:
    if not os.environ.get("POTLUCK_DATA"):
        pytest.skip("set POTLUCK_DATA to the folder of the real data")
    return Places.usual()


def federate(places: Places, name: str, scheme: Partition) -> tuple[Dataset, Federation]:
    data: Dataset = DATASETS[name](places)
    return data, build(data, scheme, [], Split(val=0.0, test=0.15), Key.root(0))


def test_sc11_groups_are_the_sources(places: Places) -> None:
    _, federation = federate(places, "mnist-cifar", Shards(clients=100, size=350, within="source"))
    found = describe(federation).features
    assert found is not None
    assert found.groups.tolist() == [1] * 85 + [2] * 15


def test_sc13_by_writer(places: Places) -> None:
    data, federation = federate(places, "femnist", ByGroup(column="writer", clients=100))
    writers = [np.unique(data.groups["writer"][rows]) for rows in federation.rows]
    assert len(np.unique(np.concatenate(writers))) == len(federation) == 100
    assert data.classes == 62
    assert (federation.histogram().sum(axis=0) > 0).sum() >= 55
    sizes = [
        len(holder.test) / len(rows) for holder, rows in zip(federation.holders, federation.rows, strict=True)
    ]
    assert np.mean(sizes) == pytest.approx(0.15, abs=0.01)


def test_sc14_by_source(places: Places) -> None:
    data, federation = federate(places, "xray", Blocks(size=325, keep="patient"))
    homes = [np.unique(data.groups["source"][rows]) for rows in federation.rows]
    assert all(len(home) == 1 for home in homes)
    assert len(np.unique(np.concatenate(homes))) == 3
    for home in range(3):
        own = federation.histogram()[[k for k, mine in enumerate(homes) if mine[0] == home]].sum(axis=0)
        assert (own > 0).all()
    assert sum(map(len, federation.rows)) == len(data.y)
    assert 50 < len(federation) < 100
    patients = np.concatenate([np.unique(data.groups["patient"][rows]) for rows in federation.rows])
    assert len(patients) == len(np.unique(patients))
    assert describe(federation).features is not None
