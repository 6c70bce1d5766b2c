"""Laws of the tenths that stand in for classes where targets are numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from potluck.data.dataset import Dataset
from potluck.data.tenths import tenths
from potluck.federation import labels_of

TARGETS = hnp.arrays(np.float64, st.integers(1, 60), elements=st.integers(-5, 5).map(lambda n: n / 2))


@given(TARGETS)
def test_tenths_follow_the_order_of_the_targets(y: npt.NDArray[np.float64]) -> None:
    parts, names = tenths(y)
    order = np.argsort(y, kind="stable")
    assert (np.diff(parts[order]) >= 0).all()
    assert (parts[np.argmin(y)], parts.min()) == (0, 0)
    assert parts.max() <= len(names) - 1 <= 9
    assert all(len(np.unique(parts[y == value])) == 1 for value in y)
    assert len(set(names)) == len(names)


def test_tenths_of_different_targets_are_even() -> None:
    parts, names = tenths(np.random.default_rng(0).permutation(np.arange(1000.0)))
    assert np.bincount(parts).tolist() == [100] * 10
    assert (names[0], names[1], names[-1]) == ("below 99.9", "99.9 to 199.8", "from 899.1")
    assert tenths(np.empty(0))[1] == ("all",)
    assert tenths(np.full(5, 2.0))[1] == ("all",)
    two = np.stack([np.arange(20.0), np.zeros(20)], axis=1)
    assert tenths(two)[0].tolist() == tenths(two[:, 0])[0].tolist()


def test_partitions_see_the_tenths_of_real_targets() -> None:
    seen = labels_of(Dataset("dose", np.zeros((30, 1), np.float32), np.arange(30.0), None))
    assert (seen.classes, np.bincount(seen.y).tolist()) == (10, [3] * 10)
