"""The aggregation contract (spec checks V-CORE1 to V-CORE3) and the policies for batch norm (V-CORE4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from potluck.combine import Fold, Weighed, combine, pool_variances, with_squares

BEFORE = {"w": torch.tensor([7.0, 8.0]), "seen": torch.tensor(3)}


def answer(client: int, values: list[float], raw: float, rows: float = 1.0, seen: int = 5) -> Weighed:
    return Weighed(client, {"w": torch.tensor(values), "seen": torch.tensor(seen)}, raw, rows)


def test_weighted_mean_of_three_known_tensors() -> None:
    states = [torch.randn(4, 3, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    raws = [2.0, 5.0, 1.0]
    answers = [
        Weighed(k, {"w": state}, raw, 1.0) for k, (state, raw) in enumerate(zip(states, raws, strict=True))
    ]
    combined = combine(answers, {})
    reference = sum(r / 8 * s.numpy().astype(np.float64) for r, s in zip(raws, states, strict=True))
    np.testing.assert_allclose(combined.params["w"].numpy(), reference, atol=1e-6)
    assert sum(combined.weights.values()) == pytest.approx(1.0, abs=1e-12)
    turned = combine(answers[::-1], {})
    np.testing.assert_allclose(turned.params["w"].numpy(), combined.params["w"].numpy(), rtol=1e-6)
    assert turned.weights == combined.weights


def test_small_numbers_survive_beside_large_ones() -> None:
    answers = [answer(k, [1e8 if k == 0 else 1.0, 0.0], 1.0) for k in range(101)]
    mean = combine(answers, BEFORE).params["w"][0]
    assert float(mean) == np.float32((1e8 + 100) / 101)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_state_that_is_not_finite_is_dropped(bad: float) -> None:
    good = [answer(k, [float(k), 1.0], 1.0 + k) for k in range(4)]
    combined = combine([*good, answer(4, [bad, 0.0], 9.0)], BEFORE)
    alone = combine(good, BEFORE)
    assert torch.equal(combined.params["w"], alone.params["w"])
    assert combined.weights == alone.weights
    assert combined.notes == {4: "nonfinite_state"}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_not_finite_is_dropped(bad: float) -> None:
    combined = combine([answer(0, [1.0, 2.0], 1.0), answer(1, [5.0, 5.0], bad)], BEFORE)
    assert combined.params["w"].tolist() == [1.0, 2.0]
    assert combined.notes == {1: "nonfinite_weight"}


def test_a_negative_weight_counts_as_zero() -> None:
    combined = combine([answer(0, [1.0, 2.0], 1.0), answer(1, [5.0, 5.0], -3.0)], BEFORE)
    assert combined.weights == {0: 1.0, 1: 0.0}
    assert combined.params["w"].tolist() == [1.0, 2.0]
    assert combined.notes == {1: "negative_weight"}


def test_weights_that_are_all_zero_give_way_to_the_fallback() -> None:
    answers = [answer(0, [0.0, 0.0], 0.0, rows=1.0), answer(1, [4.0, 8.0], -2.0, rows=3.0)]
    combined = combine(answers, BEFORE)
    assert combined.weights == {0: 0.25, 1: 0.75}
    assert combined.params["w"].tolist() == [3.0, 6.0]
    assert combined.notes == {0: "zero_weights", 1: "zero_weights"}


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [answer(0, [math.nan, 0.0], 1.0)],
        [answer(0, [1.0, 0.0], math.nan), answer(1, [math.inf, 0.0], 1.0)],
        [answer(0, [1.0, 0.0], 0.0, rows=0.0)],
    ],
)
def test_with_nobody_left_the_previous_state_stands(answers: list[Weighed]) -> None:
    combined = combine(answers, BEFORE)
    assert combined.weights == {}
    assert all(torch.equal(combined.params[name], leaf) for name, leaf in BEFORE.items())


def test_a_stream_gives_the_same_bits_as_a_list() -> None:
    answers = [answer(k, [0.1 * k, 1 / (k + 1)], k + 0.5) for k in range(6)]
    one, other = combine(answers, BEFORE), combine(iter(answers), BEFORE)
    assert torch.equal(one.params["w"], other.params["w"])
    assert one.weights == other.weights


def test_counters_take_the_maximum_and_stay_integer() -> None:
    combined = combine([answer(0, [1.0, 1.0], 3.0, seen=4), answer(1, [1.0, 1.0], 1.0, seen=9)], BEFORE)
    assert combined.params["seen"].dtype == torch.int64
    assert int(combined.params["seen"]) == 9


def test_a_fold_does_not_write_into_what_it_is_given() -> None:
    first, second = {"w": torch.ones(2), "n": torch.tensor(1)}, {"w": torch.ones(2), "n": torch.tensor(2)}
    fold = Fold()
    fold.add(1.0, first)
    fold.add(1.0, second)
    assert first["n"] == 1
    assert first["w"].tolist() == [1.0, 1.0]


finite = some.floats(-1e6, 1e6, width=32)


@given(some.lists(some.tuples(finite, some.floats(0.0625, 1e4)), min_size=1, max_size=8))
def test_the_mean_lies_between_and_weights_sum_to_one(drawn: list[tuple[float, float]]) -> None:
    answers = [answer(k, [value, -value], weight) for k, (value, weight) in enumerate(drawn)]
    combined = combine(answers, BEFORE)
    values = [value for value, _ in drawn]
    assert min(values) <= float(combined.params["w"][0]) <= max(values)
    assert sum(combined.weights.values()) == pytest.approx(1.0, abs=1e-12)
    assert all(weight >= 0 for weight in combined.weights.values())


@given(finite, some.lists(some.floats(1e-3, 1e6), min_size=1, max_size=8))
def test_equal_states_stay_what_they_are(value: float, weights: list[float]) -> None:
    answers = [answer(k, [value, 1.0], weight) for k, weight in enumerate(weights)]
    assert float(combine(answers, BEFORE).params["w"][0]) == value


def statistics(rows: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, Tensor]:
    return {
        "bn.running_mean": torch.tensor([rows.mean()], dtype=torch.float32),
        "bn.running_var": torch.tensor([rows.var()], dtype=torch.float32),
        "bn.num_batches_tracked": torch.tensor(len(rows)),
    }


NORMS = frozenset({"bn.running_mean", "bn.running_var", "bn.num_batches_tracked"})


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_pooled_variances_are_those_of_the_union(offset: float) -> None:
    draw = np.random.default_rng(3)
    clients = [draw.normal(offset + k, 1 + k, size=50 * (k + 1)) for k in range(3)]
    answers = [
        Weighed(k, with_squares(statistics(rows), NORMS), float(len(rows)), 1.0)
        for k, rows in enumerate(clients)
    ]
    pooled = pool_variances(combine(answers, {}).params, NORMS)
    union = np.concatenate(clients)
    assert pooled.keys() == statistics(union).keys()
    assert float(pooled["bn.running_mean"]) == pytest.approx(union.mean(), rel=1e-6)
    assert float(pooled["bn.running_var"]) == pytest.approx(union.var(), rel=1e-3)
    assert pooled["bn.running_var"].dtype == torch.float32
    assert int(pooled["bn.num_batches_tracked"]) == 150


def test_pooling_one_client_gives_its_own_variance_exactly() -> None:
    own = {**statistics(np.array([1000.0, 1000.5, 1001.0])), "running_var": torch.ones(1)}
    pooled = pool_variances(combine([Weighed(0, with_squares(own, NORMS), 7.0, 7.0)], {}).params, NORMS)
    assert all(torch.equal(pooled[name], leaf) for name, leaf in own.items())
