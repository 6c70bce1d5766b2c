"""A federation: rows dealt, shifted and split, the same for every algorithm (V-CORE5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from potluck.algorithms import ALGORITHMS
from potluck.config import experiment
from potluck.core import Draw
from potluck.data import Places
from potluck.data.digits import digits
from potluck.errors import BadInputError
from potluck.federation import Federation, Labels, Split, build
from potluck.key import Key
from potluck.partition import PARTITIONS
from potluck.table import Table

SETTINGS = {
    "name": "t",
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "beta": 0.5, "clients": 5},
    "model": {"name": "mlp", "hidden": [8]},
    "participation": 0.4,
}


def made(algorithm: str = "fedavg", seed: int = 0, **changes: Any) -> Any:
    return experiment({**SETTINGS, "algorithm": {"name": algorithm}, **changes}).world(seed)


def parts(federation: Federation) -> list[torch.Tensor]:
    return [t for h in federation.holders for p in (h.train, h.val, h.test) for t in (p.x, p.y)]


@pytest.fixture(scope="module")
def fedavg() -> Any:
    return made()


APART = {"alone", "pooled", "fedvae"}
"""Two reference settings; and the VAE, which goes with the stage of FedDisco that it is the baseline of."""


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - APART))
def test_every_algorithm_has_the_same_rows_first_weights_and_participants(name: str, fedavg: Any) -> None:
    """Spec V-CORE5."""
    world = made(name)
    assert world.federation.digest() == fedavg.federation.digest()
    pairs = zip(parts(world.federation), parts(fedavg.federation), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    index = len(world.algorithm.stages) - 1
    stage = world.stage(index)
    assert stage.stream == "train"
    assert world.key_of(index) == fedavg.key_of(0)
    first, other = world.site(index, "server").first(), fedavg.site(0, "server").first()
    if first["body.1.weight"].shape == other["body.1.weight"].shape:  # a method may bring its own network
        assert all(torch.equal(first[leaf], other[leaf]) for leaf in other if leaf in first)
    for number in range(1, 4):
        draw = Draw(world.clients, world.participation, world.key_of(index) / "cohort" / number)
        expected = fedavg.stage(0).cohort(None, draw)
        assert len(expected) == 2
        if type(stage).cohort is type(fedavg.stage(0)).cohort:
            assert stage.cohort(None, draw) == expected


def test_the_vae_is_the_first_stage_of_the_method_that_it_is_the_baseline_of(fedavg: Any) -> None:
    alone, system = made("fedvae"), made("feddisco-vae")
    assert alone.federation.digest() == system.federation.digest() == fedavg.federation.digest()
    assert alone.key_of(0) == system.key_of(0)
    first, other = alone.site(0, "server").first(), system.site(0, "server").first()
    assert first.keys() == other.keys()
    assert all(torch.equal(first[leaf], other[leaf]) for leaf in other)
    for number in range(1, 4):
        draws = [Draw(each.clients, 0.4, each.key_of(0) / "cohort" / number) for each in (alone, system)]
        assert alone.stage(0).cohort(None, draws[0]) == system.stage(0).cohort(None, draws[1])


def test_another_seed_deals_other_rows(fedavg: Any) -> None:
    assert made().federation.digest() == fedavg.federation.digest()
    assert made(seed=1).federation.digest() != fedavg.federation.digest()


@given(rows=st.integers(0, 60), val=st.floats(0, 0.5), test=st.floats(0, 0.49), seed=st.integers(0, 9))
def test_a_split_loses_no_row_and_leaves_some_to_train_on(
    rows: int, val: float, test: float, seed: int
) -> None:
    table = Table(torch.arange(float(rows)).reshape(rows, 1), torch.arange(rows))
    cut = Split(val, test)(table, Key.root(seed))
    assert sorted(torch.cat([part.y for part in cut]).tolist()) == list(range(rows))
    assert [len(cut[1]), len(cut[2])] == [int(val * rows), int(test * rows)]
    assert len(cut[0]) > 0 or rows == 0
    again = Split(val, test)(table, Key.root(seed))
    assert all(torch.equal(one.y, other.y) for one, other in zip(cut, again, strict=True))


@pytest.mark.parametrize(("val", "test"), [(0.5, 0.5), (-0.1, 0.2), (0.1, 1.0), (float("nan"), 0.1)])
def test_a_split_that_leaves_nothing_is_refused(val: float, test: float) -> None:
    with pytest.raises(BadInputError, match="must leave rows to train on"):
        Split(val, test)


def test_shifts_are_applied_in_order_with_streams_of_their_own() -> None:
    seen: list[tuple[int, int, str]] = []

    def shift(table: Table, client: int, clients: int, key: Key) -> Table:
        seen.append((client, clients, str(key)))
        return replace(table, x=table.x + client)

    dataset = digits(Places.usual())
    shifted = build(dataset, PARTITIONS["iid"](clients=3), [shift, shift], Split(0, 0), Key.root(4))
    plain = build(dataset, PARTITIONS["iid"](clients=3), [], Split(0, 0), Key.root(4))
    assert seen[1] == (0, 3, "4/shift/1/client/0")
    assert len(set(seen)) == 6
    for client, (one, other) in enumerate(zip(shifted.holders, plain.holders, strict=True)):
        assert torch.allclose(one.train.x, other.train.x + 2 * client)
    assert int(shifted.histogram().sum()) == len(dataset.y)
    assert shifted.digest() == plain.digest()


def test_nobody_is_no_federation() -> None:
    def nobody(labels: Labels, key: Key) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        return []

    with pytest.raises(BadInputError, match=r"partition\.clients: must be at least 1"):
        build(digits(Places.usual()), nobody, [], Split(), Key.root(0))


def test_a_table_needs_a_target_for_every_row() -> None:
    with pytest.raises(ValueError, match="3 rows, 2 targets"):
        Table(torch.zeros(3, 1), torch.zeros(2))
