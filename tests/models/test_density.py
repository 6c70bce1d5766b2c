"""The other densities: a mixture of Gaussians, and the flow that needs an optional package."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.models.density import Density, gaussian_mixture, negative_log_prob
from potluck.models.flow import flow
from potluck.models.made import made

torch.set_num_threads(1)


def two_bumps(n: int) -> Tensor:
    draw = np.random.default_rng(0)
    side = draw.random(n) < 0.3
    return torch.from_numpy(
        np.where(side[:, None], [3.0, -1.0], [-2.0, 1.0]) + draw.normal(0, 0.5, (n, 2))
    ).float()


def test_the_log_density_agrees_with_scipy() -> None:
    with Key.root(0).ambient():
        model = gaussian_mixture((3,), components=4)
    with torch.no_grad():
        model.head.logits.copy_(torch.tensor([0.1, -0.4, 1.0, 0.0]))
        model.head.log_sigma.copy_(torch.linspace(-1, 1, 12).reshape(4, 3))
    x = np.random.default_rng(1).normal(size=(6, 3))
    shares = torch.softmax(model.head.logits, 0).detach().numpy()
    mean, sigma = model.head.mean.detach().numpy(), model.head.log_sigma.exp().detach().numpy()
    expected = np.log(norm.pdf(x[:, None], mean, sigma).prod(axis=2) @ shares)
    assert model.log_prob(torch.from_numpy(x)).detach().numpy() == pytest.approx(expected, abs=1e-5)


def test_a_mixture_learns_and_draws_what_it_learnt() -> None:
    rows = two_bumps(1000)
    with Key.root(1).ambient():
        model = gaussian_mixture((2,), components=2)
    descent = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(300):
        loss = negative_log_prob(model, rows, torch.zeros(len(rows))).mean()
        for leaf, slope in zip(
            model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            leaf.grad = slope
        descent.step()
    assert sorted(model.head.mean[:, 0].tolist()) == pytest.approx([-2, 3], abs=0.15)
    drawn = model.sample(5000, torch.Generator().manual_seed(0))
    assert (drawn[:, 0] > 0.5).float().mean().item() == pytest.approx(0.3, abs=0.04)
    assert drawn.std(dim=0).tolist() == pytest.approx(rows.std(dim=0).tolist(), abs=0.1)
    assert torch.equal(drawn, model.sample(5000, torch.Generator().manual_seed(0)))


def test_all_densities_offer_the_same() -> None:
    for model in (gaussian_mixture((1, 2, 2)), made((1, 2, 2))):
        assert isinstance(model, Density)
        x = torch.rand(5, 1, 2, 2)
        assert torch.equal(negative_log_prob(model, x, torch.zeros(5)), -model.log_prob(x))
        assert model.sample(7, torch.Generator().manual_seed(0)).shape == (7, 4)
        assert {name.split(".")[0] for name, _ in model.named_parameters()} <= {"body", "head"}


def test_nonsense_is_refused() -> None:
    with pytest.raises(BadInputError, match="at least one input"):
        gaussian_mixture((0,))
    with pytest.raises(BadInputError, match="a density is needed"):
        negative_log_prob(nn.Identity(), torch.zeros(1, 2), torch.zeros(1))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zuko", None)
    with pytest.raises(BadInputError, match='extra "flow"'):
        flow((4,))


class Shift(nn.Module):
    """A stand-in for the package's flow: independent normals with learnt means and a fixed spread."""

    spread: Tensor

    def __init__(self, features: int, transforms: int, hidden_features: tuple[int, ...]) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.full((features,), float(transforms)))
        self.register_buffer("spread", torch.full((features,), float(len(hidden_features))))

    def forward(self) -> torch.distributions.Distribution:
        return torch.distributions.MultivariateNormal(self.mean, torch.diag(self.spread.square()))


def test_a_flow_is_wrapped_without_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("zuko")
    monkeypatch.setattr(package, "flows", SimpleNamespace(MAF=Shift), raising=False)
    monkeypatch.setitem(sys.modules, "zuko", package)
    model = flow((1, 2, 2), transforms=5, hidden=(8, 8))
    assert isinstance(model, Density)
    assert list(model.state_dict()) == ["head.mean"]
    x = torch.zeros(3, 1, 2, 2)
    assert model.log_prob(x).tolist() == pytest.approx([4 * norm.logpdf(0, 5, 2)] * 3, abs=1e-5)
    before = torch.get_rng_state()
    drawn = model.sample(2000, torch.Generator().manual_seed(1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(drawn, model.sample(2000, torch.Generator().manual_seed(1)))
    assert drawn.mean(dim=0).tolist() == pytest.approx([5.0] * 4, abs=0.2)
