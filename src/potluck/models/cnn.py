"""Convolutional networks of the papers, with their exact parameter counts (spec section 3)."""

from __future__ import annotations

from torch import nn

from potluck.models.mlp import Width
from potluck.models.network import Network, channels_last, image, outputs, room, shrunk


def cnn_mcmahan(shape: tuple[int, ...], classes: int | None, *, same: bool = True) -> nn.Module:
    """McMahan's MNIST network: 5x5 convolutions (32, 64) with pooling, 512: 1,663,370 parameters on 1x28x28.

    `same = false` leaves out the padding, as FedEx's published code does (582,026 parameters).
    """
    channels, height, width = image(shape, "cnn_mcmahan")
    pad = 2 if same else 0
    rows = room(shrunk(shrunk(height, kernel=5, pad=pad), kernel=5, pad=pad), "cnn_mcmahan", shape)
    columns = room(shrunk(shrunk(width, kernel=5, pad=pad), kernel=5, pad=pad), "cnn_mcmahan", shape)
    body = nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=pad),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=pad),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * rows * columns, 512),
        nn.ReLU(),
    )
    return channels_last(Network(body, nn.Linear(512, outputs(classes))))


def cnn_feddisk(shape: tuple[int, ...], classes: int | None, *, channels: Width = 16) -> nn.Module:
    """FedDisk's network: twice convolution 5x5, ReLU, pooling, batch norm; then 16 units.

    Parameters: 39,442 (chest, 32 channels, 1x32x32, 2 classes), 447,406 (FEMNIST, 128), 11,178 (MNIST, 16).
    """
    depth, height, width = image(shape, "cnn_feddisk")
    rows = room(shrunk(shrunk(height, kernel=5), kernel=5), "cnn_feddisk", shape)
    columns = room(shrunk(shrunk(width, kernel=5), kernel=5), "cnn_feddisk", shape)
    body = nn.Sequential(
        nn.Conv2d(depth, channels, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(channels),
        nn.Conv2d(channels, channels, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(channels),
        nn.Flatten(),
        nn.Linear(channels * rows * columns, 16),
        nn.ReLU(),
    )
    return channels_last(Network(body, nn.Linear(16, outputs(classes))))


def cnn_fedstellar_mnist(shape: tuple[int, ...], classes: int | None) -> nn.Module:
    """FedEP's larger MNIST option: 5x5 same convolutions (32, 64), 2048 (6,497,162 parameters on 1x28x28)."""
    return _stack(shape, classes, widths=(32, 64), kernel=5, units=2048, model="cnn_fedstellar_mnist")


def cnn_fedstellar_cifar(shape: tuple[int, ...], classes: int | None) -> nn.Module:
    """FedEP's CIFAR-10 network: 3x3 same convolutions (16, 32, 64), each pooled, 512 (553,514 parameters)."""
    return _stack(shape, classes, widths=(16, 32, 64), kernel=3, units=512, model="cnn_fedstellar_cifar")


def _stack(
    shape: tuple[int, ...],
    classes: int | None,
    *,
    widths: tuple[int, ...],
    kernel: int,
    units: int,
    model: str,
) -> nn.Module:
    channels, rows, columns = image(shape, model)
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Conv2d(channels, width, kernel, padding=kernel // 2), nn.ReLU(), nn.MaxPool2d(2)]
        channels, rows, columns = width, rows // 2, columns // 2
    flat = channels * room(rows, model, shape) * room(columns, model, shape)
    body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, units), nn.ReLU())
    return channels_last(Network(body, nn.Linear(units, outputs(classes))))
