"""beta-VAE, fully connected and convolutional: the model behind FedDisco's latent discrepancy.

I. Higgins and others, "beta-VAE", ICLR 2017; D. P. Kingma and M. Welling, "Auto-encoding variational
Bayes", 2014; sizes and loss of the TU Delft poster on FedDisco with a VAE:
    loss = sum over pixels (x - x')^2 + beta KL,   KL = 0.5 sum(mu^2 + s^2 - 1 - ln s^2).
The decoder ends in a sigmoid, so inputs belong in [0, 1]. Noise is taken from the generator given, else
from the ambient stream of the visit.
"""

from __future__ import annotations

import itertools
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from potluck.errors import BadInputError

Width = Annotated[int, Field(ge=1)]


class Code(NamedTuple):
    """The posterior of each row: means and log standard deviations, rows x latent."""

    mean: Tensor
    log_sigma: Tensor


class Losses(NamedTuple):
    """Per row the reconstruction error, and per row and latent dimension the divergence from N(0, 1)."""

    reconstruction: Tensor
    kl: Tensor

    def total(self, beta: float) -> Tensor:
        """Return reconstruction + beta * KL of each row."""
        return self.reconstruction + beta * self.kl.sum(dim=1)


class Bottleneck(nn.Module):
    """What follows the encoder's features: means, log standard deviations, and the decoder."""

    def __init__(self, features: int, latent: int, decoder: nn.Module) -> None:
        super().__init__()
        self.mean = nn.Linear(features, latent)
        self.log_sigma = nn.Linear(features, latent)
        self.decoder = decoder

    def forward(self, features: Tensor) -> Tensor:
        """Return the reconstruction from the posterior means."""
        out: Tensor = self.decoder(self.mean(features))
        return out


class VAE(nn.Module):
    """An encoder `body` and a `head` that holds the latent code and the decoder."""

    def __init__(self, body: nn.Module, head: Bottleneck, beta: float) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """Return the reconstruction from the posterior means (no noise)."""
        out: Tensor = self.head(self.body(x))
        return out

    def encode(self, x: Tensor) -> Code:
        """Return the posterior of each row."""
        features = self.body(x)
        return Code(self.head.mean(features), self.head.log_sigma(features))

    def reparameterise(self, code: Code, generator: torch.Generator | None = None) -> Tensor:
        """Draw z = mu + s * eps."""
        noise = torch.randn(code.mean.shape, generator=generator, dtype=code.mean.dtype)
        return code.mean + code.log_sigma.exp() * noise

    def decode(self, z: Tensor) -> Tensor:
        """Return the reconstruction of latent codes, in the shape of the inputs."""
        out: Tensor = self.head.decoder(z)
        return out

    def losses(self, x: Tensor, generator: torch.Generator | None = None) -> Losses:
        """Return the parts of the loss of each row, with one draw of z."""
        code = self.encode(x)
        wrong = self.decode(self.reparameterise(code, generator)) - x
        return Losses(wrong.square().flatten(1).sum(dim=1), divergence(code))


def divergence(code: Code) -> Tensor:
    """Return KL(N(mu, s^2) || N(0, 1)) = 0.5 (mu^2 + s^2 - 1 - ln s^2), by row and latent dimension."""
    return 0.5 * (code.mean.square() + (2 * code.log_sigma).exp() - 1) - code.log_sigma


def collapsed(kl: Tensor, least: float = 0.01) -> Tensor:
    """Tell which latent dimensions carry nothing: a mean divergence below `least` nats."""
    return kl.mean(dim=0) < least


def vae_loss(module: nn.Module, x: Tensor, y: Tensor, beta: float | None = None) -> Tensor:
    """Return reconstruction + beta * KL of each row (the model's beta unless given); targets play no part."""
    if not isinstance(module, VAE):
        raise BadInputError(f"model: the VAE loss needs a VAE, not {type(module).__name__}")
    return module.losses(x).total(module.beta if beta is None else beta)


def vae(
    shape: tuple[int, ...],
    classes: int | None = None,
    *,
    hidden: tuple[Width, ...] = (512, 256),
    latent: Width = 2,
    beta: Annotated[float, Field(ge=0)] = 1.0,
) -> VAE:
    """Build a fully connected beta-VAE; the defaults are the poster's 784-512-256-(2, 2)-256-512-784.

    `hidden` are the encoder's widths, mirrored in the decoder; `beta` weighs the divergence in the loss.
    """
    pixels = _pixels(shape)
    if not hidden:
        raise BadInputError("model.hidden: a VAE needs at least one hidden layer")
    decoder = [*_ramp((latent, *reversed(hidden))), nn.Linear(hidden[0], pixels), nn.Sigmoid()]
    return VAE(
        nn.Sequential(nn.Flatten(), *_ramp((pixels, *hidden))),
        Bottleneck(hidden[-1], latent, nn.Sequential(*decoder, nn.Unflatten(1, tuple(shape)))),
        beta,
    )


def conv_vae(
    shape: tuple[int, ...],
    classes: int | None = None,
    *,
    channels: tuple[Width, ...] = (32, 64),
    hidden: Width = 256,
    latent: Width = 2,
    beta: Annotated[float, Field(ge=0)] = 1.0,
) -> VAE:
    """Build a convolutional beta-VAE for channels x height x width: one halving per entry of `channels`.

    `hidden` is the width of the layer between the convolutions and the latent code.
    """
    if len(shape) != 3 or not channels:
        raise BadInputError(
            f"model: conv_vae needs inputs channels x height x width, got {shape}, and channels"
        )
    sizes = [(shape[1], shape[2])]
    for _ in channels:
        sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
    small = (channels[-1], *sizes[-1])
    body: list[nn.Module] = []
    for before, after in zip((shape[0], *channels[:-1]), channels, strict=True):
        body += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    body += [nn.Flatten(), *_ramp((_pixels(small), hidden))]
    decoder: list[nn.Module] = [*_ramp((latent, hidden, _pixels(small))), nn.Unflatten(1, small)]
    backwards = list(zip((shape[0], *channels[:-1]), channels, sizes[:-1], strict=True))[::-1]
    for after, before, (height, width) in backwards:
        odd = ((height + 1) % 2, (width + 1) % 2)  # an even size was rounded away by the halving
        decoder += [nn.ConvTranspose2d(before, after, 3, stride=2, padding=1, output_padding=odd), nn.ReLU()]
    decoder[-1] = nn.Sigmoid()
    return VAE(nn.Sequential(*body), Bottleneck(hidden, latent, nn.Sequential(*decoder)), beta)


def _ramp(widths: tuple[int, ...]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return layers


def _pixels(shape: tuple[int, ...]) -> int:
    pixels = int(np.prod(shape))
    if pixels < 1:
        raise BadInputError(f"model: a VAE needs at least one input, got shape {shape}")
    return pixels
