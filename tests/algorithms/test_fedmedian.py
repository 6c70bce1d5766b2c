"""FedMedian: V-MD1 to V-MD3, an oracle, and hostile clients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedmedian import Median, fedmedian, median
from potluck.combine import Weighed, combine
from potluck.errors import BadInputError
from potluck.laws import toy
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.roles import Server
from potluck.world import Faults

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle

BEFORE = {"w": torch.zeros(2)}
QUICK = Fit(lr=0.2, batch=4, epochs=2)


def answers(rows: list[list[float]], sizes: list[float] | None = None) -> list[Weighed]:
    sizes = sizes or [1.0] * len(rows)
    return [
        Weighed(k, {"w": torch.tensor(row)}, size, size)
        for k, (row, size) in enumerate(zip(rows, sizes, strict=True))
    ]


def gathered(server: Server, given: list[Weighed]) -> list[float]:
    values: list[float] = server.gather(given, BEFORE).params["w"].tolist()
    return values


leaf = some.lists(some.floats(-1e6, 1e6, width=32), min_size=4, max_size=4)


@given(some.lists(leaf, min_size=1, max_size=7))
def test_the_median_is_numpys(rows: list[list[float]]) -> None:
    found = median([torch.tensor(row) for row in rows]).numpy()
    np.testing.assert_array_equal(
        found, np.median(np.array(rows, dtype=np.float32).astype(np.float64), axis=0).astype(np.float32)
    )


def test_an_even_number_gives_the_middle_of_two() -> None:
    assert gathered(Median(), answers([[1.0], [100.0], [2.0], [10.0]])) == [6.0]


@pytest.mark.parametrize("lie", [1e6, -1e6])
def test_two_of_five_liars_are_survived_and_three_are_not(lie: float) -> None:
    honest = [[1.0, -1.0], [2.0, 0.0], [3.0, 1.0]]
    for low, value, high in zip(
        [1.0, -1.0], gathered(Median(), answers([*honest, *[[lie, lie]] * 2])), [3.0, 1.0], strict=True
    ):
        assert low <= value <= high
    assert gathered(Median(), answers([*honest[:2], *[[lie, lie]] * 3])) == [lie, lie]


def test_one_liar_is_enough_for_the_mean() -> None:
    values = combine(answers([[1.0, -1.0]] * 4 + [[1e6, 1e6]]), BEFORE).params["w"]
    assert bool((values > 1e5).all())


def test_counting_everybody_twice_changes_nothing() -> None:
    rows = [[0.3, 5.0], [0.1, -7.0], [9.0, 2.0], [4.0, 4.0], [1.0, 1.0]]
    assert gathered(Median(), answers(rows)) == gathered(Median(), answers(rows + rows))


def test_clients_without_rows_and_broken_answers_do_not_vote() -> None:
    given = answers([[1.0], [2.0], [900.0], [math.nan], [3.0]], [5.0, 1.0, 0.0, 2.0, 50.0])
    combined = Median().gather(given, BEFORE)
    assert combined.params["w"].tolist() == [2.0]
    assert combined.weights == {0: 1 / 3, 1: 1 / 3, 4: 1 / 3}
    assert combined.notes == {2: "zero_weight", 3: "nonfinite_state"}


def test_with_nobody_left_the_previous_state_stands() -> None:
    combined = Median().gather(answers([[math.inf], [1.0]], [1.0, 0.0]), BEFORE)
    assert combined.weights == {}
    assert combined.params["w"].tolist() == [0.0, 0.0]


def test_two_rounds_agree_with_the_oracle(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    world = build(fedmedian(2, Fit(lr=0.2, batch="all", epochs=3)), (12, 7, 5, 9))
    now = numbers.start(world)
    for _ in range(2):
        states = [oracle.descend(now, x, y, lr=0.2, steps=3) for x, y in numbers.tables(world)]
        now = {name: np.median([state[name] for state in states], axis=0) for name in now}
    for name, found in numbers.final(world).items():
        np.testing.assert_allclose(found, now[name], atol=1e-6)


def test_of_two_equal_clients_it_is_the_mean(build: Build, numbers: Numbers) -> None:
    one, other = (numbers.final(build(method(2, QUICK), (8, 8))) for method in (fedmedian, fedavg))
    for name, found in one.items():
        np.testing.assert_allclose(found, other[name], atol=1e-6)


def accuracy(world_of: Build, share: float, *, robust: bool) -> float:
    algorithm = fedmedian(6, QUICK) if robust else fedavg(6, QUICK)
    played = play(world_of(algorithm, (30,) * 5, faults=Faults(hostile=share)))
    tally = played.scores.sites["server", "global"]
    assert tally is not None
    return tally.figures()["accuracy"]


def test_training_survives_hostile_clients_that_break_fedavg(build: Build) -> None:
    assert accuracy(build, 0.0, robust=False) > 0.7
    assert accuracy(build, 0.0, robust=True) > 0.7
    assert accuracy(build, 0.4, robust=True) > 0.7
    assert accuracy(build, 0.2, robust=False) < 0.55
    assert accuracy(build, 0.6, robust=True) < 0.55


def test_buffers_take_the_median_and_counters_the_maximum() -> None:
    world = toy.world(fedmedian(3, Fit(lr=0.1, batch=8)), participation=1.0)
    params = play(world).steps[-1].states["server"].params
    assert bool((params["body.2.running_var"] > 0).all())
    counter = params["body.2.num_batches_tracked"]
    assert counter.dtype == torch.int64
    assert int(counter) == 3 * 5  # the largest client's 40 rows in batches of 8, three times


def test_pooled_variances_are_refused(build: Build) -> None:
    with pytest.raises(BadInputError, match="bn_buffers"):
        play(build(fedmedian(1, QUICK, bn_buffers="pooled")))
