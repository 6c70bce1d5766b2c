"""Training alone: every client on its own rows, nothing exchanged. What federation has to beat.

It is averaging on a mesh without edges, so that it shares initial weights, participants and batches with
FedAvg. Wire: nothing. State: each client's own model.
"""

from __future__ import annotations

from potluck.algorithms.fedavg import Rounds
from potluck.average import Average
from potluck.core import Algorithm
from potluck.learn import Fit


def alone(rounds: Rounds = 10, fit: Fit = Fit()) -> Algorithm:
    """Every client trains by itself; the lower reference of a comparison."""
    return Algorithm((Average(rounds, fit),), "alone", setting="alone")
