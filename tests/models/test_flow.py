"""The normalising flow of the package zuko: a density, shared and trained like any other network."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import multivariate_normal
from torch import Tensor, nn

from potluck.key import Key
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.density import Density
from potluck.models.flow import Flow
from potluck.parts.density_model import NormalisingFlow
from potluck.table import Table
from potluck.tree import Params

MIX = torch.tensor([[1.0, 0.6], [0.0, 0.8]])
GIVEN = Model(lambda: nn.Linear(2, 2), shape=(2,), classes=2)
MODEL = NormalisingFlow(transforms=1, hidden=(16,)).model(GIVEN)
FIT = Fit("adam", lr=1e-2, batch=500, epochs=10)


def rows(n: int, seed: int) -> Table:
    """Draw from N(0, MIX^T MIX)."""
    drawn = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed)) @ MIX
    return Table(drawn, torch.zeros(n, dtype=torch.int64))


def loaded(params: Params) -> Flow:
    module = MODEL.load(params).eval()
    assert isinstance(module, Flow)
    assert isinstance(module, Density)
    return module


def mass(flow: Flow) -> float:
    """Add up the density over a fine grid that holds nearly all of it."""
    grid = torch.linspace(-8, 8, 161)
    with torch.no_grad():
        return float(flow.log_prob(torch.cartesian_prod(grid, grid)).exp().sum()) * 0.1**2


def gap(flow: Flow, x: Tensor) -> float:
    """Return KL(truth || flow), estimated on rows of the truth."""
    truth = multivariate_normal(np.zeros(2), (MIX.T @ MIX).numpy()).logpdf(x.numpy())
    with torch.no_grad():
        return float(np.mean(truth - flow.log_prob(x).numpy()))


def test_two_clients_average_a_flow_that_fits_their_common_rows() -> None:
    params, tables = MODEL.init(Key.root(0)), [rows(2000, 1), rows(2000, 2)]
    held_out = rows(4000, 3).x
    before = gap(loaded(params), held_out)
    for number in range(3):
        one, two = (FIT(MODEL, params, table, Key.root(number)).params for table in tables)
        params = {name: (one[name] + two[name]) / 2 for name in params}
    flow = loaded(params)
    assert abs(mass(flow) - 1) < 1e-3
    assert before > 0.2
    assert gap(flow, held_out) < 0.05
    drawn = flow.sample(4000, torch.Generator().manual_seed(4))
    assert torch.equal(drawn, flow.sample(4000, torch.Generator().manual_seed(4)))
    assert torch.allclose(drawn.T.cov(), MIX.T @ MIX, atol=0.15)


def test_equal_keys_give_equal_flows_and_nothing_but_weights_travels() -> None:
    one, two = MODEL.init(Key.root(5)), MODEL.init(Key.root(5))
    assert one.keys() == two.keys() == {name for name, _ in MODEL.module.named_parameters()}
    assert all(torch.equal(one[name], two[name]) for name in one)
