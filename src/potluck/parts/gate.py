"""The online layer of FedEx: how the outputs of several experts become one prediction, without labels.

Miles, Khan, Baranger, Miller, Saxena and Kulshrestha, "FedEx: an exploration of clustering clients in federated
learning", University of Michigan, 2024, algorithm 2. With experts' outputs m^(i) in the simplex and weights w_ij
of expert i on class j:

    p = argmax_j sum_i w_ij m_j^(i);  c^(i) = m_p^(i) / sum_l m_p^(l);  w_ip <- (w_ip t + c^(i)) / (t + 1);  t <- t + 1

A row is predicted with the weights that the rows before it left. The printed argmax runs over experts; it is read
as one over classes, and t starts at 1, as in the authors' code. Ours: an expert without a finite output says
nothing (0 for every class); where nobody says anything the weights stay; ties go to the lowest class; and the
other rules than `online`, of which `oracle` looks at the labels and is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from potluck.errors import BadInputError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Rule = Literal["online", "mean", "frozen", "oracle"]
Start = Literal["uniform", "ones", "cluster_size"]
Clock = Literal["global", "per_class"]


class Weights(NamedTuple):
    """The state of the layer: a weight by expert (down) and class (across), and each class's clock."""

    table: Floats
    clock: Floats


class Stream(NamedTuple):
    """Predictions of a stream: the weighted sums by row (down) and class (across), and the state after the last."""

    sums: Floats
    after: Weights


@dataclass(frozen=True)
class Gate:
    """How experts are combined: by which rule, from which weights, and on which clock."""

    rule: Rule = "online"
    w_init: Start = "uniform"
    t_mode: Clock = "global"

    def start(self, sizes: Sequence[int], classes: int, sound: Sequence[bool] = ()) -> Weights:
        """Return the weights before the first row; `sizes` are the experts' numbers of clients.

        Experts that are not `sound` (not finite) weigh nothing, as if they were not there.
        """
        experts = len(sizes)
        there = np.array(sound or [True] * experts, dtype=np.float64)
        share = np.full(experts, 1.0)
        if self.w_init == "cluster_size" and np.any(there * sizes):
            share = np.array(sizes, dtype=np.float64)
        share = share * there
        if self.w_init != "ones" and share.any():
            share = share / share.sum()
        return Weights(np.repeat(share[:, None], classes, axis=1), np.ones(classes))

    def sums(self, said: Floats, start: Weights, order: Ints, y: Ints | None = None) -> Floats:
        """Return the combined outputs by row; `said[row, expert, class]`, visited in `order` where that matters."""
        return RULES[self.rule](self, said, start, order, y)


def heard(outputs: Floats) -> Floats:
    """Return the outputs with zeros for experts whose output for a row is not finite."""
    return np.where(np.isfinite(outputs).all(axis=2, keepdims=True), outputs, 0.0)


def stream(said: Floats, before: Weights, t_mode: Clock = "global") -> Stream:
    """Predict row after row, updating the weights after each: algorithm 2.

    Each row's prediction needs the weights that the row before left, so this is a loop.
    """
    table, clock = before.table.copy(), before.clock.copy()
    sums = np.empty((said.shape[0], said.shape[2]))
    for row, outputs in enumerate(said):
        np.add.reduce(table * outputs, axis=0, out=sums[row])
        best = int(sums[row].argmax())
        confidence = outputs[:, best]
        total = confidence.sum()
        if total > 0:
            t = clock[best]
            table[:, best] = (table[:, best] * t + confidence / total) / (t + 1.0)
            if t_mode == "global":
                clock += 1.0
            else:
                clock[best] += 1.0
    return Stream(sums, Weights(table, clock))


def _online(gate: Gate, said: Floats, start: Weights, order: Ints, y: Ints | None) -> Floats:
    sums = np.empty((said.shape[0], said.shape[2]))
    sums[order] = stream(said[order], start, gate.t_mode).sums
    return sums


def _frozen(gate: Gate, said: Floats, start: Weights, order: Ints, y: Ints | None) -> Floats:
    """Learn the weights on a first pass in the given order, then hold them."""
    table = stream(said[order], start, gate.t_mode).after.table
    return np.asarray(np.add.reduce(table * said, axis=1))


def _mean(gate: Gate, said: Floats, start: Weights, order: Ints, y: Ints | None) -> Floats:
    return np.asarray(said.mean(axis=1))


def _oracle(gate: Gate, said: Floats, start: Weights, order: Ints, y: Ints | None) -> Floats:
    """Take each row's best expert: one that is right if any is, then the surest of the true class."""
    if y is None:
        raise BadInputError("algorithm.gate: the oracle looks at labels; it can be scored but cannot predict")
    rows = np.arange(len(said))
    sure = said[rows, :, y]
    right = (said.argmax(axis=2) == y[:, None]) & (sure > 0)
    return np.asarray(said[rows, (right + sure).argmax(axis=1)])


RULES: Mapping[str, Callable[[Gate, Floats, Weights, Ints, Ints | None], Floats]] = {
    "online": _online,
    "mean": _mean,
    "frozen": _frozen,
    "oracle": _oracle,
}
