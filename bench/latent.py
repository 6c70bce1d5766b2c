"""FedDisco with a beta-VAE: W1 of 60,000 rows in 32 dimensions, and encoding against a bare forward loop.

python bench/latent.py [--record FILE]     # one core, processor seconds, medians
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from potluck.key import Key
from potluck.models.vae import VAE, vae
from potluck.parts.latent_codes import encode
from potluck.parts.wasserstein import w1_to_normal
from potluck.table import Table

ROWS, DIMENSIONS, BATCH = 60_000, 32, 500


def seconds(work: Callable[[], object]) -> float:
    """Return how many seconds of the processor one call takes, whatever else runs beside it."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


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


def main() -> None:
    """Measure and print; with --record also store the figures."""
    parser = argparse.ArgumentParser(description="W1 and encoding on one core.")
    parser.add_argument("--times", type=int, default=7, help="how often each measurement is taken")
    parser.add_argument("--record", type=Path, help="a JSON file to store the figures in")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sample = np.random.default_rng(0).normal(size=(ROWS, DIMENSIONS))
    spent = [seconds(lambda: w1_to_normal(sample)) for _ in range(arguments.times)]
    pairs = [encoding() for _ in range(arguments.times)]
    figures = {
        "w1_seconds": round(statistics.median(spent), 3),
        "w1_seconds_best": round(min(spent), 3),
        "encoding_rows_per_second": round(ROWS / statistics.median(ours for _, ours in pairs)),
        "encoding_ratio_to_bare": round(statistics.median(loop / ours for loop, ours in pairs), 3),
        "times": arguments.times,
    }
    for name, value in figures.items():
        print(f"{name:40} {value}")
    if arguments.record:
        arguments.record.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
