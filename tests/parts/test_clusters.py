"""Similarity and spectral clustering: against direct formulas, planted groups, empty clusters, single clients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from potluck.errors import BadInputError
from potluck.parts.clusters import Assign, by_first, clusters, eigengap, filled, plane, rows_to_one, spectrum
from potluck.parts.similarity import affinity, cosines, gram, nearest
from potluck.tree import Params

Floats = npt.NDArray[np.float64]


def states(count: int, seed: int = 0) -> list[Params]:
    draw = torch.Generator().manual_seed(seed)
    return [
        {
            "a": torch.randn(7, 11, generator=draw),
            "b": torch.randn(70_000, generator=draw),
            "n": torch.ones(1),
        }
        for _ in range(count)
    ]


def planted(
    sizes: tuple[int, ...], noise: float = 0.3, seed: int = 0
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return cosines of noisy copies of orthogonal directions, and the truth."""
    draw = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(60)[truth] + noise * draw.normal(size=(len(truth), 60)) / np.sqrt(60)
    return cosines(vectors @ vectors.T), truth


@pytest.mark.parametrize("shifted", [True, False])
def test_inner_products_equal_those_of_whole_vectors(shifted: bool) -> None:
    given_states = states(5)
    start = states(1, seed=9)[0] if shifted else None
    names = ("a", "b")
    rows = np.array(
        [np.concatenate([s[n].numpy().astype(float).ravel() for n in names]) for s in given_states]
    )
    if start is not None:
        rows -= np.concatenate([start[n].numpy().astype(float).ravel() for n in names])
    assert gram(given_states, start, names) == pytest.approx(rows @ rows.T, rel=1e-12)
    assert gram([], start, names).shape == (0, 0)


def test_affinities() -> None:
    cosine = np.array([[1.0, -0.5], [-0.5, 1.0]])
    assert affinity(cosine, "relu").tolist() == [[1, 0], [0, 1]]
    assert affinity(cosine, "shift").tolist() == [[1, 0.25], [0.25, 1]]
    assert affinity(np.abs(cosine), "raw").tolist() == [[1, 0.5], [0.5, 1]]
    with pytest.raises(BadInputError, match='"raw" leaves negative similarities'):
        affinity(cosine, "raw")


def test_the_nearest_centre_has_the_highest_cosine() -> None:
    def vector(*values: float) -> Params:
        return {"w": torch.tensor(values)}

    centres = [vector(5, 0), vector(0, 0.1), vector(0, 0)]
    assert nearest(vector(1, 2), centres) == 1
    assert nearest(vector(2, 1), centres) == 0
    assert nearest(vector(-1, -2), centres) == 2
    assert nearest(vector(0, 0), centres) is None
    assert nearest(vector(1, 1), []) == 0


@pytest.mark.parametrize("assign", ["kmeans", "discretize"])
@pytest.mark.parametrize("sizes", [(10, 10), (3, 20), (6, 7, 8), (1, 5, 9)])
def test_planted_groups_are_found(assign: Assign, sizes: tuple[int, ...]) -> None:
    cosine, truth = planted(sizes)
    found = clusters(affinity(cosine, "relu"), len(sizes), assign, "reduce", seed=2**40)
    assert adjusted_rand_score(truth, found.labels) == 1.0
    assert found.many == len(sizes)
    assert found.labels.tolist() == truth.tolist(), "numbered by their first clients"


@pytest.mark.parametrize("assign", ["kmeans", "discretize"])
def test_disconnected_groups_are_found_without_a_warning(assign: Assign) -> None:
    block: Floats = np.kron(np.eye(3), np.ones((4, 4))).astype(np.float64)
    found = clusters(block, 3, assign, "reduce", seed=0)
    assert found.labels.tolist() == np.repeat([0, 1, 2], 4).tolist()


@pytest.mark.parametrize("groups", [2, 3, 5, 8])
def test_the_eigengap_counts_groups(groups: int) -> None:
    cosine, truth = planted((6,) * groups)
    found = clusters(affinity(cosine, "relu"), "auto", "kmeans", "reduce", seed=0)
    assert found.many == groups
    assert adjusted_rand_score(truth, found.labels) == 1.0


def test_few_clients() -> None:
    for count in (1, 2, 3):
        found = clusters(np.eye(count), "auto", "kmeans", "reduce", seed=0)
        assert len(found.labels) == count
        assert found.plane.shape == (count, 2)
    assert clusters(np.eye(2), 5, "kmeans", "reduce", seed=0).labels.tolist() == [0, 1]
    assert eigengap(np.array([0.0])) == 1
    assert clusters(np.ones((4, 4)), 1, "discretize", "reduce", seed=0).labels.tolist() == [0, 0, 0, 0]


def test_identical_clients_leave_clusters_empty_or_are_split() -> None:
    same = np.ones((6, 6))
    reduced = clusters(same, 3, "kmeans", "reduce", seed=0)
    split = clusters(same, 3, "kmeans", "split", seed=0)
    assert sorted(set(reduced.labels.tolist())) == list(range(reduced.many))
    assert split.many == 3


def test_an_empty_cluster_gets_the_farthest_member_of_the_largest() -> None:
    points = np.array([[0.0], [0.1], [0.9], [5.0], [5.1]])
    assert filled(np.array([0, 0, 0, 1, 1]), points, 3).tolist() == [0, 0, 2, 1, 1]
    assert filled(np.array([0, 0, 0, 0, 0]), points, 2).tolist() == [0, 0, 0, 0, 1]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_numbering_is_by_first_member_and_keeps_the_groups(labels: list[int]) -> None:
    found = by_first(np.array(labels)).tolist()
    assert list(dict.fromkeys(found)) == list(range(len(set(labels))))
    assert adjusted_rand_score(labels, found) == 1.0


def test_the_spectrum_is_that_of_the_normalised_laplacian() -> None:
    cosine, _ = planted((4, 5))
    a = affinity(cosine, "relu")
    found = spectrum(a)
    degree = a.sum(axis=1)
    laplacian = np.eye(9) - a / np.sqrt(np.outer(degree, degree))
    assert laplacian @ found.vectors == pytest.approx(found.vectors * found.values, abs=1e-12)
    assert found.values[0] == pytest.approx(0, abs=1e-12)
    assert np.linalg.norm(rows_to_one(found.vectors[:, :2]), axis=1) == pytest.approx(np.ones(9))
    assert plane(found.vectors).max(axis=0) == pytest.approx(np.abs(found.vectors[:, 1:3]).max(axis=0))
