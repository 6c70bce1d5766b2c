"""The scenario catalogue on labels alone: SC-1 to SC-3, SC-6 to SC-11, SC-13 to SC-15."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chisquare

from potluck.errors import BadInputError
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition import (
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
from potluck.partition.manifest import manifest

Ints = npt.NDArray[np.int64]

MNIST = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
BALANCED = Labels(np.repeat(np.arange(10), 5000), 10)


def labels_like(counts: list[int], seed: int = 0) -> Labels:
    y = np.repeat(np.arange(len(counts)), counts)
    return Labels(np.random.default_rng(seed).permutation(y), len(counts))


def table(labels: Labels, dealt: list[Ints]) -> Ints:
    return np.stack([np.bincount(labels.y[rows], minlength=labels.classes) for rows in dealt])


def kl_of(counts: Ints) -> npt.NDArray[np.float64]:
    pooled = counts.sum(axis=0) / counts.sum()
    shares = counts / counts.sum(axis=1, keepdims=True)
    ratio = np.where(shares > 0, shares / pooled, 1.0)
    return np.asarray((shares * np.log(ratio)).sum(axis=1))


def cv_of(counts: Ints) -> float:
    sizes = counts.sum(axis=1)
    return float(sizes.std() / sizes.mean())


@pytest.mark.parametrize("clients", [30, 100])
def test_sc1_iid(clients: int) -> None:
    labels = labels_like(MNIST)
    counts = table(labels, Iid(clients=clients)(labels, Key.root(1)))
    sizes = counts.sum(axis=1)
    assert np.ptp(sizes) <= 1
    for mine, size in zip(counts, sizes, strict=True):
        assert chisquare(mine, np.array(MNIST) / 60_000 * size).pvalue > 1e-4
    assert kl_of(counts).mean() < 9 / (2 * sizes.mean()) * 3


REFERENCE = [
    (10, 50, 0.008, 0.008, 0.04, 0.04),
    (10, 20, 0.024, 0.020, 0.05, 0.06),
    (10, 5, 0.105, 0.078, 0.10, 0.12),
    (10, 1, 0.438, 0.331, 0.18, 0.28),
    (10, 0.5, 0.714, 0.567, 0.23, 0.39),
    (10, 0.1, 1.42, 1.29, 0.46, 0.62),
    (30, 0.5, 0.753, 0.611, 0.30, 0.41),
    (30, 0.1, 1.55, 1.41, 0.69, 0.82),
]


@pytest.mark.parametrize(("clients", "beta", "kl_clamp", "kl_free", "cv_clamp", "cv_free"), REFERENCE)
def test_sc2_and_sc6_match_the_reference_table(
    clients: int, beta: float, kl_clamp: float, kl_free: float, cv_clamp: float, cv_free: float
) -> None:
    for clamp, kl, cv in ((True, kl_clamp, cv_clamp), (False, kl_free, cv_free)):
        scheme = Dirichlet(clients=clients, beta=beta, clamp=clamp)
        tables = [table(BALANCED, scheme(BALANCED, Key.root(seed))) for seed in range(20)]
        assert all(counts.sum(axis=0).tolist() == [5000] * 10 for counts in tables)
        assert min(int(counts.sum(axis=1).min()) for counts in tables) >= 10
        # two digits are printed, so that small entries carry a rounding of half a unit beside the 20 %
        assert np.mean([kl_of(counts).mean() for counts in tables]) == pytest.approx(kl, rel=0.2, abs=5e-4)
        assert np.mean([cv_of(counts) for counts in tables]) == pytest.approx(cv, rel=0.2, abs=5e-3)


def test_sc2_skew_grows_as_beta_falls() -> None:
    means = [
        np.mean(
            [
                kl_of(table(BALANCED, Dirichlet(clients=30, beta=b)(BALANCED, Key.root(s)))).mean()
                for s in (0, 1)
            ]
        )
        for b in (50, 5, 1, 0.5, 0.1)
    ]
    assert means == sorted(means)


def test_sc3_quantity() -> None:
    counts = table(BALANCED, Quantity(clients=30, beta=0.5)(BALANCED, Key.root(0)))
    sizes = counts.sum(axis=1)
    assert sizes.sum() == 50_000
    assert sizes.min() >= 10
    assert cv_of(counts) > 1
    for mine in counts[sizes > 500]:
        assert chisquare(mine, np.full(10, mine.sum() / 10)).pvalue > 1e-4


def test_sc3_sizes_are_the_expected_ones() -> None:
    schemes = [Quantity(clients=30, beta=0.5)(BALANCED, Key.root(seed)) for seed in range(40)]
    sizes = np.array([[len(mine) for mine in dealt] for dealt in schemes])
    assert sizes.min(axis=1).mean() == pytest.approx(24, rel=0.2)
    assert np.median(sizes, axis=1).mean() == pytest.approx(900, rel=0.2)
    assert sizes.max(axis=1).mean() == pytest.approx(9000, rel=0.2)
    assert (sizes < 100).mean() == pytest.approx(0.14, rel=0.2)


def test_sc3_ends_for_tiny_beta() -> None:
    for beta in (0.1, 0.01):
        sizes = [len(mine) for mine in Quantity(clients=30, beta=beta)(BALANCED, Key.root(2))]
        assert sum(sizes) == 50_000
        assert min(sizes) >= 10


def test_sc6_tiny_alpha_leaves_few_classes() -> None:
    counts = table(BALANCED, Dirichlet(clients=10, alpha=0.001)(BALANCED, Key.root(0)))
    assert np.median((counts > 0).sum(axis=1)) <= 3


@pytest.mark.parametrize(("first", "second"), [(2, 8), (5, 5), (8, 2)])
@pytest.mark.parametrize("reading", ["grouped", "client_prior"])
def test_sc7_mixed_groups(first: int, second: int, reading: str) -> None:
    kls: list[float] = []
    for alpha in (5, 1, 0.5):
        groups = (Group(clients=first, alpha=50), Group(clients=second, alpha=alpha))
        scheme = (
            Grouped(groups=groups) if reading == "grouped" else Grouped(groups=groups, reading="client_prior")
        )
        tables = [table(BALANCED, scheme(BALANCED, Key.root(seed))) for seed in range(10)]
        assert all(len(counts) == 10 for counts in tables)
        even_enough = 0.05 if reading == "grouped" else 0.12  # priors are bent to deal every row
        assert np.mean([kl_of(counts)[:first].mean() for counts in tables]) < even_enough
        if reading == "grouped":
            assert all(abs(int(counts[:first].sum()) - 5000 * first) <= 1 for counts in tables)
        kls.append(float(np.mean([kl_of(counts)[first:].mean() for counts in tables])))
    assert kls == sorted(kls)
    if reading == "grouped" and second >= 5:  # two clients halve everything, which is another table
        assert kls == pytest.approx([0.105, 0.438, 0.714], rel=0.2)


def test_sc7_a_group_without_beta_is_iid() -> None:
    counts = table(
        BALANCED, Grouped(groups=(Group(clients=4), Group(clients=6, beta=0.1)))(BALANCED, Key.root(0))
    )
    assert kl_of(counts)[:4].max() < 0.01
    assert kl_of(counts)[4:].min() > 0.2


@pytest.mark.parametrize(("variant", "smallest"), [("feddisco", 10), ("delft", 40)])
def test_sc8_niid1(variant: str, smallest: int) -> None:
    labels = labels_like(MNIST)
    scheme = Niid1() if variant == "feddisco" else Niid1(variant="delft")
    counts = table(labels, scheme(labels, Key.root(0)))
    assert counts.shape == (10, 10)
    assert counts.sum(axis=0).tolist() == MNIST
    assert counts.sum(axis=1).min() >= smallest
    assert (kl_of(counts) > 0).all()


@pytest.mark.parametrize("variant", ["feddisco", "delft"])
def test_sc9_niid2(variant: str) -> None:
    labels = labels_like(MNIST)
    scheme = Niid2() if variant == "feddisco" else Niid2(variant="delft")
    counts = table(labels, scheme(labels, Key.root(3)))
    held = (counts > 0).sum(axis=1)
    assert held.tolist() == [10, 2, 2, 2, 2, 2]
    pairs = [np.flatnonzero(mine).tolist() for mine in counts[1:]]
    assert sorted(np.concatenate(pairs).tolist()) == list(range(10))
    assert counts.sum() == 60_000
    if variant == "feddisco":
        assert pairs == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
        assert counts[0].tolist() == [round(n / 6) for n in MNIST]
        uniform = kl_of(np.vstack([counts[0], np.full(10, 1000)]))
        assert uniform[0] < 0.01
    else:
        assert counts[0].sum() == 10_000
        assert pairs != [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_sc10_shards_sorted() -> None:
    labels = labels_like(MNIST)
    counts = table(labels, Shards(clients=100, cut="sorted")(labels, Key.root(0)))
    assert counts.sum(axis=1).tolist() == [600] * 100
    assert (counts > 0).sum(axis=1).max() <= 4


def test_sc10_shards_per_class() -> None:
    labels = labels_like(MNIST)
    shards = [-(-n // 300) for n in MNIST]
    assert (sum(shards), sum(n // 300 for n in MNIST)) == (204, 194)
    scheme = Shards(clients=100, size=300)
    dealt = scheme(labels, Key.root(0))
    counts = table(labels, dealt)
    assert len(dealt) == 100
    assert (counts > 0).sum(axis=1).max() <= 2
    assert counts.sum(axis=1).max() <= 600
    leftovers = np.array(MNIST) - counts.sum(axis=0)
    assert manifest(scheme, labels, dealt, Key.root(0))["dropped"] == leftovers.sum()
    assert 0 < leftovers.sum() <= 4 * 300


def test_sc11_noise_clients_by_source() -> None:
    y = np.concatenate([np.repeat(np.arange(10), MNIST), np.repeat(np.arange(10), 1000)])
    source = np.repeat([0, 1], [60_000, 10_000])
    labels = Labels(y, 10, {"source": source})
    dealt = Shards(clients=100, size=350, within="source")(labels, Key.root(0))
    homes = [np.unique(source[rows]) for rows in dealt]
    assert all(len(home) == 1 for home in homes)
    assert [int(home[0]) for home in homes] == [0] * 85 + [1] * 15
    assert (sum(-(-n // 350) for n in MNIST), sum(n // 350 for n in MNIST)) == (175, 165)
    mnist = np.concatenate(dealt[:85])
    assert 0 < 60_000 - len(mnist) <= (175 - 170) * 350
    assert all(len(np.unique(y[rows])) <= 2 for rows in dealt)
    assert all(len(np.unique(y[np.concatenate(part)])) == 10 for part in (dealt[:85], dealt[85:]))
    cifar = np.concatenate(dealt[85:])
    assert np.array_equal(np.sort(cifar), np.arange(60_000, 70_000))
    sizes = sorted(len(rows) for rows in dealt[85:])
    assert sizes[0] >= 600
    assert sizes[-1] <= 700


def test_sc13_by_writer() -> None:
    draw = np.random.default_rng(0)
    writer = draw.permutation(np.repeat(np.arange(40), draw.integers(250, 480, 40)))
    labels = Labels(draw.integers(0, 62, len(writer)), 62, {"writer": writer})
    many = np.bincount(writer)
    able = int((many > 300).sum())
    drawn = ByGroup(column="writer", min_rows=301, clients=able - 3, choose="random")
    for scheme in (ByGroup(column="writer", min_rows=301), drawn, ByGroup(column="writer", clients=10)):
        dealt = scheme(labels, Key.root(0))
        homes = [np.unique(writer[rows]) for rows in dealt]
        assert all(len(home) == 1 for home in homes)
        names = [int(home[0]) for home in homes]
        assert names == sorted(set(names))
        assert [len(rows) for rows in dealt] == many[names].tolist()
    assert len(drawn(labels, Key.root(0))) == able - 3
    assert min(len(rows) for rows in drawn(labels, Key.root(0))) > 300
    largest = sorted(many, reverse=True)[:10]
    assert (
        sorted(map(len, ByGroup(column="writer", clients=10)(labels, Key.root(0))), reverse=True) == largest
    )


@pytest.mark.parametrize("keep", [None, "patient"])
def test_sc14_one_source_a_client(keep: str | None) -> None:
    draw = np.random.default_rng(1)
    source = draw.permutation(np.repeat(np.arange(3), [1500, 900, 200]))
    patient = source * 1000 + draw.integers(0, 300, len(source))
    labels = Labels(draw.integers(0, 2, len(source)), 2, {"source": source, "patient": patient})
    dealt = Blocks(size=325, keep=keep)(labels, Key.root(0))
    assert len(dealt) == 5 + 3 + 1
    assert sum(map(len, dealt)) == 2600
    homes = [np.unique(source[rows]).tolist() for rows in dealt]
    assert homes == [[0]] * 5 + [[1]] * 3 + [[2]]
    assert all(abs(len(rows) - 325) < 40 for rows in dealt[:-1])
    if keep:
        seen = np.concatenate([np.unique(patient[rows]) for rows in dealt])
        assert len(seen) == len(np.unique(seen))
    some = Blocks(size=325, keep=keep, clients=4)(labels, Key.root(0))
    assert len(some) == 4
    assert {len(rows) for rows in some} <= {len(rows) for rows in dealt}


def test_sc15_degenerate() -> None:
    labels = labels_like([40] * 5)
    dealt = Degenerate()(labels, Key.root(0))
    assert len(dealt) == 9
    assert [len(rows) for rows in dealt[5:7]] == [1, 2]
    assert all(len(np.unique(labels.y[rows])) == 5 for rows in dealt[:4])
    assert len(np.unique(labels.y[dealt[4]])) == 1
    assert len(dealt[4]) > 1
    assert len(np.unique(dealt[7])) == 1
    assert len(dealt[7]) > 1
    assert len(dealt[8]) == 0
    owned = np.concatenate([np.unique(rows) for rows in dealt])
    assert len(np.unique(owned)) == len(owned)


def test_sc15_kinds_are_chosen() -> None:
    labels = labels_like([40] * 5)
    dealt = Degenerate(kinds=("empty", "normal", "single_class", "single_class"), size=12)(
        labels, Key.root(0)
    )
    assert [len(rows) for rows in dealt] == [0, 12, 12, 12]


def test_a_missing_class_leaves_no_client_of_niid2_empty_in_silence() -> None:
    with pytest.raises(BadInputError, match="client 2 of 3 has none"):
        Niid2()(labels_like([9, 9, 0, 0]), Key.root(0))


def test_sources_share_the_clients_within_their_room() -> None:
    source = np.repeat([0, 1, 2, -1], [30, 30, 200, 10])
    labels = Labels(np.zeros(270, dtype=np.int64), 1, {"source": source})
    dealt = Shards(clients=12, size=10, within="source")(labels, Key.root(0))
    homes = [int(np.unique(source[rows])[0]) for rows in dealt]
    assert homes == [0, 1] + [2] * 10
    assert all(len(rows) == 20 for rows in dealt)


def test_manifest_names_a_plain_function() -> None:
    def halves(labels: Labels, key: Key) -> list[Ints]:
        return [np.arange(3), np.arange(3, 6)]

    labels = labels_like([4, 4])
    written = manifest(halves, labels, halves(labels, Key.root(0)), Key.root(0))
    assert (written["scheme"], written["parameters"], written["dropped"]) == ("halves", {}, 2)


def test_manifest_is_json_and_names_the_partition() -> None:
    labels = labels_like([30, 20, 10])
    key = Key.root(7) / "partition"
    scheme = Grouped(groups=(Group(clients=2, beta=5), Group(clients=1)), min_size=1)
    dealt = scheme(labels, key)
    written = json.loads(json.dumps(manifest(scheme, labels, dealt, key)))
    assert written["scheme"] == "grouped"
    assert written["parameters"]["groups"][0]["beta"] == 5
    assert written["seed"] == 7
    assert written["dropped"] == 0
    assert np.array(written["histogram"]).sum(axis=0).tolist() == [30, 20, 10]
    assert written["sizes"] == [len(rows) for rows in dealt]
    moved = [dealt[1], dealt[0], dealt[2]]
    assert manifest(scheme, labels, moved, key)["sha256"] != written["sha256"]
