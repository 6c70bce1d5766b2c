"""MADE: autoregressive, normalised, averageable, and sampled from the distribution that it states."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from pydantic import ValidationError, validate_call
from torch import Tensor
from torch.nn import functional

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.models.made import MADE, MaskedLinear, made

torch.set_num_threads(1)


def everything(inputs: int) -> Tensor:
    """List all binary rows."""
    return torch.tensor(
        np.stack(np.unravel_index(np.arange(2**inputs), [2] * inputs), axis=1), dtype=torch.float32
    )


def built(
    inputs: int, hidden: tuple[int, ...] = (16,), *, order: str = "random", mask_seed: int = 3, init: int = 0
) -> MADE:
    with Key.root(init).ambient():
        return made(
            (inputs,),
            hidden=hidden,
            order="natural" if order == "natural" else "random",
            mask_seed=mask_seed,
        )


def trained(model: MADE, rows: Tensor, steps: int = 60) -> MADE:
    descent = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        loss = -model.log_prob(rows).mean()
        grads = torch.autograd.grad(loss, list(model.parameters()))
        for leaf, slope in zip(model.parameters(), grads, strict=True):
            leaf.grad = slope
        descent.step()
    return model


def rows_of(inputs: int, n: int = 400, seed: int = 0) -> Tensor:
    """Draw correlated binary rows: each input copies the one before it most of the time."""
    draw = np.random.default_rng(seed)
    out = np.zeros((n, inputs))
    out[:, 0] = draw.random(n) < 0.7
    for d in range(1, inputs):
        copied = draw.random(n) < 0.8
        out[:, d] = np.where(copied, out[:, d - 1], draw.random(n) < 0.3)
    return torch.from_numpy(out).float()


def jacobian(model: MADE, x: Tensor) -> Tensor:
    """Return d logit_d / d x_e, outputs down, inputs across."""
    x = x.clone().requires_grad_()
    logits = model(x[None])[0]
    return torch.stack([torch.autograd.grad(logit, x, retain_graph=True)[0] for logit in logits])


def assert_autoregressive(model: MADE, inputs: int) -> None:
    x = torch.rand(inputs, generator=torch.Generator().manual_seed(1))
    slopes = jacobian(model, x)
    place = model.degrees[0]
    assert (slopes.numpy()[place[None, :] >= place[:, None]] == 0).all()


@pytest.mark.parametrize("order", ["natural", "random"])
@pytest.mark.parametrize("hidden", [(5,), (40,), (6, 9), (30, 30, 4)])
def test_no_output_looks_at_itself_or_ahead(order: str, hidden: tuple[int, ...]) -> None:
    for mask_seed in range(5):
        model = built(12, hidden, order=order, mask_seed=mask_seed)
        assert_autoregressive(model, 12)
        reach = torch.eye(12)
        for layer in [*model.body, model.head]:
            if isinstance(layer, MaskedLinear):
                reach = layer.mask @ reach
        heard = reach.sum(dim=0) > 0
        assert heard.tolist() == [place < 12 for place in model.degrees[0]]


def test_with_positive_weights_every_input_but_the_last_moves_some_output() -> None:
    for mask_seed in range(5):
        model = built(9, (4,), mask_seed=mask_seed)
        for leaf in model.parameters():
            torch.nn.init.constant_(leaf, 0.1)
        slopes = jacobian(model, torch.full((9,), 0.5))
        assert ((slopes != 0).any(dim=0)).tolist() == [place < 9 for place in model.degrees[0]]


@pytest.mark.parametrize("inputs", [1, 2, 3, 8, 12])
@pytest.mark.parametrize("hidden", [(7,), (5, 20)])
def test_probabilities_sum_to_one_before_and_after_training(inputs: int, hidden: tuple[int, ...]) -> None:
    model = built(inputs, hidden)
    rows = everything(inputs)
    assert model.log_prob(rows).exp().sum().item() == pytest.approx(1, abs=1e-5)
    before = model.log_prob(rows_of(inputs)).mean().item()
    trained(model, rows_of(inputs))
    assert model.log_prob(rows_of(inputs)).mean().item() > before
    assert model.log_prob(rows).exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_the_average_of_two_trained_models_is_still_a_density() -> None:
    one = trained(built(8, (10,), init=1), rows_of(8, seed=1))
    two = trained(built(8, (10,), init=1), 1 - rows_of(8, seed=2))
    mean = built(8, (10,), init=5)
    other = two.state_dict()
    mean.load_state_dict({name: (value + other[name]) / 2 for name, value in one.state_dict().items()})
    assert one.mask_digest() == two.mask_digest() == mean.mask_digest()
    assert_autoregressive(mean, 8)
    assert mean.log_prob(everything(8)).exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_a_noisy_message_cannot_break_the_masks() -> None:
    model = built(6, (9,))
    dice = torch.Generator().manual_seed(0)
    sent = model.state_dict()
    model.load_state_dict({name: sent[name] + torch.randn(sent[name].shape, generator=dice) for name in sent})
    assert_autoregressive(model, 6)
    assert model.log_prob(everything(6)).exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_masks_follow_from_the_seed_and_stay_out_of_the_message() -> None:
    one, same, other = built(20, init=1), built(20, init=2), built(20, mask_seed=4, init=1)
    assert sorted(one.state_dict()) == ["body.1.bias", "body.1.weight", "head.bias", "head.weight"]
    assert one.mask_digest() == same.mask_digest() != other.mask_digest()
    assert not torch.equal(one.head.weight, same.head.weight)
    assert one.mask_digest() != built(20, order="natural", init=1).mask_digest()
    masks = [layer.mask for layer in [*one.body, one.head] if isinstance(layer, MaskedLinear)]
    again = copy.deepcopy(one)
    assert all(
        torch.equal(mask, layer.mask)
        for mask, layer in zip(
            masks, [part for part in again.modules() if isinstance(part, MaskedLinear)], strict=True
        )
    )


def test_building_does_not_disturb_other_streams() -> None:
    after = []
    for mask_seed in (1, 2):
        with Key.root(9).ambient():
            made((30,), mask_seed=mask_seed)
            after.append(torch.rand(3))
    assert torch.equal(*after)


@pytest.mark.parametrize(("inputs", "hidden"), [(6, 3), (10, 400)])
def test_degrees_keep_to_the_rule(inputs: int, hidden: int) -> None:
    model = made((inputs,), hidden=(hidden, hidden), order="natural", mask_seed=5)
    places, first, second = model.degrees
    assert places.tolist() == list(range(1, inputs + 1))
    assert first.min() >= 1
    assert first.max() == second.max() == inputs - 1
    assert second.min() >= first.min()
    if hidden == 400:
        counts = np.bincount(first)[1:]
        assert len(counts) == inputs - 1
        assert counts.min() > 400 / (inputs - 1) / 2


@pytest.mark.parametrize(
    ("inputs", "hidden", "weights"), [(784, 30, 47_040), (1024, 50, 102_400), (784, 400, 627_200)]
)
def test_parameter_counts(inputs: int, hidden: int, weights: int) -> None:
    model = made((inputs,), hidden=(hidden,))
    assert sum(leaf.numel() for leaf in model.parameters()) == weights + hidden + inputs


def test_log_prob_is_the_bernoulli_one_also_for_grey_images() -> None:
    model = made((1, 4, 3), hidden=(8,))
    x = torch.rand(5, 1, 4, 3, generator=torch.Generator().manual_seed(0))
    means = model.conditionals(x).double()
    flat = x.flatten(1).double()
    expected = (flat * means.log() + (1 - flat) * (1 - means).log()).sum(dim=1)
    assert model.log_prob(x).detach().numpy() == pytest.approx(expected.detach().numpy(), abs=1e-5)
    assert (model.conditionals(x) > 0).all()
    assert model(x).shape == (5, 12)
    extreme = trained(made((3,), hidden=(4,)), torch.ones(20, 3), steps=400)
    assert torch.isfinite(extreme.log_prob(torch.zeros(2, 3))).all()


@pytest.mark.parametrize("hidden", [(12,), (10, 7)])
def test_samples_follow_the_stated_probabilities(hidden: tuple[int, ...]) -> None:
    model = trained(built(4, hidden), rows_of(4), steps=150)
    rows = model.sample(40_000, torch.Generator().manual_seed(0))
    found = torch.bincount((rows @ torch.tensor([8.0, 4.0, 2.0, 1.0])).long(), minlength=16) / 40_000
    stated = model.log_prob(everything(4)).exp().detach()
    assert (found - stated).abs().max() < 0.01
    assert torch.equal(rows, model.sample(40_000, torch.Generator().manual_seed(0)))
    assert not rows.requires_grad


def test_the_quick_sampler_agrees_with_whole_passes() -> None:
    model = built(10, (6, 8))
    quick = model.sample(50, torch.Generator().manual_seed(4))
    coins = torch.rand(50, 10, generator=torch.Generator().manual_seed(4))
    slow = torch.zeros(50, 10)
    for d in np.argsort(model.degrees[0]).tolist():
        slow[:, d] = (coins[:, d] < model.conditionals(slow)[:, d]).float()
    assert torch.equal(quick, slow)


def test_it_learns_dependence_that_independent_inputs_cannot_have() -> None:
    rows = rows_of(6, n=2000)
    model = trained(built(6, (20,)), rows, steps=300)
    means = rows.mean(dim=0).expand_as(rows)
    independent = -functional.binary_cross_entropy(means, rows, reduction="none").sum(dim=1).mean()
    assert model.log_prob(rows).mean() > independent + 0.5


def test_grey_inputs_are_cut_only_on_demand() -> None:
    with Key.root(0).ambient():
        grey, cut = made((6,), hidden=(9,)), made((6,), hidden=(9,), binarize=True)
    cut.load_state_dict(grey.state_dict())
    x = torch.rand(8, 6, generator=torch.Generator().manual_seed(1))
    assert torch.equal(cut.log_prob(x), grey.log_prob((x > 0.5).float()))
    assert not torch.equal(cut.log_prob(x), grey.log_prob(x))
    assert len(grey.log_prob(x[:0])) == 0


def test_standardised_inputs_are_refused() -> None:
    for bad in (-0.1, 1.1):
        with pytest.raises(BadInputError, match="must lie in"):
            made((2,)).log_prob(torch.tensor([[0.5, bad]]))


def test_nonsense_is_refused() -> None:
    with pytest.raises(BadInputError, match="at least one input"):
        made((0,))
    with pytest.raises(BadInputError, match="one hidden layer"):
        made((4,), hidden=())
    with pytest.raises(ValidationError):
        validate_call(made)((4,), hidden=(0,))
