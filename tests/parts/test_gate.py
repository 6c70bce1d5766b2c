"""The online layer: one step by hand, an oracle row by row, invariants, its known weakness (V-EX2, V-EX4 to 6)."""

from __future__ import annotations

import time
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.errors import BadInputError
from potluck.parts.gate import Gate, Weights, heard, stream

Floats = npt.NDArray[np.float64]
Mode = Literal["global", "per_class"]


def speech(rows: int, experts: int, classes: int, seed: int = 0) -> Floats:
    """Draw rows of a simplex for every expert."""
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.4), size=(rows, experts))


def by_hand(said: Floats, w: Floats, mode: Mode) -> tuple[list[int], Floats, Floats]:
    """Algorithm 2 as printed, number by number (p over classes, t from 1)."""
    w = w.copy()
    experts, classes = w.shape
    t = [1.0] * classes
    predictions, sums = [], []
    for m in said:
        s = [sum(w[i, j] * m[i, j] for i in range(experts)) for j in range(classes)]
        p = max(range(classes), key=lambda j: (s[j], -j))
        total = sum(m[i, p] for i in range(experts))
        if total > 0:
            for i in range(experts):
                w[i, p] = (w[i, p] * t[p] + m[i, p] / total) / (t[p] + 1)
            t = [x + 1 for x in t] if mode == "global" else [x + (j == p) for j, x in enumerate(t)]
        predictions.append(p)
        sums.append(s)
    return predictions, np.array(sums), w


def uniform(experts: int, classes: int) -> Weights:
    return Gate().start((1,) * experts, classes)


def test_one_step_worked_by_hand() -> None:
    said = np.array([[[0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]])
    seen = stream(said, uniform(2, 3))
    # sums: .35, .55, .10; p = 1; c = .3/1.1, .8/1.1; w_1 = (.5 * 1 + c) / 2
    assert seen.sums[0] == pytest.approx([0.35, 0.55, 0.1])
    expected = [[0.5, (0.5 + 3 / 11) / 2, 0.5], [0.5, (0.5 + 8 / 11) / 2, 0.5]]
    assert seen.after.table == pytest.approx(np.array(expected), abs=1e-15)
    assert seen.after.clock.tolist() == [2, 2, 2]


@pytest.mark.parametrize("mode", ["global", "per_class"])
def test_it_equals_the_algorithm_row_by_row(mode: Mode) -> None:
    said = speech(10_000, 4, 10)
    start = uniform(4, 10)
    before = time.process_time()
    seen = stream(said, start, mode)
    seconds = time.process_time() - before
    predictions, sums, table = by_hand(said, start.table, mode)
    assert seen.sums.argmax(axis=1).tolist() == predictions
    assert np.abs(seen.sums - sums).max() < 1e-12
    assert np.abs(seen.after.table - table).max() < 1e-12
    assert np.abs(seen.after.table.sum(axis=0) - 1).max() < 1e-9
    assert seconds < 1.0


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 12), st.integers(0, 99))
def test_columns_keep_their_sum_and_only_the_predicted_one_moves(
    experts: int, classes: int, rows: int, seed: int
) -> None:
    now = uniform(experts, classes)
    for row in speech(rows, experts, classes, seed):
        seen = stream(row[None], now)
        moved = np.flatnonzero((seen.after.table != now.table).any(axis=0))
        assert set(moved.tolist()) <= {int(seen.sums[0].argmax())}
        assert np.abs(seen.after.table.sum(axis=0) - 1).max() < 1e-9
        now = seen.after


def test_a_stream_may_be_cut_anywhere() -> None:
    said = speech(40, 3, 5)
    whole = stream(said, uniform(3, 5))
    first = stream(said[:17], uniform(3, 5))
    second = stream(said[17:], first.after)
    assert np.array_equal(np.concatenate([first.sums, second.sums]), whole.sums)
    assert np.array_equal(second.after.table, whole.after.table)


def test_per_class_weights_are_running_means_of_the_confidences() -> None:
    said = speech(500, 3, 4)
    seen = stream(said, uniform(3, 4), "per_class")
    best = seen.sums.argmax(axis=1)
    for p in range(4):
        confidence = said[best == p][:, :, p]
        confidence = confidence / confidence.sum(axis=1, keepdims=True)
        expected = np.vstack([np.full((1, 3), 1 / 3), confidence]).mean(axis=0)
        assert seen.after.table[:, p] == pytest.approx(expected)


def test_identical_experts_predict_as_one_and_weights_stay() -> None:
    one = speech(200, 1, 6)
    seen = stream(np.repeat(one, 3, axis=1), uniform(3, 6))
    assert seen.sums == pytest.approx(one[:, 0], abs=1e-12)
    assert seen.after.table == pytest.approx(np.full((3, 6), 1 / 3), abs=1e-12)
    alone = stream(one, uniform(1, 6))
    assert np.array_equal(alone.sums, one[:, 0])
    assert np.array_equal(alone.after.table, np.ones((1, 6)))


def test_an_expert_that_is_not_finite_is_left_out() -> None:
    said = speech(300, 2, 5)
    broken = np.concatenate([said, np.full((300, 1, 5), np.nan)], axis=1)
    assert (np.argmax((np.ones((3, 5)) / 3 * broken).sum(axis=1), axis=1) == 0).all()  # the literal reading
    seen = stream(heard(broken), uniform(3, 5))
    assert np.isfinite(seen.sums).all()
    assert len(set(seen.sums.argmax(axis=1).tolist())) == 5
    assert np.abs(seen.after.table.sum(axis=0) - 1).max() < 1e-9
    assert (seen.after.table[2] < 1 / 3).all()


def test_one_broken_row_leaves_an_expert_its_other_rows() -> None:
    said = speech(3, 2, 4)
    said[1, 0, 2] = np.inf
    kept = heard(said)
    assert (kept[1, 0] == 0).all()
    assert np.array_equal(kept[[0, 2]], said[[0, 2]])
    assert np.array_equal(kept[1, 1], said[1, 1])


def test_silence_changes_nothing_and_ties_go_to_the_lowest_class() -> None:
    said = np.zeros((2, 2, 3))
    seen = stream(said, uniform(2, 3))
    assert np.array_equal(seen.after.table, uniform(2, 3).table)
    assert seen.after.clock.tolist() == [1, 1, 1]
    tied = stream(np.array([[[0.1, 0.45, 0.45], [0.1, 0.45, 0.45]]]), uniform(2, 3))
    assert tied.sums[0].argmax() == 1


def test_no_rows_give_no_sums() -> None:
    for rule in ("online", "mean", "frozen"):
        gate = Gate(rule)
        assert gate.sums(np.zeros((0, 2, 3)), uniform(2, 3), np.arange(0)).shape == (0, 3)


def test_starts() -> None:
    assert Gate(w_init="ones").start((3, 1), 2).table.tolist() == [[1, 1], [1, 1]]
    assert Gate(w_init="cluster_size").start((3, 1), 2).table.tolist() == [[0.75, 0.75], [0.25, 0.25]]
    assert Gate(w_init="cluster_size").start((0, 0), 2).table.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_confidence_beats_accuracy() -> None:
    """One expert is always .99 sure and wrong, the other .9 sure and right (V-EX6)."""
    rows, classes = 2_000, 5
    y = np.random.default_rng(1).integers(classes, size=rows)
    said = np.zeros((rows, 2, classes))
    for expert, (sure, says) in enumerate(((0.99, (y + 1) % classes), (0.9, y))):
        said[:, expert] = (1 - sure) / (classes - 1)
        said[np.arange(rows), expert, says] = sure
    start, order = uniform(2, classes), np.arange(rows)
    online = Gate().sums(said, start, order)
    assert (online.argmax(axis=1) == y).mean() == 0.0
    weights = stream(said, start).after.table[0]
    assert weights.min() > 0.8
    assert weights.max() < 0.95
    mean = Gate("mean").sums(said, start, order)
    assert (mean.argmax(axis=1) == y).mean() == 0.0
    assert mean[0].max() == pytest.approx((0.99 + 0.1 / 4) / 2)
    assert (Gate("oracle").sums(said, start, order, y).argmax(axis=1) == y).all()


def test_the_oracle_takes_an_expert_that_is_right_if_any_is() -> None:
    said = np.array([[[0.3, 0.45, 0.25], [0.4, 0.3, 0.3]], [[0.2, 0.5, 0.3], [0.3, 0.4, 0.3]]])
    y = np.array([0, 2])
    sums = Gate("oracle").sums(said, uniform(2, 3), np.arange(2), y)
    assert sums.argmax(axis=1)[0] == 0
    assert np.array_equal(sums[0], said[0, 1])
    with pytest.raises(BadInputError, match="looks at labels"):
        Gate("oracle").sums(said, uniform(2, 3), np.arange(2))


def test_online_depends_on_the_order_and_frozen_predicts_with_fixed_weights() -> None:
    said = speech(300, 3, 4)
    start, there, back = uniform(3, 4), np.arange(300), np.arange(300)[::-1]
    assert not np.array_equal(Gate().sums(said, start, there), Gate().sums(said, start, back))
    frozen = Gate("frozen").sums(said, start, there)
    table = stream(said, start).after.table
    assert frozen == pytest.approx(np.einsum("ij,nij->nj", table, said))
