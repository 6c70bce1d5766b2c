"""What the authors of the poster on FedDisco with a VAE published, and which stored records stand beside it.

The losses are means of up to five trials in the notebooks of their public code: total loss on the test set, inputs
standardised, trained with beta 10 and scored with beta 1, after the first and the last of 25 rounds. For NIID-1 on
Fashion-MNIST there is only a picture on the poster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BASELINE = "fedvae"
Losses = Mapping[str, float]


class Comparison(NamedTuple):
    """One stored comparison: its name, its heading, and the published losses by method and round."""

    name: str
    title: str
    published: Mapping[int, Losses]


def losses(baseline: float, weak: float, medium: float, strong: float) -> Losses:
    """Return losses by method."""
    return {BASELINE: baseline, "a 0": baseline, "a 0.1": weak, "a 0.5": medium, "a 0.9": strong}


FASHION = {1: losses(691.03, 689.29, 531.95, 473.07), 25: losses(478.25, 474.43, 449.52, 446.98)}
MNIST_2 = {25: losses(550.20, 550.04, 546.27, 520.38)}
MNIST_1 = {25: losses(517.35, 518.31, 534.22, 538.48)}

POSTER = (
    Comparison("sc9-fmnist", "NIID-2, Fashion-MNIST, the poster's size", FASHION),
    Comparison("sc9-fmnist-one-seed", "NIID-2, Fashion-MNIST, the poster's size, one seed of five", FASHION),
    Comparison("sc9-fmnist-reduced", "NIID-2, Fashion-MNIST, reduced", FASHION),
    Comparison("sc9-fmnist-unit-reduced", "NIID-2, Fashion-MNIST, reduced, inputs in [0, 1]", {}),
    Comparison("sc9-mnist", "NIID-2, MNIST, the poster's size", MNIST_2),
    Comparison("sc9-mnist-reduced", "NIID-2, MNIST, reduced", MNIST_2),
    Comparison("sc8-fmnist", "NIID-1, Fashion-MNIST, the poster's size", {}),
    Comparison("sc8-fmnist-reduced", "NIID-1, Fashion-MNIST, reduced", {}),
    Comparison("sc8-mnist", "NIID-1, MNIST, the poster's size", MNIST_1),
    Comparison("sc8-mnist-reduced", "NIID-1, MNIST, reduced", MNIST_1),
)
CLASSIFIER = (
    Comparison("classifier-niid1", "NIID-1", {}),
    Comparison("classifier-niid2", "NIID-2", {}),
)
