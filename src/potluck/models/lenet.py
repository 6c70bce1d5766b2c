"""The small LeNet of the heterogeneity benchmarks (NIID-Bench, FedDisco, FedLoss)."""

from __future__ import annotations

from torch import nn

from potluck.models.network import Network, image, outputs, room, shrunk


def lenet(shape: tuple[int, ...], classes: int | None) -> nn.Module:
    """Two 5x5 convolutions (6, 16) with pooling, then 120-84: 62,006 parameters on 3x32x32, 44,426 on 1x28x28."""
    channels, height, width = image(shape, "lenet")
    rows = room(shrunk(shrunk(height, kernel=5), kernel=5), "lenet", shape)
    columns = room(shrunk(shrunk(width, kernel=5), kernel=5), "lenet", shape)
    body = nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * rows * columns, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
    )
    return Network(body, nn.Linear(84, outputs(classes)))
