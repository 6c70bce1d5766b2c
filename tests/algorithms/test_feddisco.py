"""FedDisco: V-DI1, an oracle, the metrics, and awkward clients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.feddisco import LabelDiscrepancy, Metric, Normalise, disco_weights, feddisco
from potluck.combine import Weighed, combine
from potluck.errors import BadInputError
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.parts.census import Histograms
from potluck.roles import Told
from potluck.tree import same
from potluck.world import Faults

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle

FULL = Fit(lr=0.2, batch="all", epochs=2)
UNIFORM = torch.full((10,), 0.1, dtype=torch.float64)
EQUAL = [[100] * 10] + [[500 if c in (2 * k, 2 * k + 1) else 0 for c in range(10)] for k in range(5)]


def census(counts: list[list[int]]) -> Histograms:
    return Histograms(len(counts[0]), {k: torch.tensor(row) for k, row in enumerate(counts)})


def raw(weigh: LabelDiscrepancy, counts: list[list[int]]) -> list[float]:
    told = [Told(k, sum(row), {}) for k, row in enumerate(counts)]
    return list(weigh.raw(told, census(counts), range(len(counts))))


def weights(weigh: LabelDiscrepancy, counts: list[list[int]]) -> list[float]:
    answers = [
        Weighed(k, {"w": torch.ones(1)}, value, float(sum(row)))
        for k, (value, row) in enumerate(zip(raw(weigh, counts), counts, strict=True))
    ]
    return list(combine(answers, {}).weights.values())


def oracle_weights(counts: npt.NDArray[np.float64], a: float, b: float) -> npt.NDArray[np.float64]:
    """Return FedDisco's weights with the normalised divergence from uniform."""
    p = counts / counts.sum(axis=1, keepdims=True)
    d = np.sum(np.where(p > 0, p * np.log(np.maximum(p, 1e-300) * counts.shape[1]), 0), axis=1)
    d = d / d.sum() if d.sum() > 0 else d
    out = np.maximum(counts.sum(axis=1) / counts.sum() - a * d + b, 0)
    return np.asarray(out / out.sum())


def test_one_uniform_and_five_two_class_clients() -> None:
    weigh = LabelDiscrepancy()
    shares = torch.tensor(EQUAL).double() / 1000
    plain = LabelDiscrepancy(normalise="none").distances(shares, UNIFORM)
    np.testing.assert_allclose(plain, [0] + [math.log(5)] * 5, atol=1e-12)
    np.testing.assert_allclose(weigh.distances(shares, UNIFORM), [0] + [0.2] * 5, atol=1e-12)
    np.testing.assert_allclose(weights(weigh, EQUAL), [0.2424] + [0.1515] * 5, atol=5e-5)


def test_equal_distributions_leave_sizes_and_b() -> None:
    np.testing.assert_allclose(raw(LabelDiscrepancy(), [[30, 30], [10, 10]]), [0.85, 0.35], atol=1e-12)


def test_without_a_and_b_it_is_fedavg(build: Build) -> None:
    disco = play(build(feddisco(3, FULL, a=0.0, b=0.0), only={1: 2})).steps[-1].states["server"]
    plain = play(build(fedavg(3, FULL), only={1: 2})).steps[-1].states["server"]
    for name, leaf in plain.params.items():
        np.testing.assert_allclose(disco.params[name], leaf, atol=1e-6)


def test_three_rounds_agree_with_the_oracle(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    world = build(feddisco(3, FULL, a=0.6, b=0.2), (12, 7, 5), only={1: 2})
    tables = numbers.tables(world)
    counts = np.array([np.bincount(y, minlength=3) for _, y in tables], dtype=np.float64)
    now = numbers.start(world)
    for _ in range(3):
        states = [oracle.descend(now, x, y, lr=0.2, steps=2) for x, y in tables]
        now = oracle.mean(states, list(oracle_weights(counts, 0.6, 0.2)))
    for name, leaf in numbers.final(world).items():
        np.testing.assert_allclose(leaf, now[name], atol=1e-6)


histogram = some.lists(some.integers(0, 50), min_size=4, max_size=4).filter(any)


@given(some.lists(histogram, min_size=1, max_size=6), some.floats(0, 1), some.floats(0.01, 1))
def test_weights_are_the_oracles(counts: list[list[int]], a: float, b: float) -> None:
    expected = oracle_weights(np.array(counts, dtype=np.float64), a, b)
    np.testing.assert_allclose(weights(LabelDiscrepancy(a, b), counts), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("l1", [0.0, 1.0]),
        ("l2", [0.0, math.sqrt(0.5)]),
        ("cosine", [0.0, 1 - math.sqrt(0.5)]),
        ("only_iid", [0.01, math.inf]),
    ],
)
def test_the_other_metrics_are_not_normalised(metric: Metric, expected: list[float]) -> None:
    shares = torch.tensor([[0.5, 0.5], [1.0, 0.0]]).double()
    found = LabelDiscrepancy(metric=metric).distances(shares, torch.tensor([0.5, 0.5]).double())
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(("normalise", "total"), [("all", 1.0), ("kl", 1.5), ("none", 1.5)])
def test_normalising_is_a_choice(normalise: Normalise, total: float) -> None:
    shares = torch.tensor([[0.75, 0.25], [1.0, 0.0]]).double()
    weigh = LabelDiscrepancy(metric="l1", normalise=normalise)
    assert float(weigh.distances(shares, torch.tensor([0.5, 0.5]).double()).sum()) == pytest.approx(total)


def test_only_even_clients_count_under_only_iid() -> None:
    assert raw(LabelDiscrepancy(metric="only_iid"), [[10, 10], [20, 0]])[1] == 0.0
    assert all(math.isfinite(w) for w in raw(LabelDiscrepancy(0.0, metric="only_iid"), [[10, 10], [20, 0]]))


def test_a_target_takes_the_place_of_uniform() -> None:
    weigh = LabelDiscrepancy(target=(9.0, 1.0))
    alike, odd = raw(weigh, [[90, 10], [50, 50]])
    assert alike > odd


def test_rounding_is_no_discrepancy() -> None:
    assert raw(LabelDiscrepancy(), [[1, 1, 1], [3, 3, 3], [7, 7, 7]]) == pytest.approx(
        [1 / 11 + 0.1, 3 / 11 + 0.1, 7 / 11 + 0.1]
    )


def test_where_all_weights_are_zero_sizes_decide() -> None:
    assert weights(LabelDiscrepancy(a=50.0, b=0.0, normalise="none"), [[30, 0], [0, 10]]) == [0.75, 0.25]


def test_a_client_without_rows_weighs_nothing() -> None:
    assert raw(LabelDiscrepancy(), [[10, 10], [0, 0], [20, 0]])[1] == 0.0


def test_who_missed_the_census_counts_as_the_others() -> None:
    found = disco_weights([10, 10, 10], torch.tensor([0.2, math.nan, 0.6]).double(), 0.5, 0.1)
    np.testing.assert_allclose(found, [1 / 3, 1 / 3 - 0.1, 1 / 3 - 0.2], atol=1e-12)
    assert disco_weights([5, 5], torch.tensor([math.nan, math.nan]).double(), 0.5, 0.1) == [0.6, 0.6]


def test_a_lost_census_is_survived(build: Build) -> None:
    played = play(build(feddisco(4, FULL), (9,) * 8, faults=Faults(lost=0.5)))
    assert len(played.steps[1].states["server"].counts) < 8
    assert all(math.isfinite(tally.figures()["loss"]) for tally in played.scores.clients.values())


def test_the_census_asks_everybody_once(build: Build) -> None:
    world = build(feddisco(2, FULL), (9,) * 6, participation=0.5)
    played = play(world)
    steps = [step for step in played.steps if step.stage == "labels"]
    assert [step.round for step in steps] == [0, 1]
    counts = steps[-1].states["server"].counts
    for client, holder in enumerate(world.federation.holders):
        assert same(counts[client], holder.train.counts(3))
    up = [fact.value for fact in steps[-1].facts if fact.what == "bytes/up"]
    assert up == [6 * 3 * 8]


def test_a_target_of_another_width_is_refused(build: Build) -> None:
    with pytest.raises(BadInputError, match="4 classes"):
        play(build(feddisco(1, FULL, target=(0.25,) * 4)))
