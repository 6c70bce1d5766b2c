"""Density ratios: exact tables, Gaussians, equal clients, and the paper's estimator as it really is."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.models.density import gaussian_mixture
from potluck.models.made import MADE, made
from potluck.parts.judge import Judge
from potluck.parts.ratio import RATIOS, CpeSample, LogRatio, Paper, Ratio, Raw, normalised

torch.set_num_threads(1)

KEY = Key.root(7) / "ratio"


@dataclasses.dataclass(frozen=True, eq=False)
class Product:
    """Independent binary inputs: the exact density, with its constant conditional means."""

    means: Tensor

    def log_prob(self, x: Tensor) -> Tensor:
        logs: Tensor = x * self.means.log() + (1 - x) * (1 - self.means).log()
        return logs.sum(dim=1)

    def conditionals(self, x: Tensor) -> Tensor:
        return self.means.expand(len(x), -1)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        return (torch.rand(n, len(self.means), generator=generator) < self.means).float()


@dataclasses.dataclass(frozen=True, eq=False)
class Blend:
    """A mixture of two densities in equal parts."""

    one: Product
    two: Product

    def log_prob(self, x: Tensor) -> Tensor:
        return torch.logaddexp(self.one.log_prob(x), self.two.log_prob(x)) - math.log(2)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        both = self.one.sample(n, generator), self.two.sample(n, generator)
        return torch.where(torch.rand(n, 1, generator=generator) < 0.5, *both)


def ising(coupling: float, field: float, inputs: int = 8) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the table of a chain of spins over all binary rows."""
    rows = states(inputs).numpy().astype(np.float64) * 2 - 1
    energy = coupling * (rows[:, 1:] * rows[:, :-1]).sum(axis=1) + field * rows.sum(axis=1)
    table = np.exp(energy)
    return np.asarray(table / table.sum(), dtype=np.float64)


def states(inputs: int = 8) -> Tensor:
    grid = np.stack(np.unravel_index(np.arange(2**inputs), [2] * inputs), axis=1)
    return torch.from_numpy(grid).float()


def fitted(rows: Tensor, seed: int, epochs: int = 12) -> MADE:
    with Key.root(seed).ambient():
        model = made((rows.shape[1],), hidden=(100,), mask_seed=1)
    descent = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(descent, 0.7)
    dice = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for part in torch.split(torch.randperm(len(rows), generator=dice), 128):
            loss = -model.log_prob(rows[part]).mean()
            slopes = torch.autograd.grad(loss, list(model.parameters()))
            for leaf, slope in zip(model.parameters(), slopes, strict=True):
                leaf.grad = slope
            descent.step()
        schedule.step()
    return model


def test_the_log_ratio_of_trained_models_recovers_discrete_tables() -> None:
    draw = np.random.default_rng(0)
    tables = [ising(0.35, 0.15), ising(-0.2, -0.2)]
    rows = [states()[draw.choice(256, 20_000, p=table)] for table in tables]
    local, pooled = fitted(rows[0], 1), fitted(torch.cat(rows), 2)
    truth = (tables[0] + tables[1]) / 2 / tables[0]
    with torch.no_grad():
        alpha = LogRatio().log_alpha(states(), local, pooled, None, KEY).exp().numpy()
        on_rows = LogRatio().log_alpha(rows[0], local, pooled, None, KEY).exp()
    often = tables[0] * 20_000 >= 50
    assert often.sum() > 80
    assert np.median(np.abs(alpha[often] / truth[often] - 1)) <= 0.10
    assert float(on_rows.mean()) == pytest.approx(1, abs=0.03)
    weighed = LogRatio()(rows[0], local, pooled, None, KEY)
    assert weighed.note is None
    assert float(weighed.alpha.mean()) == pytest.approx(1, abs=1e-5)


def test_the_log_ratio_of_exact_densities_is_exact() -> None:
    one, two = Product(torch.tensor([0.2, 0.7, 0.5])), Product(torch.tensor([0.6, 0.3, 0.5]))
    x = states(3)
    truth = Blend(one, two).log_prob(x) - one.log_prob(x)
    assert torch.allclose(LogRatio().log_alpha(x, one, Blend(one, two), None, KEY).float(), truth, atol=1e-6)
    flat = LogRatio(temp="D").log_alpha(x, one, Blend(one, two), None, KEY)
    assert torch.allclose(flat.float(), truth / 3, atol=1e-6)
    assert torch.allclose(
        LogRatio(temp=2.0).log_alpha(x, one, two, None, KEY) * 2, (two.log_prob(x) - one.log_prob(x)).double()
    )


@pytest.mark.parametrize(("inputs", "judge"), [(1, Judge(optimizer="adam", lr=1e-3)), (2, Judge())])
def test_raw_rows_recover_the_ratio_of_gaussians(inputs: int, judge: Judge) -> None:
    mu = torch.full((inputs,), 0.5 / inputs**0.5)
    dice = torch.Generator().manual_seed(1)
    one = torch.randn(10_000, inputs, generator=dice) - mu
    two = torch.randn(10_000, inputs, generator=dice) + mu
    found = Raw(judge=judge)(one, None, None, torch.cat([one, two]), KEY).alpha.numpy()
    truth = 0.5 * (1 + np.exp(2 * (one @ mu).numpy()))
    truth /= truth.mean()
    assert np.median(np.abs(found / truth - 1)) <= 0.08
    assert np.corrcoef(np.log(found), np.log(truth))[0, 1] >= 0.95


def test_drawn_rows_recover_the_ratio_of_products() -> None:
    one, two = Product(torch.tensor([0.3, 0.5, 0.5])), Product(torch.tensor([0.7, 0.5, 0.4]))
    blend = Blend(one, two)
    x = one.sample(4000, torch.Generator().manual_seed(0))
    found = CpeSample(judge=Judge(lr=0.1, epochs=15))(x, one, blend, None, KEY).alpha
    truth = (blend.log_prob(x) - one.log_prob(x)).exp()
    assert (found / (truth / truth.mean()) - 1).abs().median() < 0.1
    assert np.corrcoef(found, truth)[0, 1] > 0.95


@pytest.mark.parametrize("link", ["odds", "prob"])
def test_the_papers_estimator_is_constant_on_independent_inputs(link: str) -> None:
    """Expected failure of the method: clients differ, and yet every row gets the same weight."""
    one, two = Product(torch.tensor([0.2, 0.8, 0.5, 0.3])), Product(torch.tensor([0.6, 0.4, 0.5, 0.7]))
    middle = Product((one.means + two.means) / 2)
    x = one.sample(600, torch.Generator().manual_seed(0))
    found = Paper(link="prob" if link == "prob" else "odds")(x, one, middle, None, KEY)
    assert float(found.alpha.std()) < 1e-6
    assert float(found.alpha.mean()) == 1
    truth = LogRatio()(x, one, middle, None, KEY).alpha
    assert float(truth.std()) > 0.3


def test_the_papers_links_differ_by_the_probability_of_local() -> None:
    local, pooled = fitted(states(4), 1, 3), fitted(states(4)[:9], 2, 3)
    odds = Paper(link="odds").log_alpha(states(4), local, pooled, None, KEY)
    prob = Paper(link="prob").log_alpha(states(4), local, pooled, None, KEY)
    assert torch.allclose(prob.exp(), odds.exp() / (1 + odds.exp()))
    assert float(odds.std()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RATIOS))
def test_equal_clients_get_weights_near_one(name: str) -> None:
    draw = np.random.default_rng(3)
    rows = states()[draw.choice(256, 40_000, p=ising(0.3, 0.1))]
    local, pooled = fitted(rows[:20_000], 1), fitted(rows, 2)
    estimator: Ratio = RATIOS[name]()
    alpha = estimator(rows[:20_000], local, pooled, rows, KEY).alpha
    assert float(((alpha > 0.8) & (alpha < 1.25)).float().mean()) >= 0.95


def test_equal_densities_give_exactly_one() -> None:
    same = Product(torch.tensor([0.2, 0.6]))
    x = same.sample(50, torch.Generator().manual_seed(0))
    assert torch.equal(LogRatio()(x, same, same, None, KEY).alpha, torch.ones(50))


@pytest.mark.parametrize("name", sorted(RATIOS))
def test_one_key_gives_one_answer_and_global_streams_stay(name: str) -> None:
    x = (torch.rand(60, 5, generator=torch.Generator().manual_seed(0)) < 0.4).float()
    local, pooled = fitted(x[:30], 1, 2), fitted(x, 2, 2)
    estimator = RATIOS[name]()
    before = torch.get_rng_state()
    one = estimator(x[:30], local, pooled, x, KEY)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.alpha, estimator(x[:30], local, pooled, x, KEY).alpha)
    assert one.alpha.dtype == torch.float32
    assert not one.alpha.requires_grad
    assert float(one.alpha.mean()) == pytest.approx(1, abs=1e-5)
    if name != "log_ratio":
        assert not torch.equal(one.alpha, estimator(x[:30], local, pooled, x, KEY / "other").alpha)
    assert estimator.leaks == (name == "raw")


@pytest.mark.parametrize("name", sorted(RATIOS))
def test_images_are_flattened_and_tiny_clients_weigh_one(name: str) -> None:
    dice = torch.Generator().manual_seed(0)
    x = torch.rand(12, 1, 3, 3, generator=dice)
    local, pooled = made((1, 3, 3)), made((1, 3, 3))
    estimator = RATIOS[name]()
    assert estimator(x, local, pooled, torch.rand(40, 1, 3, 3, generator=dice), KEY).alpha.shape == (12,)
    assert estimator(x[:1], local, pooled, x, KEY) == (torch.ones(1), "single_row")
    assert len(estimator(x[:0], local, pooled, x, KEY).alpha) == 0
    assert estimator(x[:0], local, pooled, x, KEY).note is None


def test_nan_gives_ones_and_a_reason() -> None:
    one = Product(torch.tensor([0.2, float("nan")]))
    x = torch.zeros(4, 2)
    found = LogRatio()(x, one, Product(torch.tensor([0.2, 0.5])), None, KEY)
    assert torch.equal(found.alpha, torch.ones(4))
    assert found.note == "nonfinite_ratio"


def test_clipping_and_the_mean() -> None:
    logs = torch.tensor([-50.0, 0.0, 50.0, float("inf")])
    alpha = normalised(logs, 20.0).alpha
    assert (alpha / alpha[1]).tolist() == pytest.approx([1 / 20, 1, 20, 20], rel=1e-6)
    assert float(alpha.mean()) == pytest.approx(1, abs=1e-6)
    assert torch.equal(normalised(torch.full((7,), -90.0), 20.0).alpha, torch.ones(7))


def test_the_judge_corrects_for_unequal_samples() -> None:
    draw = torch.Generator().manual_seed(0)
    zeros, ones = torch.randn(3000, 1, generator=draw), torch.randn(1000, 1, generator=draw)
    odds = Judge(lr=0.05, epochs=10)(zeros, ones, KEY).log_odds(zeros)
    assert float(odds.abs().median()) < 0.3


def test_what_is_missing_is_named() -> None:
    x, bells = torch.rand(5, 2), gaussian_mixture((2,))
    for estimator, words in (
        (LogRatio(), "train both first"),
        (CpeSample(), "train both first"),
        (Raw(), "rows of all clients"),
    ):
        with pytest.raises(BadInputError, match=words):
            estimator(x, None, None, None, KEY)
    with pytest.raises(BadInputError, match='use model "made"'):
        Paper()(x, bells, bells, None, KEY)


def test_options_are_checked_when_they_come_from_a_configuration() -> None:
    paper = TypeAdapter(Paper).validate_python({"link": "prob", "judge": {"epochs": 3}})
    assert paper == Paper(link="prob", judge=Judge(epochs=3))
    for kind, bad in ((Paper, {"link": "logit"}), (LogRatio, {"temp": 0}), (Raw, {"clip": 1})):
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(bad)
