"""Figures of merit against scikit-learn, and tallies that add up."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support, recall_score

from potluck.metrics import Tally, classification, rounds_to, spread, total

LABELS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)


def counted(pairs: list[tuple[int, int]], classes: int = 5) -> Tally:
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    for true, said in pairs:
        confusion[true, said] += 1
    return Tally(len(pairs), {"loss": float(sum(true for true, _ in pairs))}, confusion)


@given(LABELS)
def test_figures_agree_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    true, said = [t for t, _ in pairs], [s for _, s in pairs]
    precision, recall, f1, _ = precision_recall_fscore_support(true, said, average="macro", zero_division=0)
    figures = counted(pairs).figures()
    assert figures["accuracy"] == pytest.approx(accuracy_score(true, said))
    assert figures["precision_macro"] == pytest.approx(precision)
    assert figures["recall_macro"] == pytest.approx(recall)
    assert figures["f1_macro"] == pytest.approx(f1)
    present = sorted(set(true))
    expected = recall_score(true, said, labels=present, average="macro", zero_division=0)
    assert figures["accuracy_macro"] == pytest.approx(expected)


@given(LABELS, st.integers(0, 40))
def test_parts_add_up_to_the_whole(pairs: list[tuple[int, int]], cut: int) -> None:
    parts = total([counted(pairs[:cut]), counted(pairs[cut:])])
    whole = counted(pairs)
    assert parts.figures() == pytest.approx(whole.figures())
    assert parts.rows == whole.rows
    assert (Tally(0) + whole).figures() == whole.figures()


def test_an_empty_table_has_no_figures() -> None:
    assert Tally(0).figures() == {}
    assert Tally(0, {"loss": 0.0}, torch.zeros(3, 3, dtype=torch.int64)).figures() == {}
    assert Tally(4, {"loss": 6.0}).figures() == {"loss": 1.5}


def test_one_class_alone() -> None:
    figures = classification(torch.tensor([[3, 0], [0, 0]]))
    assert set(figures.values()) == {1.0}


@given(st.dictionaries(st.integers(0, 20), st.tuples(st.floats(0, 1), st.integers(1, 50)), min_size=1))
def test_the_weighted_mean_over_clients_is_the_figure_of_the_union(
    clients: dict[int, tuple[float, int]],
) -> None:
    figures = {client: value for client, (value, _) in clients.items()}
    rows = {client: count for client, (_, count) in clients.items()}
    summary = spread(figures, rows)
    values = np.array(list(figures.values()))
    assert summary["weighted"] == pytest.approx(np.average(values, weights=list(rows.values())))
    assert summary["mean"] == pytest.approx(values.mean())
    assert summary["std"] == pytest.approx(values.std(), abs=1e-12)
    assert summary["min"] <= summary["q1"] <= summary["median"] <= summary["q3"] <= summary["max"]
    assert math.isclose(summary["max"], values.max())


def test_nobody_has_no_spread() -> None:
    assert spread({}, {}) == {}


def test_rounds_to_a_target() -> None:
    curve = [(10, 0.9), (1, 0.2), (5, 0.8)]
    assert rounds_to(0.8, curve) == 5
    assert rounds_to(0.95, curve) is None
    assert rounds_to(0.0, []) is None
