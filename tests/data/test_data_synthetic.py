"""Synthetic rows follow the distributions that their file states."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.config import experiment
from potluck.data import DATASETS, Dataset, Places

PLACES = Places(())


def drawn(kind: str, shift: float = 1.0, rows: int = 40_000) -> tuple[Dataset, np.ndarray, np.ndarray]:
    data = DATASETS["synthetic"](PLACES, kind=kind, shift=shift, rows=rows)
    second = data.groups["population"] == 1
    return data, data.x[~second].astype(np.float64), data.x[second].astype(np.float64)


def test_gaussians_have_the_stated_means_and_unit_variance() -> None:
    _, first, second = drawn("gaussians")
    assert np.allclose(first.mean(axis=0), -1 / (2 * np.sqrt(8)), atol=0.03)
    assert np.allclose(second.mean(axis=0), 1 / (2 * np.sqrt(8)), atol=0.03)
    assert np.allclose(first.std(axis=0), 1, atol=0.03)


def test_bits_have_the_stated_frequencies() -> None:
    _, first, second = drawn("bernoulli")
    assert np.allclose(first.mean(axis=0), 0.25, atol=0.02)
    assert np.allclose(second.mean(axis=0), 0.75, atol=0.02)
    assert np.abs(np.corrcoef(first.T) - np.eye(8)).max() < 0.04


def test_chains_differ_in_their_pairs_only() -> None:
    _, first, second = drawn("ising")
    for rows, agree in ((first, 0.75), (second, 0.25)):
        assert np.allclose(rows.mean(axis=0), 0.5, atol=0.02)
        assert np.allclose((rows[:, 1:] == rows[:, :-1]).mean(axis=0), agree, atol=0.02)


@pytest.mark.parametrize("kind", ["gaussians", "bernoulli", "ising"])
def test_a_draw_repeats_and_can_be_dealt_by_population(kind: str) -> None:
    one, other = (DATASETS["synthetic"](PLACES, kind=kind) for _ in range(2))
    assert np.array_equal(one.x, other.x)
    assert np.array_equal(one.y, other.y)
    assert not np.array_equal(one.x, DATASETS["synthetic"](PLACES, kind=kind, draw=1).x)
    table = {"name": "s", "data": {"name": "synthetic", "kind": kind}, "model": {"name": "softmax"}}
    partition = {"name": "by_group", "column": "population"}
    federation = experiment({**table, "partition": partition}).federation(0)
    assert [len(rows) for rows in federation.rows] == [1000, 1000]
