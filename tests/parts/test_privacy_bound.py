"""The leakage bound holds for the exact mutual information of small discrete clients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from potluck.errors import BadInputError
from potluck.parts.privacy_bound import entropy, leakage_bound, row_entropy, shares


def mutual_information(tables: list[list[float]], kappa: list[float], client: int) -> float:
    """Compute I(Z_k; Z_Theta) in nats from the joint table."""
    own = np.asarray(tables[client])
    joint = np.diag(own) * kappa[client]
    for i, table in enumerate(tables):
        if i != client:
            joint = joint + kappa[i] * np.outer(own, table)
    outside = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    used = joint > 0
    return float((joint[used] * np.log(joint[used] / outside[used])).sum())


@given(
    some.lists(some.lists(some.integers(0, 20), min_size=4, max_size=4).filter(any), min_size=1, max_size=5)
)
@settings(deadline=None, max_examples=100)
def test_the_bound_holds(counts: list[list[int]]) -> None:
    sizes = [sum(row) for row in counts]
    bound = leakage_bound(sizes, [entropy(row) for row in counts])
    tables = [[c / n for c in row] for row, n in zip(counts, sizes, strict=True)]
    kappa = [n / sum(sizes) for n in sizes]
    for k in range(len(counts)):
        assert mutual_information(tables, kappa, k) <= bound[k] + 1e-9


def test_a_lone_client_leaks_its_entropy_and_many_clients_little() -> None:
    assert leakage_bound([50], [1.3]).tolist() == [1.3]
    assert leakage_bound([10] * 100, [2.0] * 100) == pytest.approx(np.full(100, 0.02))


def test_entropies() -> None:
    assert entropy([5, 5, 0, 5, 5]) == pytest.approx(math.log(4))
    assert entropy([7]) == 0
    assert row_entropy(np.array([[0, 1], [0, 1], [1, 1], [1, 0]])) == pytest.approx(1.5 * math.log(2))
    assert row_entropy(np.zeros((3, 2))) == math.inf
    assert leakage_bound([3, 0], [math.inf, math.inf]).tolist() == [math.inf, 0.0]
    assert shares([1, 3]).tolist() == [0.25, 0.75]


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(BadInputError, match="not all zero"):
        shares([0, 0])
    with pytest.raises(BadInputError, match="non-negative"):
        shares([2, -1])
    with pytest.raises(BadInputError, match="positive sum"):
        entropy([0, 0])
    with pytest.raises(BadInputError, match="one entropy per client"):
        leakage_bound([1, 2], [0.1])
