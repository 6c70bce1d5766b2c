"""Potluck: federated learning when clients differ.

Run any method on any skew, exactly repeatable; then see which one helps, by how much, and at what cost.
"""

from __future__ import annotations

from potluck.algorithms import ALGORITHMS
from potluck.algorithms.alone import alone
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedavgm import fedavgm
from potluck.algorithms.fedbn import fedbn
from potluck.algorithms.feddisco import feddisco
from potluck.algorithms.feddisco_vae import feddisco_vae
from potluck.algorithms.feddisk import feddisk, feddisk_ab
from potluck.algorithms.fedep import fedep
from potluck.algorithms.fedex import fedex
from potluck.algorithms.fedloss import fedloss
from potluck.algorithms.fedmedian import fedmedian
from potluck.algorithms.fedpcl import fedpcl
from potluck.algorithms.fedprox import fedprox
from potluck.algorithms.fedrod import fedrod
from potluck.algorithms.fedvae import fedvae
from potluck.algorithms.pooled import pooled
from potluck.algorithms.scaffold import scaffold
from potluck.api import Result, compare, run
from potluck.average import Average
from potluck.core import Algorithm, Client, Inbox, Merged, Reply, Site, Stage
from potluck.data import Dataset, from_arrays, from_hugging_face, from_torch
from potluck.errors import BadInputError, RunError
from potluck.federation import Federation, Split
from potluck.key import Key
from potluck.learn import Fit, Plan
from potluck.model import Model
from potluck.table import Table
from potluck.version import __version__

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Average",
    "BadInputError",
    "Client",
    "Dataset",
    "Federation",
    "Fit",
    "Inbox",
    "Key",
    "Merged",
    "Model",
    "Plan",
    "Reply",
    "Result",
    "RunError",
    "Site",
    "Split",
    "Stage",
    "Table",
    "__version__",
    "alone",
    "compare",
    "fedavg",
    "fedavgm",
    "fedbn",
    "feddisco",
    "feddisco_vae",
    "feddisk",
    "feddisk_ab",
    "fedep",
    "fedex",
    "fedloss",
    "fedmedian",
    "fedpcl",
    "fedprox",
    "fedrod",
    "fedvae",
    "from_arrays",
    "from_hugging_face",
    "from_torch",
    "pooled",
    "run",
    "scaffold",
]
