"""Architectures by name. A factory takes the shape of a row and the number of classes, and returns a module.

The module has two parts, `body` (features) and `head` (class scores): that convention is all that
personalised heads, prototypes and local norm layers need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn

from potluck.models.cnn import cnn_feddisk, cnn_fedstellar_cifar, cnn_fedstellar_mnist, cnn_mcmahan
from potluck.models.lenet import lenet
from potluck.models.mlp import mlp, mlp_fedstellar, softmax

MODELS: Mapping[str, Callable[..., nn.Module]] = {
    "cnn_feddisk": cnn_feddisk,
    "cnn_fedstellar_cifar": cnn_fedstellar_cifar,
    "cnn_fedstellar_mnist": cnn_fedstellar_mnist,
    "cnn_mcmahan": cnn_mcmahan,
    "lenet": lenet,
    "mlp": mlp,
    "mlp_fedstellar": mlp_fedstellar,
    "softmax": softmax,
}

__all__ = ["MODELS"]
