"""FedPCL with and without a backbone from another data set: `measure` makes the records, the rest draws from them.

    python docs/make_fedpcl.py measure --data-dir DIR     # docs/records/fedpcl; needs MNIST and Fashion-MNIST
    python docs/make_fedpcl.py                            # the generated part of docs/algorithms/fedpcl.md

A LeNet is trained on all of Fashion-MNIST; its body is then frozen at twenty clients that hold a few MNIST digits.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path

import torch
from blocks import HERE, RECORDS, fill, runs, terminal
from safetensors.torch import save_file
from store import store

from potluck.config import experiment
from potluck.data.places import Places
from potluck.memory import Memories
from potluck.rounds import rounds
from potluck.run import Options, compare_all
from potluck.topology import Star
from potluck.transport import Inline
from potluck.transport.codec import Codec

BACKBONE = "fashion-lenet.safetensors"
COMMAND = "python docs/make_fedpcl.py measure --data-dir DIR"
ADAM = {"optimizer": "adam", "lr": 0.001, "batch": 32}
TEACHER = {
    "name": "backbone",
    "data": {"name": "fashion-mnist"},
    "partition": {"name": "iid", "clients": 1},
    "split": {"val": 0.0, "test": 0.0},
    "model": {"name": "lenet"},
    "algorithm": {"name": "pooled", "rounds": 4, "fit": ADAM},
}
PUPILS = {
    "name": "fedpcl",
    "seeds": [0, 1, 2],
    "data": {"name": "mnist"},
    "partition": {"name": "dirichlet", "beta": 0.5, "clients": 20},
    "split": {"val": 0.0, "test": 0.95},
    "model": {"name": "lenet"},
    "algorithm": {"name": "fedpcl", "rounds": 30, "fit": ADAM},
    "evaluate": {"every": 10},
    "compare": [
        {"label": "fedpcl, backbone", "name": "fedpcl", "backbone": BACKBONE},
        {"label": "fedpcl, scratch", "name": "fedpcl"},
        {"label": "alone", "name": "alone"},
        {"label": "fedavg", "name": "fedavg"},
    ],
}


def teach(places: Places) -> None:
    """Train the backbone and write it into the current folder."""
    world = experiment(TEACHER).world(0, None, places)
    memories = Memories(Codec(world.algorithm.messages))
    with Inline(world) as transport:
        *_, last = rounds(world, transport, Star(), memories)
    save_file(last.states["server"].params, BACKBONE)


def measure(data: list[Path]) -> None:
    """Train the backbone, run the comparison, and store its records."""
    torch.set_num_threads(1)
    places = Places.usual([path.resolve() for path in data])
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        teach(places)
        variants = experiment(PUPILS).variants()
        compare_all(variants, Path("runs"), Options(places=places, command=COMMAND))
        for position, label in enumerate(variants):
            store(Path("runs") / label, RECORDS / "fedpcl" / f"{position}-{label.replace(', ', '-')}")


def main() -> None:
    """Fill the generated part of the page."""
    fill(HERE / "algorithms" / "fedpcl.md", "backbone", f"```text\n{terminal(runs('fedpcl'))}\n```")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["page", "measure"], default="page")
    parser.add_argument("--data-dir", action="append", type=Path, default=[])
    chosen = parser.parse_args()
    if chosen.what == "measure":
        measure(chosen.data_dir)
    main()
