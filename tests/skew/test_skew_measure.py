"""Measures of skew against plain numpy and scipy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from potluck.data.dataset import Dataset
from potluck.errors import BadInputError
from potluck.federation import Federation, Partition, Shift, Split, build
from potluck.key import Key
from potluck.partition import Degenerate, Dirichlet, Iid
from potluck.shift import Noise, Relabel, Rotate
from potluck.skew.measure import describe, from_histogram

tables = st.tuples(st.integers(1, 7), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 50))
)


@given(counts=tables)
@settings(max_examples=150, deadline=None)
def test_measures_agree_with_scipy_and_stay_in_bounds(counts: npt.NDArray[np.int64]) -> None:
    if not counts.sum():
        with pytest.raises(BadInputError, match="no client has any rows"):
            from_histogram(counts)
        return
    skew = from_histogram(counts)
    pooled = counts.sum(axis=0) / counts.sum()
    shares = []
    for client, mine in enumerate(counts):
        if not mine.sum():
            assert np.isnan([skew.kl[client], skew.js[client], skew.emd[client], skew.floor[client]]).all()
            continue
        share = mine / mine.sum()
        shares.append(share)
        assert skew.kl[client] == pytest.approx(entropy(share, pooled), abs=1e-9)
        assert skew.js[client] == pytest.approx(jensenshannon(share, pooled) ** 2, abs=1e-9)
        assert skew.emd[client] == pytest.approx(np.abs(share - pooled).sum() / 2, abs=1e-9)
        assert -1e-9 <= skew.js[client] <= np.log(2) + 1e-9
        assert -1e-9 <= skew.emd[client] <= 1
    pairs = [np.minimum(a, b).sum() for i, a in enumerate(shares) for b in shares[i + 1 :]]
    assert skew.overlap == pytest.approx(np.mean(pairs) if pairs else 1.0)
    sizes = counts.sum(axis=1)
    assert skew.size_cv == pytest.approx(sizes.std() / sizes.mean())
    assert skew.max_over_mean == pytest.approx(sizes.max() / sizes.mean())
    assert skew.classes_held.tolist() == [(mine > 0).sum() for mine in counts]


def test_equal_clients_have_no_skew() -> None:
    skew = from_histogram([[5, 5, 10]] * 4)
    assert skew.mean_kl == pytest.approx(0)
    assert skew.overlap == pytest.approx(1)
    assert skew.size_cv == 0


def test_disjoint_clients_are_as_far_as_can_be() -> None:
    skew = from_histogram([[9, 0], [0, 9]])
    assert skew.kl == pytest.approx([np.log(2)] * 2)
    assert skew.emd == pytest.approx([0.5, 0.5])
    assert skew.overlap == 0


def test_chance_level_is_what_an_iid_split_has() -> None:
    draw = np.random.default_rng(0)
    skew = from_histogram(draw.multinomial(300, np.full(10, 0.1), size=400))
    assert skew.mean_kl == pytest.approx(skew.mean_floor, rel=0.1)
    assert skew.floor[0] == pytest.approx(9 / 600)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([], "give a table of counts"),
        ([1, 2], "give a table of counts"),
        ([[1, -2]], "client 0 has -2 rows of class 1"),
        ([[1, 2], [3, 0.5]], r"client 1 has 0\.5 rows of class 1"),
        ([[float("nan")]], "every count must be a number"),
        ([["a"]], "every count must be a number"),
        ([[0, 0]], "no client has any rows"),
    ],
)
def test_bad_histograms_are_refused(counts: npt.ArrayLike, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        from_histogram(counts)


def federation(data: Dataset, partition: Partition, *shifts: Shift) -> Federation:
    return build(data, partition, list(shifts), Split(), Key.root(0))


def test_noise_is_estimated_per_client(blobs: Dataset) -> None:
    found = describe(federation(blobs, Iid(clients=6), Noise(variance=0.1))).features
    assert found is not None
    assert found.noise == pytest.approx([np.sqrt(0.1 * i / 6) for i in range(1, 7)], rel=0.06)
    assert np.abs(found.shift).max() < 0.05
    assert not found.groups.any()


def test_clean_and_label_skewed_clients_are_not_called_noisy_or_shifted(blobs: Dataset) -> None:
    for scheme in (Iid(clients=6), Dirichlet(clients=6, beta=0.3)):
        found = describe(federation(blobs, scheme)).features
        assert found is not None
        assert found.noise.max() < 0.02
        assert np.nanmean(found.shift) < 0.02
        assert not found.groups.any()


@pytest.mark.parametrize("shift", [Relabel(classes=4, by=2), Rotate(turns=2)], ids=["relabel", "rotate"])
def test_populations_are_found_in_the_inputs(blobs: Dataset, shift: Shift) -> None:
    found = describe(federation(blobs, Iid(clients=8), shift)).features
    assert found is not None
    truth = [k >= 4 for k in range(8)] if isinstance(shift, Relabel) else [k % 2 == 1 for k in range(8)]
    assert len(np.unique(found.groups)) == 2
    assert [group == found.groups[-1] for group in found.groups] == truth
    assert found.shift.min() > 0.2


def targets(rows: int = 400) -> Dataset:
    """Return six columns of deviation 2 that say nothing about a real target."""
    draw = np.random.default_rng(1)
    return Dataset("columns", draw.normal(0, 2, (rows, 6)).astype(np.float32), draw.normal(0, 1, rows), None)


def test_real_targets_are_compared_by_their_tenths() -> None:
    even = describe(federation(targets(), Iid(clients=4)))
    assert even.counts.sum(axis=0).tolist() == [40] * 10
    assert even.unit == "tenths of the targets"
    assert even.class_names[0].startswith("below -1")
    assert even.mean_kl < 2 * even.mean_floor
    assert even.features is not None
    assert even.features.noise == pytest.approx([2] * 4, rel=0.1)
    skewed = describe(federation(targets(), Dirichlet(clients=4, beta=0.3)))
    assert skewed.mean_kl > 0.3
    assert describe(federation(targets(), Dirichlet(clients=4, beta=0.3))).size_cv == skewed.size_cv


def test_degenerate_clients_are_measured(blobs: Dataset) -> None:
    skew = describe(federation(blobs, Degenerate()))
    assert skew.features is not None
    assert np.isnan(skew.features.noise[-1])
    assert np.isfinite(skew.features.noise[:-1]).all()
    assert np.isnan(skew.kl[-1])
    assert torch.get_default_dtype() == torch.float32
