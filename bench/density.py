"""FedDisk's MADE (784 x 400): our training loop against a raw loop of plain PyTorch, interleaved.

python bench/density.py [--record FILE]     # one core, processor seconds, medians

The raw loop does the same arithmetic: the same masks, the same batches, fused Adam.
"""

from __future__ import annotations

import statistics

import torch
from clock import seconds
from command import Figures, measured
from torch import Tensor
from torch.nn import functional

from potluck.key import Key
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.made import MADE, degrees
from potluck.parts.density_model import Made
from potluck.table import Table

INPUTS, HIDDEN, BATCH, ROWS, EPOCHS = 784, 400, 32, 480, 4


def raw(x: Tensor, leaves: list[Tensor], masks: list[Tensor]) -> list[Tensor]:
    """Train copies of the leaves in a plain loop."""
    first, before, last, after = leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    descent = torch.optim.Adam(leaves, lr=1e-3, fused=True)
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(x)), BATCH):
            batch = x[rows]
            units = torch.relu(functional.linear(batch, first * masks[0], before))
            logits = functional.linear(units, last * masks[1], after)
            loss = functional.binary_cross_entropy_with_logits(logits, batch, reduction="none").sum(1).mean()
            descent.zero_grad()
            torch.autograd.backward(loss)
            descent.step()
    return leaves


def pair() -> tuple[float, float]:
    """Return the seconds of the raw loop and of ours."""
    given = Model(torch.nn.Identity, shape=(1, 28, 28))
    model = Made((HIDDEN,)).model(given)
    params = model.init(Key.root(0))
    made = model.load(params)
    assert isinstance(made, MADE)
    places, units = degrees(INPUTS, (HIDDEN,), "natural", 0)
    masks = [torch.from_numpy(mask).float() for mask in (units[:, None] >= places, places[:, None] > units)]
    leaves = [made.body[1].weight, made.body[1].bias, made.head.weight, made.head.bias]
    copies = [leaf.detach().clone() for leaf in leaves if isinstance(leaf, Tensor)]
    x = torch.rand(ROWS, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    flat, table = x.flatten(1), Table(x, torch.zeros(ROWS, dtype=torch.int64))
    fit = Fit("adam", lr=1e-3, batch=BATCH, epochs=EPOCHS)
    return seconds(lambda: raw(flat, copies, masks)), seconds(lambda: fit(model, params, table, Key.root(1)))


def figures(times: int) -> Figures:
    """Return the figures, medians of several measurements."""
    torch.set_num_threads(1)
    pair()
    pairs = [pair() for _ in range(times)]
    return {
        "made_rows_per_second": round(ROWS * EPOCHS / statistics.median(ours for _, ours in pairs)),
        "made_ratio_to_raw": round(statistics.median(loop / ours for loop, ours in pairs), 3),
        "times": times,
    }


if __name__ == "__main__":
    measured("MADE's training loop on one core.", 9, figures)
