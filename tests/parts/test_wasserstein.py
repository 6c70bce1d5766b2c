"""The exact distance to the standard normal: oracles, scipy, and laws."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm, wasserstein_distance

from potluck.parts.wasserstein import discrepancy, w1_to_normal

numbers = some.floats(-6, 6)


def by_areas(sample: list[float]) -> float:
    """Integrate |F(x) - Phi(x)| between the sorted points."""
    x = np.sort(np.asarray(sample))
    edges = [-12.0, *x.tolist(), 12.0]
    total = 0.0
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        level = i / len(x)
        turn = float(np.clip(norm.ppf(level), low, high)) if 0 < level < 1 else low
        for a, b in ((low, turn), (turn, high)):
            if b > a:
                total += quad(lambda t, level=level: abs(level - ndtr(t)), a, b, limit=200)[0]
    return total


def test_a_point_mass_at_zero() -> None:
    assert w1_to_normal([0.0])[0] == pytest.approx(math.sqrt(2 / math.pi), abs=1e-12)
    assert w1_to_normal(np.zeros(17))[0] == pytest.approx(0.79788, abs=1e-5)


@pytest.mark.parametrize(
    ("mean", "scale", "expected", "tolerance"), [(1, 1, 1, 0.03), (0, 0.5, 0.399, 0.01), (2, 0.1, 2.0, 0.02)]
)
def test_normals(mean: float, scale: float, expected: float, tolerance: float) -> None:
    sample = np.random.default_rng(0).normal(mean, scale, 6000)
    assert w1_to_normal(sample)[0] == pytest.approx(expected, abs=tolerance)


def test_agreement_with_scipy_against_a_million_normals() -> None:
    draw = np.random.default_rng(1)
    normals = draw.normal(size=1_000_000)
    sample = np.stack(
        [draw.normal(0.3, 1.4, 900), draw.gamma(1.0, 1.0, 900), draw.uniform(-3, 3, 900)], axis=1
    )
    for ours, column in zip(w1_to_normal(sample), sample.T, strict=True):
        assert ours == pytest.approx(wasserstein_distance(column, normals), abs=0.01)


@given(some.lists(numbers, min_size=1, max_size=12))
@settings(deadline=None, max_examples=60)
def test_agreement_with_the_area_between_the_distribution_functions(sample: list[float]) -> None:
    assert w1_to_normal(sample)[0] == pytest.approx(by_areas(sample), abs=1e-6)


@given(some.lists(numbers, min_size=1, max_size=30), some.integers(0, 2**20))
@settings(deadline=None, max_examples=100)
def test_order_sign_and_repetition_do_not_matter(sample: list[float], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(sample)
    once = w1_to_normal(sample)[0]
    assert once >= 0
    assert w1_to_normal(shuffled)[0] == once
    assert w1_to_normal(-shuffled)[0] == pytest.approx(once, abs=1e-9)
    assert w1_to_normal(np.repeat(shuffled, 3))[0] == pytest.approx(once, abs=1e-9)


@given(some.lists(numbers, min_size=1, max_size=30), some.floats(-3, 3))
@settings(deadline=None, max_examples=100)
def test_moving_the_sample_moves_the_distance_no_further(sample: list[float], step: float) -> None:
    moved = w1_to_normal(np.asarray(sample) + step)[0]
    assert abs(moved - w1_to_normal(sample)[0]) <= abs(step) + 1e-9
    assert moved >= abs(np.mean(sample) + step) - 1e-9


@pytest.mark.parametrize("far", [1e3, 1e8, 1e150, 1e300])
def test_extreme_values_stay_exact(far: float) -> None:
    assert w1_to_normal([far])[0] == pytest.approx(far, rel=1e-12)
    assert w1_to_normal([-far, far])[0] == pytest.approx(far, rel=1e-2)
    assert np.isfinite(w1_to_normal([far, 0.0, 37.0, -40.0])).all()


def test_what_is_not_finite_is_infinitely_far() -> None:
    sample = np.array([[0.0, np.nan, np.inf], [1.0, 0.0, 0.0]])
    distances = w1_to_normal(sample)
    assert np.isfinite(distances[0])
    assert distances[1:].tolist() == [np.inf, np.inf]
    assert discrepancy(sample) == np.inf
    assert w1_to_normal(np.zeros((0, 2))).tolist() == [np.inf, np.inf]
    assert discrepancy(np.zeros((4, 0))) == np.inf


def test_the_discrepancy_is_the_mean_over_columns() -> None:
    sample = np.random.default_rng(2).normal(size=(50, 3))
    columns = [w1_to_normal(sample[:, j])[0] for j in range(3)]
    assert discrepancy(sample) == pytest.approx(np.mean(columns), abs=1e-15)
    assert discrepancy(sample.astype(np.float32)) == pytest.approx(np.mean(columns), abs=1e-6)


def test_sixty_thousand_rows_take_a_moment() -> None:
    sample = np.random.default_rng(3).normal(size=(60_000, 32))
    spent = []
    for _ in range(3):
        begin = time.process_time()
        distances = w1_to_normal(sample)
        spent.append(time.process_time() - begin)
    assert distances.max() < 0.03
    assert min(spent) < 0.5
