"""Densities as networks that a stage trains by maximum likelihood, in place of the experiment's model.

FedDisk (Nguyen, Wu and Chang, IEEE TAI 2024) trains MADE on grey values in [0, 1]; the mixture and the flow
are for real-valued rows, where a Bernoulli density has no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from potluck.model import Model
from potluck.models.density import gaussian_mixture, negative_log_prob
from potluck.models.flow import flow
from potluck.models.made import Order, made
from potluck.roles import Architecture

Width = Annotated[int, Field(ge=1)]
Widths = Annotated[tuple[Width, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Made(Architecture):
    """A masked autoencoder over inputs in [0, 1]; `mask_seed` names the masks, which all clients must share."""

    hidden: Widths = (30,)
    order: Order = "natural"
    mask_seed: Annotated[int, Field(ge=0)] = 0
    binarize: bool = False

    def model(self, given: Model) -> Model:
        """Return a MADE of rows like those of the experiment's model."""
        factory = partial(
            made,
            given.shape,
            hidden=self.hidden,
            order=self.order,
            mask_seed=self.mask_seed,
            binarize=self.binarize,
        )
        return Model(factory, negative_log_prob, given.shape, given.classes, figures)


@dataclass(frozen=True)
class Mixture(Architecture):
    """A mixture of diagonal Gaussians over real-valued inputs."""

    components: Width = 10

    def model(self, given: Model) -> Model:
        """Return a mixture over rows like those of the experiment's model."""
        factory = partial(gaussian_mixture, given.shape, components=self.components)
        return Model(factory, negative_log_prob, given.shape, given.classes, figures)


@dataclass(frozen=True)
class NormalisingFlow(Architecture):
    """A masked autoregressive flow over real-valued inputs (needs the extra `flow`)."""

    transforms: Width = 3
    hidden: Widths = (64, 64)

    def model(self, given: Model) -> Model:
        """Return a flow over rows like those of the experiment's model."""
        factory = partial(flow, given.shape, transforms=self.transforms, hidden=self.hidden)
        return Model(factory, negative_log_prob, given.shape, given.classes, figures)


def figures(module: nn.Module, x: Tensor, y: Tensor) -> Mapping[str, Tensor]:
    """Return -log p of every row; targets play no part."""
    return {"loss": negative_log_prob(module, x, y)}
