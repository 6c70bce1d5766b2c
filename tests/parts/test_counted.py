"""Counting labels: exact for classes, gathered in cells for real targets, refused if not numbers."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays

from potluck.errors import BadInputError
from potluck.parts.counted import Counted, counted, histogram


@given(arrays(np.int64, some.integers(1, 60), elements=some.integers(-40, 40)))
@settings(deadline=None, max_examples=150)
def test_whole_labels_are_counted_exactly(labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    values, counts = np.unique(labels, return_counts=True)
    for kind in (np.int64, np.int16, np.float64):
        found = counted(labels.astype(kind))
        assert found.values.tolist() == values.tolist()
        assert found.counts.tolist() == counts.tolist()
        assert found.rows == len(labels)
        assert found.mean == pytest.approx(labels.mean(), abs=1e-12)
        assert found.variance == pytest.approx(labels.var(), abs=1e-9)


def test_far_apart_and_narrow_labels() -> None:
    far = counted(np.array([10**12, -5, 10**12]))
    assert far.values.tolist() == [-5.0, 1e12]
    assert far.counts.tolist() == [1, 2]
    assert counted(np.array([250, 251, 250], dtype=np.uint8)).values.tolist() == [250.0, 251.0]
    assert counted(np.array([True, False, True])).counts.tolist() == [1, 2]
    assert counted(torch.tensor([3, 3, 1])).values.tolist() == [1.0, 3.0]


def test_no_labels() -> None:
    assert counted([]).rows == 0
    assert histogram(np.zeros(0, dtype=np.int64), 4).tolist() == [0, 0, 0, 0]


@given(some.integers(0, 2**32), some.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_cells_keep_rows_and_mean_and_nearly_the_variance(seed: int, cells: int) -> None:
    values = np.random.default_rng(seed).gamma(2.0, 3.0, 500)
    found = counted(values, cells=cells)
    width = (values.max() - values.min()) / cells
    assert len(found.values) <= cells
    assert found.rows == 500
    assert found.mean == pytest.approx(values.mean(), rel=1e-12)
    assert 0 <= values.var() - found.variance + 1e-9 <= width**2 / 4 + 2e-9
    assert (np.diff(found.values) > 0).all()


@pytest.mark.parametrize("labels", [[0.0, np.nan], [np.inf, 1.0]])
def test_labels_that_are_not_finite_name_the_row(labels: list[float]) -> None:
    with pytest.raises(BadInputError, match=r"row [01] is NaN or infinite"):
        counted(labels)


def test_labels_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(BadInputError, match="must be numbers"):
        counted(np.array(["cat", "dog"]))


def test_histogram_counts_every_class_and_refuses_others() -> None:
    assert histogram([0, 2, 2], 4).tolist() == [1, 0, 2, 0]
    for labels in ([4], [-1], [0.5]):
        with pytest.raises(BadInputError, match="classes 0 to 3"):
            histogram(labels, 4)


def test_ten_million_labels_are_counted_in_a_moment() -> None:
    labels = np.random.default_rng(0).integers(0, 10, 10_000_000)
    spent = []
    for _ in range(3):
        begin = time.perf_counter()
        found = counted(labels)
        spent.append(time.perf_counter() - begin)
    assert isinstance(found, Counted)
    assert found.rows == 10_000_000
    assert min(spent) < 0.2
