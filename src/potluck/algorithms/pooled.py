"""Pooled training: one client that holds the union of all training rows. What federation would like to reach.

It is averaging over one client. A round is as many epochs over the union as a client does over its own rows.
Wire: nothing that a federation could offer; the rows themselves would have to move.
"""

from __future__ import annotations

from potluck.algorithms.fedavg import Rounds
from potluck.average import Average
from potluck.core import Algorithm
from potluck.learn import Fit


def pooled(rounds: Rounds = 10, fit: Fit = Fit()) -> Algorithm:
    """One model on everybody's rows; the upper reference of a comparison."""
    return Algorithm((Average(rounds, fit),), "pooled", setting="pooled")
