"""Laws of every partition: no row twice, all dealt, the seed decides, nothing but labels counts."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck.errors import BadInputError
from potluck.federation import Labels, Partition
from potluck.key import Key
from potluck.partition import (
    PARTITIONS,
    Blocks,
    ByGroup,
    Degenerate,
    Dirichlet,
    Group,
    Grouped,
    Iid,
    Niid1,
    Niid2,
    Quantity,
    Shards,
)

Make = Callable[[int], Partition]

ALL_ROWS: dict[str, Make] = {
    "iid": lambda k: Iid(clients=k),
    "dirichlet": lambda k: Dirichlet(clients=k, beta=0.3, min_size=1),
    "dirichlet, free": lambda k: Dirichlet(clients=k, alpha=0.05, clamp=False, min_size=2),
    "quantity": lambda k: Quantity(clients=k, beta=0.1, min_size=1),
    "grouped": lambda k: Grouped(groups=(Group(clients=1), Group(clients=k, beta=0.2)), min_size=1),
    "priors": lambda k: Grouped(
        groups=(Group(clients=1, beta=50), Group(clients=k, alpha=0.2)), reading="client_prior", min_size=1
    ),
    "shards": lambda k: Shards(clients=k, cut="sorted"),
}
SOME_ROWS: dict[str, Make] = {
    "per class": lambda k: Shards(clients=k, per_client=1),
    "writers": lambda k: ByGroup(column="writer", clients=1),
    "blocks": lambda k: Blocks(column="writer", size=5, keep="patient"),
}


def some_labels(y: list[int], classes: int) -> Labels:
    rows = np.arange(len(y), dtype=np.int64)
    return Labels(np.array(y, dtype=np.int64), classes, {"writer": rows % 3, "patient": rows % 11})


labels_of = st.lists(st.integers(0, 5), min_size=24, max_size=150).map(lambda y: some_labels(y, 6))


@pytest.mark.parametrize("name", [*ALL_ROWS, *SOME_ROWS])
@given(labels=labels_of, clients=st.integers(1, 6), seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_a_row_has_one_owner_and_nobody_is_empty(name: str, labels: Labels, clients: int, seed: int) -> None:
    dealt = {**ALL_ROWS, **SOME_ROWS}[name](clients)(labels, Key.root(seed))
    rows = np.concatenate(dealt)
    assert len(np.unique(rows)) == len(rows)
    assert all(len(mine) for mine in dealt)
    assert all(mine.dtype == np.int64 for mine in dealt)
    assert rows.min() >= 0
    assert rows.max() < len(labels)
    if name in ALL_ROWS:
        assert len(rows) == len(labels)


@pytest.mark.parametrize("name", [*ALL_ROWS, *SOME_ROWS])
@given(labels=labels_of, clients=st.integers(1, 6), seed=st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_labels_and_key_decide_and_nothing_else(name: str, labels: Labels, clients: int, seed: int) -> None:
    scheme = {**ALL_ROWS, **SOME_ROWS}[name](clients)
    before = labels.y.copy()
    once = scheme(labels, Key.root(seed))
    np.random.default_rng().random(3)
    again = {**ALL_ROWS, **SOME_ROWS}[name](clients)(some_labels(labels.y.tolist(), 6), Key.root(seed))
    assert [mine.tolist() for mine in once] == [mine.tolist() for mine in again]
    assert np.array_equal(labels.y, before)


@given(
    more=st.lists(st.integers(0, 5), max_size=60),
    variant=st.sampled_from(["feddisco", "delft"]),
    seed=st.integers(0, 999),
)
@settings(max_examples=40, deadline=None)
def test_niid2_deals_every_row_once(
    more: list[int], variant: Literal["feddisco", "delft"], seed: int
) -> None:
    labels = some_labels([*range(6)] * 12 + more, 6)
    dealt = Niid2(variant=variant)(labels, Key.root(seed))
    assert np.sort(np.concatenate(dealt)).tolist() == list(range(len(labels)))
    assert [len(np.unique(labels.y[mine])) <= 2 for mine in dealt[1:]] == [True] * 3
    again = Niid2(variant=variant)(labels, Key.root(seed))
    assert [mine.tolist() for mine in dealt] == [mine.tolist() for mine in again]


@pytest.mark.parametrize("name", ["iid", "dirichlet", "quantity", "grouped", "shards"])
def test_two_seeds_deal_differently(name: str) -> None:
    labels = some_labels([i % 6 for i in range(300)], 6)
    dealt = [ALL_ROWS[name](5)(labels, Key.root(seed)) for seed in (0, 1)]
    assert [mine.tolist() for mine in dealt[0]] != [mine.tolist() for mine in dealt[1]]


@given(
    y=st.lists(st.integers(0, 3), min_size=60, max_size=120),
    beta=st.sampled_from([0.001, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 999),
)
@settings(max_examples=60, deadline=None)
def test_min_size_holds_however_skewed_the_draw(y: list[int], beta: float, seed: int) -> None:
    labels = some_labels(y, 4)
    for scheme in (
        Dirichlet(clients=6, beta=beta, min_size=10),
        Dirichlet(clients=6, beta=beta, min_size=10, clamp=False),
        Quantity(clients=6, beta=beta, min_size=10),
        Grouped(groups=(Group(clients=3, beta=beta), Group(clients=3)), min_size=10),
    ):
        sizes = [len(mine) for mine in scheme(labels, Key.root(seed))]
        assert min(sizes) >= 10
        assert sum(sizes) == len(y)


def test_repair_takes_from_the_largest_client() -> None:
    labels = some_labels([0] * 100, 6)
    sizes = sorted(
        len(mine) for mine in Quantity(clients=4, beta=1e-3, min_size=10, tries=1)(labels, Key.root(0))
    )
    assert sizes == [10, 10, 10, 70]


@pytest.mark.parametrize(
    "scheme",
    [
        Dirichlet(clients=10_000, beta=0.5),
        Quantity(clients=10_000, beta=0.1),
        Iid(clients=10_000),
        Shards(clients=10_000),
        Grouped(groups=(Group(clients=5_000, beta=50.0), Group(clients=5_000, beta=0.5))),
    ],
    ids=lambda scheme: type(scheme).__name__,
)
def test_a_million_labels_over_ten_thousand_clients(scheme: Partition) -> None:
    labels = Labels(np.random.default_rng(0).integers(0, 10, 1_000_000), 10)
    start = time.perf_counter()
    scheme(labels, Key.root(0))
    assert time.perf_counter() - start < 2
    tracemalloc.start()
    scheme(labels, Key.root(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * labels.y.nbytes


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        (Iid(clients=0), "clients: must be at least 1"),
        (Quantity(clients=0, beta=1), "clients: must be at least 1"),
        (Dirichlet(clients=13, beta=1, min_size=1), "13 clients cannot share 12 rows"),
        (Dirichlet(clients=4, beta=1, min_size=10), "need 40, but there are 12; lower min_size to at most 3"),
        (Shards(clients=5, per_client=3), "5 clients with 3 shards need 15, more than the 12 rows"),
        (Shards(clients=4, per_client=2, size=6), "6 shards, enough for 3 clients with 2 each, not 4"),
        (ByGroup(column="hospital"), "no group column 'hospital'; columns: patient, writer"),
        (Blocks(column="hospital"), "no group column 'hospital'"),
        (Shards(clients=2, within="hospital"), "no group column 'hospital'"),
        (ByGroup(column="writer", min_rows=5), "0 groups of column 'writer' have at least 5 rows"),
        (ByGroup(column="writer", clients=4), "too few for 4 clients"),
        (Blocks(column="writer", size=4, clients=9), "yield 3 blocks of about 4 rows, not 9"),
        (Degenerate(), "9 degenerate clients need 18 rows, not 12"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(scheme: Partition, words: str) -> None:
    with pytest.raises(BadInputError, match=words) as raised:
        scheme(some_labels([i % 6 for i in range(12)], 6), Key.root(0))
    assert "\n" not in str(raised.value)


def test_concentration_is_given_once() -> None:
    for beta, alpha in ((1.0, 1.0), (-1.0, None), (None, float("nan"))):
        with pytest.raises(BadInputError, match=r"partition\.beta"):
            Dirichlet(clients=3, beta=beta, alpha=alpha)
    with pytest.raises(BadInputError, match=r"partition\.groups"):
        Grouped(groups=())
    with pytest.raises(BadInputError, match=r"partition\.kinds"):
        Degenerate(kinds=())(some_labels([0] * 30, 6), Key.root(0))


def test_alpha_is_beta() -> None:
    labels = some_labels([i % 6 for i in range(120)], 6)
    one, two = (
        scheme(labels, Key.root(3))
        for scheme in (Dirichlet(clients=4, beta=0.4), Dirichlet(clients=4, alpha=0.4))
    )
    assert [mine.tolist() for mine in one] == [mine.tolist() for mine in two]


def test_every_scheme_has_defaults() -> None:
    labels = some_labels([i % 6 for i in range(400)], 6)
    groups = {**labels.groups, "source": labels.groups["writer"]}
    for name, factory in PARTITIONS.items():
        dealt = factory()(Labels(labels.y, 6, groups), Key.root(0))
        assert len(dealt) >= 3 or name == "blocks"
    defaults = Dirichlet()(labels, Key.root(0))
    assert [mine.tolist() for mine in defaults] == [
        mine.tolist() for mine in Dirichlet(clients=10, beta=0.5)(labels, Key.root(0))
    ]


def test_awkward_labels_are_dealt() -> None:
    one_class = Labels(np.zeros(40, dtype=np.int64), 1)
    missing = Labels(np.full(40, 3, dtype=np.int64), 10)
    single = Labels(np.zeros(1, dtype=np.int64), 10)
    for labels in (one_class, missing):
        for name in ("iid", "dirichlet", "dirichlet, free", "quantity", "grouped", "priors", "shards"):
            assert sum(len(mine) for mine in ALL_ROWS[name](3)(labels, Key.root(0))) == 40
    assert [mine.tolist() for mine in Dirichlet(clients=1, beta=1, min_size=1)(single, Key.root(0))] == [[0]]
    with pytest.raises(BadInputError, match="cannot share 0 rows"):
        Iid(clients=1)(Labels(np.zeros(0, dtype=np.int64), 10), Key.root(0))


def test_the_table_names_every_scheme() -> None:
    assert {
        "iid",
        "dirichlet",
        "quantity",
        "grouped",
        "niid1",
        "niid2",
        "shards",
        "by_group",
        "natural",
    } <= set(PARTITIONS)
    assert isinstance(PARTITIONS["niid1"](clients=4), Niid1)
    for factory in PARTITIONS.values():
        assert factory.__doc__
