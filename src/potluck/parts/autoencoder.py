"""beta-VAEs as networks that a stage trains, with the autoencoder's own loss and figures.

I. Higgins and others, "beta-VAE", ICLR 2017; sizes, loss and figures of the TU Delft poster on FedDisco with
a VAE: training minimises reconstruction + beta KL, scoring reports reconstruction + eval_beta KL (1 on the
poster, whatever was trained), with one draw of z a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import Field
from torch import Tensor, nn

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.model import Model
from potluck.models.vae import VAE, Width, conv_vae, vae, vae_loss
from potluck.parts.latent_codes import described, distances, encode, monitor
from potluck.parts.vae_pictures import pictures
from potluck.roles import Architecture
from potluck.table import Table

Beta = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Autoencoder(Architecture):
    """A fully connected beta-VAE: `hidden` widths of the encoder, mirrored in the decoder."""

    hidden: Annotated[tuple[Width, ...], Field(min_length=1)] = (512, 256)
    latent: Width = 2
    beta: Beta = 1.0
    eval_beta: Beta = 1.0

    def model(self, given: Model) -> Model:
        """Return the autoencoder of rows like those of the experiment's model."""
        made = partial(vae, given.shape, hidden=self.hidden, latent=self.latent, beta=self.beta)
        return _model(made, given, self.eval_beta)


@dataclass(frozen=True)
class ConvAutoencoder(Architecture):
    """A convolutional beta-VAE: one halving per entry of `channels`, `hidden` units before the latent code."""

    channels: Annotated[tuple[Width, ...], Field(min_length=1)] = (32, 64)
    hidden: Width = 256
    latent: Width = 2
    beta: Beta = 1.0
    eval_beta: Beta = 1.0

    def model(self, given: Model) -> Model:
        """Return the autoencoder of images like those of the experiment's model."""
        made = partial(
            conv_vae,
            given.shape,
            channels=self.channels,
            hidden=self.hidden,
            latent=self.latent,
            beta=self.beta,
        )
        return _model(made, given, self.eval_beta)


def _model(made: Callable[[], VAE], given: Model, eval_beta: float) -> Model:
    return Model(made, vae_loss, given.shape, given.classes, partial(figures, eval_beta), show)


def figures(eval_beta: float, module: nn.Module, x: Tensor, y: Tensor) -> Mapping[str, Tensor]:
    """Return reconstruction + eval_beta KL of every row, and both parts; targets play no part."""
    found = autoencoder(module).losses(x)
    return {
        "loss": found.total(eval_beta),
        "reconstruction": found.reconstruction,
        "kl": found.kl.sum(dim=1),
    }


def show(module: nn.Module, table: Table, key: Key, test: bool) -> Mapping[str, Any]:
    """Return a client's codes and how far they lie from N(0, I); of a test the monitor of collapse and pictures."""
    network = autoencoder(module)
    code = encode(network, table)
    if test:
        return {**monitor(code), **pictures(network, table, key)}
    z = network.reparameterise(code, (key / "latent").torch())
    far = distances(z)
    return {**described(z, code, far), "discrepancy": float(far.mean())}


def autoencoder(module: nn.Module) -> VAE:
    """Return the module as what it must be."""
    if not isinstance(module, VAE):
        raise BadInputError(f"algorithm.vae: must be an autoencoder, not a {type(module).__name__}")
    return module


def encoder_leaves(model: Model) -> list[str]:
    """Return the names of the leaves that encoding needs: all but the decoder's."""
    return [name for name in model.slots if not name.startswith("head.decoder.")]
