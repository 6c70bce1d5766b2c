"""Fully connected networks, from softmax regression up."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated

from pydantic import Field
from torch import nn

from potluck.models.network import Network, outputs

Width = Annotated[int, Field(ge=1)]


def mlp(shape: tuple[int, ...], classes: int | None, *, hidden: tuple[Width, ...] = (200, 200)) -> nn.Module:
    """A multilayer perceptron with ReLU; two hidden layers of 200 are McMahan's "2NN" (199,210 parameters on MNIST)."""
    widths = [math.prod(shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return Network(nn.Sequential(*layers), nn.Linear(widths[-1], outputs(classes)))


def softmax(shape: tuple[int, ...], classes: int | None) -> nn.Module:
    """Softmax regression (for real targets: linear regression)."""
    return mlp(shape, classes, hidden=())


def mlp_fedstellar(shape: tuple[int, ...], classes: int | None) -> nn.Module:
    """The 784-256-128-10 network that FedEP's platform uses (235,146 parameters on MNIST)."""
    return mlp(shape, classes, hidden=(256, 128))
