"""FedLoss: V-FL1 to V-FL5, V-FL7, an oracle, every option, and clients too small to validate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from torch import Tensor

from potluck.algorithms.fedloss import LossOf, ValidationLoss, WeightRule, fedloss
from potluck.combine import Weighed, combine
from potluck.config import experiment
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.metrics import total
from potluck.roles import Told

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle

LITERAL = ValidationLoss()
FULL = Fit(lr=0.2, batch="all", epochs=3)


def weights(
    losses: list[float],
    rows: list[int] | None = None,
    val: list[int] | None = None,
    weigh: ValidationLoss = LITERAL,
) -> list[float]:
    """Return the normalised weights under the contract."""
    rows = rows or [10] * len(losses)
    val = [4] * len(losses) if val is None else val
    told = [Told(k, n, {"loss": losses[k], "val_rows": float(val[k])}) for k, n in enumerate(rows)]
    raws = weigh.raw(told, None, range(len(told)))
    answers = [Weighed(k, {"w": torch.ones(1)}, raw, float(rows[k])) for k, raw in enumerate(raws)]
    found = combine(answers, {}).weights
    return [found.get(k, math.nan) for k in range(len(losses))]


def test_weights_are_losses() -> None:
    assert weights([1.0, 3.0]) == [0.25, 0.75]


def test_equal_losses_give_an_unweighted_mean() -> None:
    assert weights([0.7, 0.7], rows=[10, 1000]) == [0.5, 0.5]


@given(
    some.lists(some.floats(0.01, 100), min_size=1, max_size=6),
    some.floats(0.01, 100),
    some.sampled_from(["loss", "loss_x_size", "loss_clipped", "loss_shrunk"]),
)
def test_scaling_all_losses_changes_nothing(losses: list[float], factor: float, rule: WeightRule) -> None:
    weigh = ValidationLoss(weight_rule=rule, clip=1.5)
    np.testing.assert_allclose(
        weights([factor * loss for loss in losses], weigh=weigh), weights(losses, weigh=weigh), rtol=1e-9
    )


@pytest.mark.parametrize("rule", ["loss", "loss_x_size", "loss_clipped", "loss_shrunk"])
def test_a_diverged_client_is_dropped(rule: WeightRule) -> None:
    found = weights([1.0, math.nan, 3.0, math.inf], weigh=ValidationLoss(weight_rule=rule))
    assert math.isnan(found[1])
    assert math.isnan(found[3])
    assert found[0] + found[2] == pytest.approx(1.0)


def test_losses_that_are_all_zero_leave_it_to_the_sizes() -> None:
    assert weights([0.0, 0.0], rows=[10, 30]) == [0.25, 0.75]


def test_sizes_may_be_multiplied_in() -> None:
    assert weights([1.0, 3.0], rows=[30, 10], weigh=ValidationLoss("loss_x_size")) == [0.5, 0.5]


def test_outliers_may_be_clipped() -> None:
    found = weights([1.0, 1.0, 1000.0], weigh=ValidationLoss("loss_clipped", clip=5.0))
    np.testing.assert_allclose(found, [1 / 7, 1 / 7, 5 / 7])


def test_losses_on_few_rows_may_be_shrunk_to_the_mean() -> None:
    losses, val = [1.0, 4.0, 9.0], [100, 50, 2]
    mean = np.average(losses, weights=val)
    expected = (np.array(val) * losses + 32 * mean) / (np.array(val) + 32)
    found = weights(losses, val=val, weigh=ValidationLoss("loss_shrunk"))
    np.testing.assert_allclose(found, expected / expected.sum())
    assert found[2] < weights(losses, val=val)[2]


def test_without_validation_rows_a_client_counts_as_the_others() -> None:
    np.testing.assert_allclose(weights([1.0, 3.0, 0.0], val=[4, 4, 0]), [1 / 6, 3 / 6, 2 / 6])


def test_a_client_with_one_row_counts_by_its_size() -> None:
    found = weights([1.0, 3.0, 0.0], rows=[10, 9, 1], val=[4, 4, 0])
    np.testing.assert_allclose(found, [0.95 * 0.25, 0.95 * 0.75, 0.05])


def test_clients_without_rows_weigh_nothing_and_are_not_asked() -> None:
    assert weights([1.0, 50.0, 0.0], rows=[10, 0, 10], val=[4, 4, 0]) == [0.5, 0.0, 0.5]


def test_where_nobody_can_validate_it_is_fedavg() -> None:
    assert weights([0.0, 0.0], rows=[30, 10], val=[0, 0]) == [0.75, 0.25]
    assert weights([0.0], rows=[1], val=[0]) == [1.0]


@pytest.mark.parametrize("loss_of", ["local_model", "global_model_before"])
def test_two_rounds_agree_with_the_oracle(
    loss_of: LossOf, build: Build, numbers: Numbers, oracle: Oracle
) -> None:
    world = build(fedloss(2, FULL, loss_of=loss_of))
    now = numbers.start(world)
    for _ in range(2):
        states = [oracle.descend(now, x, y, lr=0.2, steps=3) for x, y in numbers.tables(world)]
        judged = states if loss_of == "local_model" else [now] * 3
        checks = zip(judged, numbers.tables(world, "val"), strict=True)
        now = oracle.mean(states, [float(oracle.loss(state, x, y).mean()) for state, (x, y) in checks])
    for name, leaf in numbers.final(world).items():
        np.testing.assert_allclose(leaf, now[name], atol=1e-6)


def test_the_mean_may_be_taken_over_batches(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    algorithm = fedloss(1, FULL, loss_of="global_model_before", val_batch_weighting="batch", val_batch=3)
    world = build(algorithm, val=7)
    told = numbers.told(play(world), "told/loss")
    for k, (x, y) in enumerate(numbers.tables(world, "val")):
        losses = oracle.loss(numbers.start(world), x, y)
        expected = np.mean([losses[:3].mean(), losses[3:6].mean(), losses[6:].mean()])
        assert told[k] == pytest.approx(float(expected), rel=1e-5)
        assert expected != pytest.approx(float(losses.mean()), rel=1e-4)


class Watched:
    """A model that notes down which rows it is trained on and which it is judged on."""

    def __init__(self) -> None:
        self.trained: list[Tensor] = []
        self.judged: list[Tensor] = []

    def __call__(self, module: torch.nn.Module, x: Tensor, y: Tensor) -> Tensor:
        (self.trained if torch.is_grad_enabled() else self.judged).append(x.clone())
        return torch.nn.functional.cross_entropy(module(x), y, reduction="none")


def test_validation_rows_are_never_trained_on(build: Build) -> None:
    world = build(fedloss(3, Fit(lr=0.1, batch=4, epochs=2)))
    watched = Watched()
    play(replace(world, model=replace(world.model, loss=watched)))

    def rows(tensors: list[Tensor]) -> set[bytes]:
        return {row.numpy().tobytes() for row in torch.cat(tensors)}

    assert rows(watched.trained) == rows([holder.train.x for holder in world.federation.holders])
    assert rows(watched.judged) == rows([holder.val.x for holder in world.federation.holders])
    assert not rows(watched.trained) & rows(watched.judged)


def test_a_client_that_diverges_is_dropped_with_a_reason(build: Build, numbers: Numbers) -> None:
    world = build(fedloss(1, FULL))
    holders = list(world.federation.holders)
    spoilt = holders[1].val.x.clone()
    spoilt[0] = math.inf
    holders[1] = replace(holders[1], val=replace(holders[1].val, x=spoilt))
    played = play(replace(world, federation=replace(world.federation, holders=holders)))
    assert set(numbers.told(played, "weight")) == {0, 2}
    assert ("client/1", "nonfinite_weight") in numbers.reasons(played)


def test_a_single_class_client_is_nearly_ignored(build: Build, numbers: Numbers) -> None:
    played = play(build(fedloss(3, Fit(lr=0.5, batch=4, epochs=10)), (30, 30, 30), val=12, only={2: 1}))
    assert numbers.told(played, "weight", 3)[2] < 0.05


def test_weighted_accuracy_is_that_of_the_union(build: Build) -> None:
    scores = play(build(fedloss(2, FULL))).scores
    union = total(scores.clients.values()).figures()["accuracy"]
    rows = {k: tally.rows for k, tally in scores.clients.items()}
    mean = sum(rows[k] * tally.figures()["accuracy"] for k, tally in scores.clients.items()) / sum(
        rows.values()
    )
    assert mean == pytest.approx(union, abs=1e-12)


def test_tiny_clients_of_a_real_split_are_handled() -> None:
    table = {
        "name": "tiny",
        "data": {"name": "digits"},
        "partition": {"name": "quantity", "beta": 0.1, "clients": 12, "min_size": 1},
        "model": {"name": "softmax"},
        "algorithm": {"name": "fedloss", "rounds": 2, "fit": {"lr": 0.1}},
    }
    world = experiment(table).world(0)
    sizes = [len(holder.train) for holder in world.federation.holders]
    assert min(sizes) < 10
    played = play(world)
    weights = [
        f.value for f in played.facts if f.what == "weight" and f.round == 2 and isinstance(f.value, float)
    ]
    assert sum(weights) == pytest.approx(1.0, abs=1e-12)
    assert all(weight > 0 for weight in weights)


@pytest.mark.slow
def test_under_quantity_skew_fedloss_varies_more_than_fedavg() -> None:
    def spread(name: str) -> float:
        table = {
            "name": "spread",
            "data": {"name": "digits"},
            "participation": 0.2,
            "partition": {"name": "quantity", "beta": 0.5, "clients": 30},
            "model": {"name": "softmax"},
            "algorithm": {"name": name, "rounds": 10, "fit": {"lr": 0.5, "batch": 16, "epochs": 5}},
        }
        figures = []
        for seed in range(8):
            tally = play(experiment(table).world(seed)).scores.sites["server", "global"]
            assert tally is not None
            figures.append(tally.figures()["accuracy"])
        return float(np.std(figures))

    assert spread("fedloss") > spread("fedavg")
