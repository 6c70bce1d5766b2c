"""Latent codes of a table, and what may be said about them: how far from N(0, I), and whether they carry anything.

The distance of each dimension is the exact W1 (`wasserstein`); the divergence of each dimension, in nats and as a
mean over rows, monitors posterior collapse: near zero, a dimension carries nothing about its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from potluck.model import EVALUATION_BATCH
from potluck.models.vae import VAE, Code, collapsed, divergence
from potluck.parts.wasserstein import w1_to_normal
from potluck.table import Table

MOST_POINTS = 200


def encode(vae: VAE, table: Table) -> Code:
    """Return the posterior of every row, without gradients."""
    with torch.no_grad():
        if not len(table):
            return vae.encode(table.x)
        parts = [vae.encode(x) for x in torch.split(table.x, EVALUATION_BATCH)]
    return Code(torch.cat([part.mean for part in parts]), torch.cat([part.log_sigma for part in parts]))


def distances(z: Tensor) -> Tensor:
    """Return the distance of each latent dimension from N(0, 1); infinite without rows."""
    return torch.from_numpy(w1_to_normal(z.numpy()))


def monitor(code: Code) -> dict[str, Any]:
    """Return the mean divergence of each latent dimension, and how many dimensions have collapsed."""
    if not len(code.mean):
        return {}
    kl = divergence(code)
    return {"kl": kl.mean(dim=0), "collapsed": int(collapsed(kl).sum())}


def described(z: Tensor, code: Code, far: Tensor) -> Mapping[str, Any]:
    """Return what stays in a client's log: figures by dimension, and at most 200 codes to draw."""
    if not len(z):
        return {}
    step = -(-len(z) // MOST_POINTS)
    shown = z[::step, :2].double().round(decimals=4)
    return {"w1": far, **monitor(code), "latent/across": shown[:, 0], "latent/up": shown[:, -1]}
