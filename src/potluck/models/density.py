"""What a density model offers, and a mixture of diagonal Gaussians that offers it (for real-valued rows).

MADE (`made.py`) and the normalising flow (`flow.py`) offer the same.
"""

from __future__ import annotations

import math
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from potluck.errors import BadInputError


@runtime_checkable
class Density(Protocol):
    """A distribution of rows."""

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-density of each row."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n flat rows."""
        ...


class Components(nn.Module):
    """The parameters of a mixture: logits of the proportions, means, log standard deviations."""

    def __init__(self, inputs: int, components: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(components))
        self.mean = nn.Parameter(torch.randn(components, inputs))
        self.log_sigma = nn.Parameter(torch.zeros(components, inputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return ln sum_m pi_m prod_d N(x_d; mu_md, s2_md)."""
        away = (x[:, None] - self.mean) * (-self.log_sigma).exp()
        logs = -0.5 * away.square() - self.log_sigma - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(torch.log_softmax(self.logits, dim=0) + logs.sum(dim=2), dim=1)


class GaussianMixture(nn.Module):
    """A mixture of diagonal Gaussians over flat rows, trained like any other model."""

    def __init__(self, inputs: int, components: int) -> None:
        super().__init__()
        self.body = nn.Flatten()
        self.head = Components(inputs, components)

    def forward(self, x: Tensor) -> Tensor:
        """Return the log-density of each row."""
        out: Tensor = self.head(self.body(x))
        return out

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-density of each row."""
        return self.forward(x)

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n flat rows."""
        shares = torch.softmax(self.head.logits, dim=0)
        which = torch.multinomial(shares, n, replacement=True, generator=generator)
        noise = torch.randn(n, self.head.mean.shape[1], generator=generator)
        return self.head.mean[which] + self.head.log_sigma[which].exp() * noise


def gaussian_mixture(
    shape: tuple[int, ...],
    classes: int | None = None,
    *,
    components: Annotated[int, Field(ge=1)] = 10,
) -> GaussianMixture:
    """Build a mixture of diagonal Gaussians over the flattened input."""
    inputs = int(np.prod(shape))
    if inputs < 1:
        raise BadInputError(f"model: a Gaussian mixture needs at least one input, got shape {shape}")
    return GaussianMixture(inputs, components)


def negative_log_prob(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return -log p of each row: the loss of every density model; targets are not looked at."""
    if not isinstance(module, Density):
        raise BadInputError(
            f"model: a density is needed (made, gaussian_mixture, flow), not {type(module).__name__}"
        )
    return -module.log_prob(x)
