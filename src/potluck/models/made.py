"""MADE, a masked autoencoder that is a density of binary (or grey) rows: FedDisk's local and global density.

M. Germain, K. Gregor, I. Murray and H. Larochelle, "MADE: Masked Autoencoder for Distribution
Estimation", ICML 2015; H. Nguyen, P. Wu and J. M. Chang, "Federated learning for distribution skewed data
using sample weights", IEEE TAI 2024.
    log p(x) = sum_d x_d ln s_d + (1 - x_d) ln(1 - s_d),   s_d a function of the inputs before d in the order.
On grey values in [0, 1] this is a pseudo-likelihood, not a density.

Orders and masks follow from `mask_seed` alone, so that a message needs the seed and a digest, never the
masks; models with one seed may be averaged. Hidden degrees are uniform in min(previous)..D-1, but one
unit of each layer has degree D-1: without it a layer narrower than D would cut the later inputs off. The
masked layers are written here because those of zuko deal degrees in a fixed rota, know no seed, and keep
the masks in the state dict.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from potluck.errors import BadInputError
from potluck.key import Key

Degrees = npt.NDArray[np.int64]
Order = Literal["natural", "random"]


class MaskedLinear(nn.Linear):
    """A linear layer through a fixed mask; the mask is no part of the state dict."""

    mask: Tensor

    def __init__(self, mask: npt.NDArray[np.bool_]) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.register_buffer("mask", torch.from_numpy(mask).to(self.weight.dtype), persistent=False)

    def masked(self) -> Tensor:
        """Return the weights that count."""
        return self.weight * self.mask

    def forward(self, x: Tensor) -> Tensor:
        """Return (mask * W) x + b."""
        return functional.linear(x, self.masked(), self.bias)


class MADE(nn.Module):
    """Bernoulli logits of every input given those before it: `body` the hidden layers, `head` the outputs."""

    def __init__(
        self, inputs: int, hidden: tuple[int, ...], order: Order, mask_seed: int, binarize: bool
    ) -> None:
        super().__init__()
        self.binarize = binarize
        self.degrees = degrees(inputs, hidden, order, mask_seed)
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in zip(self.degrees[:-1], self.degrees[1:], strict=True):
            layers += [MaskedLinear(after[:, None] >= before[None, :]), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = MaskedLinear(self.degrees[0][:, None] > self.degrees[-1][None, :])

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, rows x inputs."""
        logits: Tensor = self.head(self.body(self.rows(x)))
        return logits

    def rows(self, x: Tensor) -> Tensor:
        """Return flat rows, cut at 0.5 where the model is to see binary values only."""
        flat = x.flatten(1)
        return (flat > 0.5).to(flat.dtype) if self.binarize else flat

    def conditionals(self, x: Tensor) -> Tensor:
        """Return the conditional means s_d given the inputs before d: the vector u of FedDisk."""
        return torch.sigmoid(self(x))

    def log_prob(self, x: Tensor) -> Tensor:
        """Return log p of each row, from logits."""
        flat = self.rows(x)
        low, high = torch.aminmax(flat) if flat.numel() else (0, 1)
        if low < 0 or high > 1:
            raise BadInputError("model made: inputs must lie in [0, 1]; leave the data unstandardised")
        return -functional.binary_cross_entropy_with_logits(self(x), flat, reduction="none").sum(dim=1)

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n binary rows, input by input in the order.

        Only what changes is computed: the first layer gains one column a step, the last gives one output, so
        that D steps cost about as much as one dense pass per deeper layer.
        """
        first, *deeper = [layer for layer in self.body if isinstance(layer, MaskedLinear)] + [self.head]
        *between, last = deeper
        columns, rows = first.masked(), last.masked()
        inner = [(layer.masked(), layer.bias) for layer in between]
        out = torch.zeros(n, len(self.degrees[0]), dtype=columns.dtype)
        coins = torch.rand(out.shape, generator=generator, dtype=columns.dtype)
        before = first.bias.repeat(n, 1)
        for d in np.argsort(self.degrees[0]).tolist():
            units = torch.relu(before)
            for weight, bias in inner:
                units = torch.relu(functional.linear(units, weight, bias))
            out[:, d] = (coins[:, d] < torch.sigmoid(units @ rows[d] + last.bias[d])).to(out.dtype)
            before += out[:, d, None] * columns[:, d]
        return out

    def mask_digest(self) -> str:
        """Hash the order and the degrees, from which all masks follow; equal on all clients of one model."""
        hashed = hashlib.blake2b(digest_size=16)
        for layer in self.degrees:
            hashed.update(len(layer).to_bytes(8, "little") + layer.astype("<i8").tobytes())
        return hashed.hexdigest()


def degrees(inputs: int, hidden: tuple[int, ...], order: Order, mask_seed: int) -> list[Degrees]:
    """Return the place of every input in the order, from 1, and the degree of every hidden unit."""
    key = Key.root(mask_seed) / "made"
    places = np.arange(1, inputs + 1, dtype=np.int64)
    out = [places if order == "natural" else (key / "order").numpy().permutation(places)]
    top = max(inputs - 1, 1)
    for number, width in enumerate(hidden):
        low = min(int(out[-1].min()), top)
        drawn = (key / "degrees" / number).numpy().integers(low, top + 1, size=width)
        drawn[np.argmax(drawn)] = top
        out.append(drawn.astype(np.int64))
    return out


def made(
    shape: tuple[int, ...],
    classes: int | None = None,
    *,
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (30,),
    order: Order = "natural",
    mask_seed: int = 0,
    binarize: bool = False,
) -> MADE:
    """Build a MADE of the flattened input: 2 D H weights and H + D biases for one hidden layer.

    `mask_seed` names the masks and, with `order = "random"`, the order; all who average must share it.
    `binarize` cuts grey inputs at 0.5.
    """
    inputs = int(np.prod(shape))
    if inputs < 1 or not hidden:
        raise BadInputError("model.hidden: a MADE needs at least one input and one hidden layer")
    return MADE(inputs, tuple(hidden), order, mask_seed, binarize)
