"""SCAFFOLD and FedAvg on three quadratics: `measure` makes the record, the rest draws the figure from it.

    python docs/make_scaffold.py measure     # docs/records/scaffold/distance.json, a few seconds
    python docs/make_scaffold.py             # docs/pictures/scaffold.svg, and the sentence below it

Client k minimises (w - b_k)' A_k (w - b_k) / 2 in two dimensions, ten steps a round at rate 0.05, without noise.
"""

from __future__ import annotations

import json
import sys

import matplotlib as mpl
import numpy as np
import torch
from blocks import HERE, PICTURES, RECORDS, fill
from torch import Tensor, nn

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.scaffold import scaffold
from potluck.core import Algorithm
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.learn import Fit
from potluck.memory import Memories
from potluck.model import Model
from potluck.report.canvas import axes, dashed, figure
from potluck.report.palette import pen
from potluck.roles import Uniform
from potluck.rounds import rounds
from potluck.table import Table
from potluck.topology import Star
from potluck.transport import Inline
from potluck.transport.codec import Codec
from potluck.world import World

RECORD = RECORDS / "scaffold" / "distance.json"
PICTURE = PICTURES / "scaffold.svg"
HESSIANS = ((3.0, 0.8, 0.8, 0.6), (0.5, 0.0, 0.0, 2.5), (1.2, -0.6, -0.6, 1.8))
MINIMA = ((4.0, 0.0), (-2.0, 3.0), (0.0, -4.0))
ROUNDS = 60
FIT = Fit(lr=0.05, batch="all", steps=10)


class Bowl(nn.Module):
    """A quadratic in double precision; a row holds the Hessian and the minimum."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Return the height over the minimum, by row."""
        away = self.w - x[:, 4:]
        return 0.5 * torch.einsum("ni,nij,nj->n", away, x[:, :4].reshape(-1, 2, 2), away)


def height(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the loss of every row."""
    out: Tensor = module(x)
    return out


def distances(algorithm: Algorithm) -> list[float]:
    """Return the distance to the minimum of the clients' sum, after every round."""
    hessians = np.array(HESSIANS).reshape(-1, 2, 2)
    optimum = np.linalg.solve(hessians.sum(axis=0), np.einsum("kij,kj->i", hessians, np.array(MINIMA)))
    holders = []
    for hessian, minimum in zip(HESSIANS, MINIMA, strict=True):
        row = Table(torch.tensor([[*hessian, *minimum]], dtype=torch.float64), torch.zeros(1))
        holders.append(Holder(row, row.take(slice(0, 0)), row.take(slice(0, 0))))
    world = World(Federation(holders, {}, None, (6,)), Model(Bowl, loss=height), algorithm, Key.root(0))
    with Inline(world) as transport:
        steps = rounds(world, transport, Star(), Memories(Codec(algorithm.messages)))
        places = [step.states["server"].params["w"].numpy() for step in steps]
    return [float(np.linalg.norm(place - optimum)) for place in places]


def measure() -> None:
    """Run both methods and write the record."""
    found = {
        "fedavg": distances(fedavg(ROUNDS, FIT, weigh=Uniform())),
        "scaffold": distances(scaffold(ROUNDS, FIT)),
    }
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    command = "python docs/make_scaffold.py measure"
    RECORD.write_text(json.dumps({"command": command, "distance": found}) + "\n", encoding="utf-8")


def main() -> None:
    """Draw the figure from the record, and say where both end."""
    found: dict[str, list[float]] = json.loads(RECORD.read_text(encoding="utf-8"))["distance"]
    canvas = figure()
    area = axes(canvas, "Three clients, three different quadratics", "round", "distance to the optimum")
    area.set_yscale("log")
    for place, (label, values) in enumerate(found.items()):
        style = pen(place)
        area.plot(values, color=style.colour, linestyle=dashed(style), lw=2.2, label=label)
        area.annotate(label, (len(values) - 1, values[-1]), (-6, 8), textcoords="offset points", ha="right")
    PICTURE.parent.mkdir(exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "potluck"}):
        canvas.savefig(PICTURE, metadata={"Date": None})
    ends = {label: f"{values[-1]:.2g}" for label, values in found.items()}
    text = (
        f"After {ROUNDS} rounds FedAvg stands still {ends['fedavg']} away from the optimum; SCAFFOLD is "
        f"{ends['scaffold']} away, which is rounding."
    )
    fill(HERE / "algorithms" / "scaffold.md", "distance", text)


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    main()
