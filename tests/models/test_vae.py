"""beta-VAEs: counts, shapes, the divergence against sampling, and learning."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from sklearn.datasets import load_digits
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.models.vae import VAE, Code, collapsed, conv_vae, divergence, vae, vae_loss

torch.set_num_threads(1)


def epoch(model: VAE, rows: Tensor, batch: int, seed: int) -> None:
    """Train for one epoch with Adam 1e-3."""
    descent = torch.optim.Adam(model.parameters(), lr=1e-3)
    for part in torch.split(torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed)), batch):
        loss = vae_loss(model, rows[part], torch.zeros(len(part))).mean()
        grads = torch.autograd.grad(loss, list(model.parameters()))
        for leaf, slope in zip(model.parameters(), grads, strict=True):
            leaf.grad = slope
        descent.step()


def reconstruction(model: VAE, rows: Tensor) -> float:
    with torch.no_grad():
        return float(model.losses(rows, torch.Generator().manual_seed(0)).reconstruction.mean())


def digits() -> Tensor:
    return torch.from_numpy(load_digits().images / 16).float()[:, None]


def test_parameter_counts() -> None:
    model = vae((1, 28, 28))
    assert sum(leaf.numel() for leaf in model.parameters()) == 1_068_820
    encoder = [*model.body.parameters(), *model.head.mean.parameters(), *model.head.log_sigma.parameters()]
    assert sum(leaf.numel() for leaf in encoder) == 534_276


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8), (2, 7, 5), (1, 1, 1)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = torch.rand(3, *shape)
    for model in (
        vae(shape, hidden=(20, 10), latent=4),
        conv_vae(shape, channels=(4, 6), hidden=9, latent=4),
    ):
        code = model.encode(x)
        assert code.mean.shape == code.log_sigma.shape == (3, 4)
        assert model(x).shape == x.shape
        assert model.decode(torch.zeros(2, 4)).shape == (2, *shape)
        assert ((model(x) > 0) & (model(x) < 1)).all()
        losses = model.losses(x)
        assert losses.reconstruction.shape == (3,)
        assert losses.kl.shape == (3, 4)
        assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"body", "head"}
    assert vae((5,), hidden=(6,))(torch.rand(2, 5)).shape == (2, 5)


@given(some.lists(some.tuples(some.floats(-3, 3), some.floats(-3, 2)), min_size=1, max_size=6))
@settings(deadline=None, max_examples=80)
def test_the_divergence_is_the_one_of_normals(pairs: list[tuple[float, float]]) -> None:
    code = Code(*torch.tensor(pairs, dtype=torch.float64).T[:, None])
    expected = kl_divergence(Normal(code.mean, code.log_sigma.exp()), Normal(0.0, 1.0))
    assert divergence(code).numpy() == pytest.approx(expected.numpy(), abs=1e-9)
    assert (divergence(code) >= -1e-12).all()


def test_the_divergence_agrees_with_sampling() -> None:
    with Key.root(0).ambient():
        model = vae((1, 8, 8), hidden=(40, 20), latent=3, beta=0.1)
        for seed in range(4):
            epoch(model, digits(), 32, seed)
    with torch.no_grad():
        code = Code(*(part.double() for part in model.encode(digits()[:40])))
        generator = torch.Generator().manual_seed(1)
        found = 0.0
        for _ in range(2000):
            z = model.reparameterise(code, generator)
            inside = -code.log_sigma - 0.5 * ((z - code.mean) * (-code.log_sigma).exp()).square()
            found += float((inside + 0.5 * z.square()).sum(dim=1).mean()) / 2000
    assert found == pytest.approx(float(divergence(code).sum(dim=1).mean()), rel=0.01)


def test_the_loss_is_reconstruction_plus_beta_times_divergence() -> None:
    model = vae((4,), hidden=(6,), beta=7.0)
    x = torch.rand(5, 4)
    parts = model.losses(x, torch.Generator().manual_seed(2))
    z = model.reparameterise(model.encode(x), torch.Generator().manual_seed(2))
    expected = (model.decode(z) - x).square().sum(dim=1)
    assert torch.allclose(parts.reconstruction, expected)
    assert torch.allclose(parts.total(7.0), expected + 7 * divergence(model.encode(x)).sum(dim=1))
    heard = []
    for seed in (2, 2, 3):
        with Key.root(seed).ambient():
            heard.append(vae_loss(model, x, torch.zeros(5)))
    assert torch.equal(heard[0], heard[1])
    assert not torch.equal(heard[0], heard[2])
    with Key.root(2).ambient():
        noise = torch.randn(5, 2)
    z = model.encode(x).mean + model.encode(x).log_sigma.exp() * noise
    again = (model.decode(z) - x).square().sum(dim=1) + 7 * divergence(model.encode(x)).sum(dim=1)
    assert torch.allclose(heard[0], again)
    with Key.root(2).ambient():
        plain = vae_loss(model, x, torch.zeros(5), beta=0.0)
    assert torch.allclose(plain, (model.decode(z) - x).square().sum(dim=1))
    assert torch.allclose(parts.total(0.0), parts.reconstruction)


def test_noise_comes_from_where_it_should() -> None:
    model = vae((4,), hidden=(6,))
    x = torch.rand(5, 4)
    before = torch.get_rng_state()
    one = model.losses(x, torch.Generator().manual_seed(3)).reconstruction
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one, model.losses(x, torch.Generator().manual_seed(3)).reconstruction)
    assert not torch.equal(one, model.losses(x, torch.Generator().manual_seed(4)).reconstruction)
    assert torch.equal(model(x), model.decode(model.encode(x).mean))


def test_noise_has_the_spread_of_the_posterior() -> None:
    code = Code(torch.full((20_000, 1), 2.0), torch.full((20_000, 1), -1.0))
    z = vae((4,), hidden=(6,)).reparameterise(code, torch.Generator().manual_seed(0))
    assert float(z.mean()) == pytest.approx(2, abs=0.01)
    assert float(z.std()) == pytest.approx(np.exp(-1), rel=0.02)


@pytest.mark.parametrize("kind", ["dense", "convolutional"])
def test_a_few_epochs_lower_the_reconstruction_error(kind: str) -> None:
    rows = digits()
    with Key.root(0).ambient():
        dense, other = vae((1, 8, 8), hidden=(64, 32)), conv_vae((1, 8, 8), channels=(8, 16), hidden=32)
        model = dense if kind == "dense" else other
        before = reconstruction(model, rows)
        for seed in range(4):
            epoch(model, rows, 32, seed)
    assert reconstruction(model, rows) < 0.8 * before


def test_a_heavy_beta_collapses_the_posterior_and_it_is_seen() -> None:
    rows = digits()
    with Key.root(0).ambient():
        light, heavy = vae((1, 8, 8), hidden=(64, 32), beta=0.1), vae((1, 8, 8), hidden=(64, 32), beta=500.0)
        for seed in range(4):
            epoch(light, rows, 32, seed)
            epoch(heavy, rows, 32, seed)
        assert not collapsed(light.losses(rows).kl).any()
        assert collapsed(heavy.losses(rows).kl).all()


def test_nonsense_is_refused() -> None:
    with pytest.raises(BadInputError, match="at least one hidden layer"):
        vae((4,), hidden=())
    with pytest.raises(BadInputError, match="at least one input"):
        vae((0,))
    with pytest.raises(BadInputError, match="channels x height x width"):
        conv_vae((4,))
    with pytest.raises(BadInputError, match="needs a VAE"):
        vae_loss(torch.nn.Identity(), torch.zeros(1, 2), torch.zeros(1))


@pytest.fixture
def mnist() -> Tensor:
    root = os.environ.get("POTLUCK_DATA")
    if root is None:
        pytest.skip("POTLUCK_DATA does not name the folder of the real data")
    for path in sorted((Path(root) / "mnist").glob("train-images-idx3-ubyte*")):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return torch.from_numpy(
            np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 1, 28, 28) / np.float32(255)
        )
    pytest.skip("POTLUCK_DATA holds no MNIST")


@pytest.mark.realdata
@pytest.mark.slow
def test_one_epoch_of_mnist_lowers_the_reconstruction_error(mnist: Tensor) -> None:
    with Key.root(0).ambient():
        model = vae((1, 28, 28))
        before = reconstruction(model, mnist[:2000])
        epoch(model, mnist, 64, seed=0)
    assert reconstruction(model, mnist[:2000]) < 0.8 * before
