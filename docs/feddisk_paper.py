"""What the FedDisk paper states, to stand beside what is measured here.

Nguyen, Wu and Chang, "Federated learning for distribution skewed data using sample weights", IEEE TAI 2024: section
VII (accuracies), Table I (effective communication rounds) and Table II (numbers that cross each round).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from blocks import markdown

from potluck.models import MODELS
from potluck.models.made import made
from potluck.parts.ecr import cost, two_phase_cost


class Scenario(NamedTuple):
    """One of the paper's three experiments: what it states of it, and the models that it describes.

    `rounds` are Table I's classifier rounds by method, `density_rounds` those of the MADE.
    """

    name: str
    accuracy: float
    rival: float
    density_rounds: int
    density_size: int
    size: int
    rounds: Mapping[str, int]
    shape: tuple[int, int, int]
    classes: int
    channels: int
    hidden: int

    def cost(self, label: str) -> int:
        """Return a method's cost by the paper's equations 18 and 19."""
        rounds = self.rounds[label]
        if label == DISK:
            return two_phase_cost(self.density_size, self.density_rounds, self.size, rounds)
        return cost(self.size, rounds)


DISK = "FedDisk"
OURS = ("FedDisk", "FedDisk, log ratio", "FedDiskAb")
SCENARIOS: Mapping[str, Scenario] = {
    "sc12": Scenario(
        "MNIST", 54.5, 51.7, 70, 47_000, 12_000,
        {DISK: 85, "fedavg": 500, "fedbn": 600, "fedprox": 800, "fedrod": 550, "fedpcl": 550},
        (1, 28, 28), 10, 16, 30,
    ),
    "sc13": Scenario(
        "FEMNIST", 78.0, 56.0, 15, 614_000, 447_000,
        {DISK: 105, "fedavg": 1100, "fedbn": 1255, "fedprox": 1200, "fedrod": 1015, "fedpcl": 1030},
        (1, 28, 28), 62, 128, 400,
    ),
    "sc14": Scenario(
        "Chest X-ray", 92.0, 90.5, 80, 102_000, 39_000,
        {DISK: 100, "fedavg": 450, "fedbn": 457, "fedprox": 440, "fedrod": 480, "fedpcl": 500},
        (1, 32, 32), 2, 32, 50,
    ),
}  # fmt: skip


def sizes() -> str:
    """Return Table II beside the sizes of the models that the text describes."""
    rows = []
    for one in SCENARIOS.values():
        classifier = MODELS["cnn_feddisk"](one.shape, one.classes, channels=one.channels)
        density = made(one.shape, hidden=(one.hidden,))
        weights = sum(leaf.numel() for name, leaf in density.named_parameters() if name.endswith("weight"))
        counts = [sum(leaf.numel() for leaf in module.parameters()) for module in (classifier, density)]
        rows.append(
            [
                one.name,
                *(f"{count:,}" for count in (one.size, counts[0], one.density_size, weights, counts[1])),
            ]
        )
    heads = ["data", "classifier, Table II", "counted", "MADE, Table II", "counted", "with biases"]
    return markdown(heads, rows)
