"""The convention that all models follow: features, then scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from potluck.errors import BadInputError


class Network(nn.Module):
    """A body that computes features and a head that computes scores from them."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of a batch."""
        out: Tensor = self.head(self.body(x))
        return out


def channels_last(network: Network) -> Network:
    """Store the filters with channels last: on a processor, wide convolutions are then 1.2 to 1.7 times as fast."""
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            part.weight.data = part.weight.data.to(memory_format=torch.channels_last)
    return network


def outputs(classes: int | None) -> int:
    """Return the width of the last layer: one score per class, or one value for regression."""
    return classes or 1


def image(shape: tuple[int, ...], model: str) -> tuple[int, int, int]:
    """Return channels, height and width; refuse rows that are not images."""
    if len(shape) != 3:
        raise BadInputError(
            f"model.name: {model!r} wants images (channels, height, width), but rows are {shape}"
        )
    return shape[0], shape[1], shape[2]


def shrunk(size: int, *, kernel: int, pad: int = 0) -> int:
    """Return the side of an image after a convolution and a 2 x 2 pooling."""
    return (size + 2 * pad - kernel + 1) // 2


def room(side: int, model: str, shape: tuple[int, ...]) -> int:
    """Return the side if anything is left of the image, else refuse it."""
    if side < 1:
        raise BadInputError(f"model.name: images of {shape[1]} x {shape[2]} are too small for {model!r}")
    return side
