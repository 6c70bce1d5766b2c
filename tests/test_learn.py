"""The training loop against a transparent re-implementation in numpy, on a linear model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from potluck.key import Key
from potluck.learn import Fit, Plan, evaluate, gradient
from potluck.model import Model
from potluck.models.network import Network
from potluck.table import Table
from potluck.tree import Params

Array = npt.NDArray[np.float64]
KEY = Key.root(3) / "visit"
START: Params = {"head.weight": torch.tensor([[0.5, -1.0]]), "head.bias": torch.tensor([0.25])}


def linear(rows: int = 7) -> tuple[Model, Table]:
    """Return y = w x + b with squared error, and rows to fit."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, 2)).astype(np.float32)
    y = (x @ np.array([2.0, 3.0]) - 1 + 0.1 * draw.normal(size=rows)).astype(np.float32)
    model = Model(lambda: Network(nn.Identity(), nn.Linear(2, 1)), shape=(2,))
    return model, Table(torch.from_numpy(x), torch.from_numpy(y))


def normed() -> Model:
    """Return a model with batch norm."""
    return Model(lambda: Network(nn.BatchNorm1d(2), nn.Linear(2, 2)), shape=(2,), classes=2)


@dataclass
class Oracle:
    """Descent on mean((w x + b - y)^2 * weight), in numpy."""

    lr: float = 0.1
    momentum: float = 0.0
    decay: float = 0.0
    clip: float = 0.0
    proximal: float = 0.0
    shift: tuple[float, ...] = (0.0, 0.0, 0.0)
    adam: bool = False
    state: dict[str, Any] = field(default_factory=dict)

    def gradient(self, w: Array, x: Array, y: Array, weights: Array, start: Array) -> Array:
        one = np.column_stack([x, np.ones(len(x))])
        grad: Any = 2 * one.T @ ((one @ w - y) * weights) / len(x)
        if self.clip:
            grad = grad * min(1.0, self.clip / (float(np.linalg.norm(grad)) + 1e-6))
        total: Array = grad + self.decay * w + self.proximal * (w - start) + np.array(self.shift)
        return total

    def fit(self, batches: list[Array], x: Array, y: Array, weights: Array | None = None) -> Array:
        w = start = np.array([0.5, -1.0, 0.25])
        velocity = first = second = np.zeros(3)
        for step, rows in enumerate(batches, start=1):
            chosen = np.ones(len(rows)) if weights is None else weights[rows]
            grad = self.gradient(w, x[rows], y[rows], chosen, start)
            if self.adam:
                first, second = 0.9 * first + 0.1 * grad, 0.999 * second + 0.001 * grad**2
                hats = first / (1 - 0.9**step), second / (1 - 0.999**step)
                w = w - self.lr * hats[0] / (np.sqrt(hats[1]) + 1e-8)
                continue
            velocity = self.momentum * velocity + grad
            w = w - self.lr * velocity
        return w


def dealt(rows: int, size: int, steps: int) -> list[Array]:
    """Return the documented batches: seeded permutations, cut into parts."""
    generator = (KEY / "batches").torch()
    out: list[Array] = []
    while len(out) < steps:
        order = torch.randperm(rows, generator=generator).numpy()
        out += [order[i : i + size] for i in range(0, rows, size)]
    return out[:steps]


def flat(params: Params) -> Array:
    return np.append(params["head.weight"].numpy().ravel(), params["head.bias"].numpy()).astype(np.float64)


def as_params(values: tuple[float, ...]) -> Params:
    return {"head.weight": torch.tensor([values[:2]]), "head.bias": torch.tensor(values[2:])}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Oracle]] = {
    "plain": ({}, {}, Oracle()),
    "momentum": ({"momentum": 0.9}, {}, Oracle(momentum=0.9)),
    "weight decay": ({"weight_decay": 0.3}, {}, Oracle(decay=0.3)),
    "clip": ({"clip": 0.5}, {}, Oracle(clip=0.5)),
    "clip before decay": ({"clip": 0.5, "weight_decay": 0.3}, {}, Oracle(clip=0.5, decay=0.3)),
    "proximal": ({}, {"proximal": 0.7}, Oracle(proximal=0.7)),
    "shift": ({}, {"shift": as_params((0.3, -0.2, 0.1))}, Oracle(shift=(0.3, -0.2, 0.1))),
    "all": (
        {"momentum": 0.5, "weight_decay": 0.1, "clip": 1.0},
        {"proximal": 0.2, "shift": as_params((0.1, 0.0, -0.1))},
        Oracle(momentum=0.5, decay=0.1, clip=1.0, proximal=0.2, shift=(0.1, 0.0, -0.1)),
    ),
    "adam": ({"optimizer": "adam"}, {}, Oracle(adam=True)),
    "adam, decay": ({"optimizer": "adam", "weight_decay": 0.3}, {}, Oracle(adam=True, decay=0.3)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("batch", "size"), [(3, 3), ("all", 7), (50, 7), (1, 1)])
def test_descent_agrees_with_numpy(case: str, batch: Any, size: int) -> None:
    settings, plan, oracle = CASES[case]
    model, table = linear()
    fit = Fit(lr=0.1, batch=batch, epochs=2, **settings)
    trained = fit(model, START, table, KEY, plan=Plan(**plan))
    batches = dealt(7, size, 2 * -(-7 // size))
    expected = oracle.fit(batches, table.x.double().numpy(), table.y.double().numpy())
    assert trained.steps == len(batches)
    np.testing.assert_allclose(flat(trained.params), expected, rtol=2e-5, atol=2e-6)


def test_rows_are_weighed_within_the_batch_size() -> None:
    model, table = linear()
    weights = torch.tensor([0.0, 2.0, 0.5, 1.0, 0.0, 3.0, 1.0])
    trained = Fit(lr=0.1, batch=3, epochs=2)(model, START, table, KEY, plan=Plan(rows=weights))
    x, y = table.x.double().numpy(), table.y.double().numpy()
    expected = Oracle().fit(dealt(7, 3, 6), x, y, weights.double().numpy())
    np.testing.assert_allclose(flat(trained.params), expected, rtol=2e-5)


def test_adam_is_that_of_torch() -> None:
    model, table = linear()
    trained = Fit(optimizer="adam", lr=0.05, batch="all", epochs=5)(model, START, table, KEY)
    w = torch.tensor([0.5, -1.0, 0.25], requires_grad=True)
    adam = torch.optim.Adam([w], lr=0.05)
    for _ in range(5):
        (w.grad,) = torch.autograd.grad((table.x @ w[:2] + w[2] - table.y).square().mean(), [w])
        adam.step()
    np.testing.assert_allclose(flat(trained.params), w.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "effort", "steps"),
    [
        ({"epochs": 2}, 1.0, 6),
        ({"steps": 4}, 1.0, 4),
        ({"steps": 4, "epochs": 9}, 1.0, 4),
        ({"steps": 11}, 1.0, 11),
        ({"epochs": 2}, 0.5, 3),
        ({"epochs": 2}, 0.01, 1),
        ({"epochs": 0}, 0.5, 0),
        ({"steps": 0}, 1.0, 0),
    ],
)
def test_the_work_is_counted_in_steps(settings: dict[str, Any], effort: float, steps: int) -> None:
    model, table = linear()
    trained = Fit(lr=0.1, batch=3, **settings)(model, START, table, KEY, effort=effort)
    assert trained.steps == steps
    expected = Oracle().fit(dealt(7, 3, steps), table.x.double().numpy(), table.y.double().numpy())
    np.testing.assert_allclose(flat(trained.params), expected, rtol=2e-5)


def test_the_rate_decays_by_round_and_only_the_named_leaves_move() -> None:
    model, table = linear()
    fit = Fit(lr=0.1, decay=0.5, batch="all")
    assert fit(model, START, table, KEY, round=3).lr == pytest.approx(0.025)
    expected = Oracle(lr=0.025).fit(dealt(7, 7, 1), table.x.double().numpy(), table.y.double().numpy())
    np.testing.assert_allclose(flat(fit(model, START, table, KEY, round=3).params), expected, rtol=1e-5)
    only = fit(model, START, table, KEY, plan=Plan(learn=["head.bias"])).params
    assert torch.equal(only["head.weight"], START["head.weight"])
    assert not torch.equal(only["head.bias"], START["head.bias"])


def test_the_loss_is_the_mean_over_the_batches() -> None:
    model, table = linear()
    trained = Fit(lr=1e-9, batch=7)(model, START, table, KEY)
    assert trained.loss == pytest.approx(float(model.rows(START, table).mean()), rel=1e-5)
    doubled = Fit(lr=1e-9)(model, START, table, KEY, plan=Plan(loss=lambda m, x, y: 2 * model.loss(m, x, y)))
    assert doubled.loss == pytest.approx(2 * trained.loss, rel=1e-5)


@pytest.mark.parametrize("rows", [0, 1])
def test_nobody_and_somebody_alone(rows: int) -> None:
    model, table = linear()
    trained = Fit(lr=0.1)(model, START, table.take(slice(0, rows)), KEY)
    assert trained.steps == rows
    same = torch.equal(trained.params["head.weight"], START["head.weight"])
    assert same == (rows == 0)
    assert trained.params["head.weight"] is not START["head.weight"]


def test_training_writes_into_nothing_it_was_given() -> None:
    model, table = linear()
    kept = {name: leaf.clone() for name, leaf in START.items()}
    rows = table.x.clone()
    Fit(lr=0.1, momentum=0.9)(model, START, table, KEY, plan=Plan(proximal=1.0, shift=START))
    assert all(torch.equal(START[name], kept[name]) for name in kept)
    assert torch.equal(table.x, rows)


@given(n=st.integers(2, 40), batch=st.integers(1, 12), epochs=st.integers(1, 2))
def test_batch_norm_never_sees_a_lone_row(n: int, batch: int, epochs: int) -> None:
    """A last batch of one row is left out; with batches of one, batch norm stays in evaluation mode."""
    seen: list[int] = []
    training: set[bool] = set()
    model = normed()

    def loss(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        seen.append(len(x))
        training.add(module.training)
        return model.loss(module, x, y)

    table = Table(torch.randn(n, 2, generator=KEY.torch()), torch.arange(n) % 2)
    Fit(batch=batch, epochs=epochs)(model, model.init(KEY), table, KEY, plan=Plan(loss=loss))
    size = min(batch, n)
    sizes = [size] * (n // size) + ([n % size] if n % size else [])
    if size > 1 and sizes[-1] == 1:
        sizes.pop()
    assert seen == sizes * epochs
    assert training == {size > 1}


def test_a_client_with_one_row_trains_with_frozen_statistics() -> None:
    model = normed()
    params = model.init(KEY)
    trained = Fit(lr=0.5)(model, params, Table(torch.ones(1, 2), torch.tensor([1])), KEY)
    assert trained.steps == 1
    assert torch.equal(trained.params["body.running_mean"], params["body.running_mean"])
    assert not torch.equal(trained.params["head.weight"], params["head.weight"])


@pytest.mark.parametrize("rows", [1, 7, 501, 1203])
def test_the_full_gradient_is_that_of_the_mean_loss(rows: int) -> None:
    model, table = linear(rows)
    x, y = table.x.double().numpy(), table.y.double().numpy()
    start = np.array([0.5, -1.0, 0.25])
    expected = Oracle().gradient(start, x, y, np.ones(rows), start)
    np.testing.assert_allclose(flat(gradient(model, START, table)), expected, rtol=1e-4)


@pytest.mark.parametrize("rows", [0, 1, 499, 500, 501])
def test_evaluation_in_parts_is_evaluation_of_the_whole(rows: int) -> None:
    draw = np.random.default_rng(rows)
    x = torch.from_numpy(draw.normal(size=(rows, 3)).astype(np.float32))
    y = torch.from_numpy(draw.integers(3, size=rows))
    tally = evaluate(lambda x: x, Table(x, y), classes=3)
    assert tally.rows == rows
    assert tally.confusion is not None
    assert int(tally.confusion.sum()) == rows
    assert int(tally.confusion.diagonal().sum()) == int((x.argmax(1) == y).sum())
    if rows:
        expected = nn.functional.cross_entropy(x.double(), y).item()
        assert tally.figures()["loss"] == pytest.approx(expected, rel=1e-6)
    real = evaluate(lambda x: x[:, :1], Table(x, x[:, 0] + 2), classes=0)
    assert real.confusion is None
    assert real.figures().get("loss", 4.0) == pytest.approx(4.0, rel=1e-5)
