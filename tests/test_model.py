"""Models: exact parameter counts of the papers' networks, and parameters as values."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.model import Model
from potluck.models import MODELS
from potluck.models.made import made
from potluck.models.network import Network
from potluck.table import Table

COUNTS: list[tuple[str, tuple[int, ...], int, dict[str, Any], int]] = [
    ("cnn_mcmahan", (1, 28, 28), 10, {}, 1_663_370),
    ("cnn_mcmahan", (1, 28, 28), 10, {"same": False}, 582_026),
    ("lenet", (3, 32, 32), 10, {}, 62_006),
    ("lenet", (1, 28, 28), 10, {}, 44_426),
    ("cnn_feddisk", (1, 32, 32), 2, {"channels": 32}, 39_442),
    ("cnn_feddisk", (1, 28, 28), 62, {"channels": 128}, 447_406),
    ("cnn_feddisk", (1, 28, 28), 10, {}, 11_178),
    ("mlp_fedstellar", (1, 28, 28), 10, {}, 235_146),
    ("cnn_fedstellar_mnist", (1, 28, 28), 10, {}, 6_497_162),
    ("cnn_fedstellar_cifar", (3, 32, 32), 10, {}, 553_514),
]


def normed() -> nn.Module:
    body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.LayerNorm(4))
    return Network(body, nn.Linear(4, 2))


@pytest.mark.parametrize(("name", "shape", "classes", "options", "count"), COUNTS)
def test_the_networks_of_the_papers_have_their_numbers_of_parameters(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any], count: int
) -> None:
    model = Model(partial(MODELS[name], shape, classes, **options), shape=shape, classes=classes)
    assert model.count() == count
    out = model(model.init(Key.root(0)), torch.zeros(2, *shape))
    assert out.shape == (2, classes)


@pytest.mark.parametrize(
    ("inputs", "hidden", "weights"), [(784, 30, 47_040), (1024, 50, 102_400), (784, 400, 627_200)]
)
def test_the_density_has_its_number_of_weights(inputs: int, hidden: int, weights: int) -> None:
    parameters = made((inputs,), hidden=(hidden,)).parameters()
    assert sum(leaf.numel() for leaf in parameters if leaf.ndim == 2) == weights


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_has_a_body_a_head_and_real_outputs_for_regression(name: str) -> None:
    shape = (3, 32, 32)
    module = MODELS[name](shape, None)
    assert isinstance(module.get_submodule("body"), nn.Module)
    assert isinstance(module.get_submodule("head"), nn.Module)
    assert module(torch.zeros(2, *shape)).shape == (2, 1)


@pytest.mark.parametrize(
    ("name", "shape"), [("lenet", (1, 8, 8)), ("cnn_mcmahan", (64,)), ("cnn_feddisk", (1, 10, 10))]
)
def test_rows_that_a_network_cannot_take_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInputError, match=name):
        MODELS[name](shape, 10)


def test_initial_weights_follow_from_the_key_alone() -> None:
    model, other = Model(normed), Model(normed)
    before = torch.get_rng_state()
    one = model.init(Key.root(0))
    _ = other.module
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[name], leaf) for name, leaf in other.init(Key.root(0)).items())
    assert not torch.equal(one["head.weight"], model.init(Key.root(1))["head.weight"])


def test_leaves_are_sorted_by_their_part() -> None:
    model = Model(normed)
    assert set(model.buffers) == {"body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"}
    assert model.norms == {*model.buffers, "body.1.weight", "body.1.bias", "body.3.weight", "body.3.bias"}
    assert set(model.slots) == {*model.learnable, *model.buffers}
    assert model.batch_norms


def test_parameters_are_values() -> None:
    model = Model(normed)
    params = model.init(Key.root(0))
    kept = {name: leaf.clone() for name, leaf in params.items()}
    x = torch.randn(5, 3, generator=Key.root(0).torch())
    table = Table(x, torch.tensor([0, 1, 0, 1, 1]))
    losses = model.rows(params, table)
    assert torch.allclose(losses, functional.cross_entropy(model(params, x), table.y, reduction="none"))
    with torch.no_grad():
        for slot in model.slots.values():
            slot.zero_()
    assert all(torch.equal(params[name], kept[name]) for name in kept)
    assert torch.equal(model.rows(params, table), losses)
    assert model.rows(params, table.take(slice(0, 0))).shape == (0,)
    model.load(params)
    copied = model.unload()
    model.slots["head.weight"].data.zero_()
    assert torch.equal(copied["head.weight"], kept["head.weight"])


@pytest.mark.parametrize("name", ["cnn_mcmahan", "cnn_feddisk", "cnn_fedstellar_cifar"])
def test_wide_filters_lie_channels_last_in_the_module_and_row_major_as_values(name: str) -> None:
    model = Model(lambda: MODELS[name]((1, 28, 28), 10))
    filters = [slot for slot in model.slots.values() if slot.ndim == 4]
    assert len(filters) > 1
    model.load(model.init(Key.root(0)))
    assert all(leaf.is_contiguous() for leaf in (model.init(Key.root(0)) | model.unload()).values())
    assert all(slot.stride(1) == 1 for slot in filters)


def test_parameters_of_another_model_are_refused() -> None:
    model = Model(normed)
    params = model.init(Key.root(0))
    params["stranger"] = params.pop("head.bias")
    with pytest.raises(ValueError, match=r"head\.bias, stranger"):
        model.load(params)


def test_the_loss_of_real_targets_is_the_squared_error() -> None:
    model = Model(lambda: Network(nn.Identity(), nn.Linear(2, 1)))
    params = {"head.weight": torch.tensor([[1.0, 2.0]]), "head.bias": torch.tensor([1.0])}
    table = Table(torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.tensor([1.0, 3.0]))
    assert model.rows(params, table).tolist() == [9.0, 4.0]
