"""FedDisco with a beta-VAE: W1 of 60,000 rows in 32 dimensions, and encoding against a bare forward loop.

python bench/latent.py [--record FILE]     # one core, processor seconds, medians
"""

from __future__ import annotations

import statistics

import numpy as np
import torch
from clock import seconds
from command import Figures, measured

from potluck.key import Key
from potluck.models.vae import VAE, vae
from potluck.parts.latent_codes import encode
from potluck.parts.wasserstein import w1_to_normal
from potluck.table import Table

ROWS, DIMENSIONS, BATCH = 60_000, 32, 500


def bare(network: VAE, x: torch.Tensor) -> None:
    """Pass all rows through the encoder and keep nothing."""
    with torch.no_grad():
        for part in torch.split(x, BATCH):
            features = network.body(part)
            network.head.mean(features)
            network.head.log_sigma(features)


def encoding(rows: int = ROWS) -> tuple[float, float]:
    """Return the seconds of the bare loop and of ours, on rows like those of Fashion-MNIST."""
    with Key.root(0).ambient():
        network = vae((1, 28, 28)).eval()
        x = torch.rand(rows, 1, 28, 28)
    table = Table(x, torch.zeros(rows, dtype=torch.int64))
    return seconds(lambda: bare(network, x)), seconds(lambda: encode(network, table))


def figures(times: int) -> Figures:
    """Return the figures, medians of several measurements."""
    torch.set_num_threads(1)
    sample = np.random.default_rng(0).normal(size=(ROWS, DIMENSIONS))
    spent = [seconds(lambda: w1_to_normal(sample)) for _ in range(times)]
    pairs = [encoding() for _ in range(times)]
    return {
        "w1_seconds": round(statistics.median(spent), 3),
        "w1_seconds_best": round(min(spent), 3),
        "encoding_rows_per_second": round(ROWS / statistics.median(ours for _, ours in pairs)),
        "encoding_ratio_to_bare": round(statistics.median(loop / ours for loop, ours in pairs), 3),
        "times": times,
    }


if __name__ == "__main__":
    measured("W1 and encoding on one core.", 7, figures)
