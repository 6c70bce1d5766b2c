"""Label mixtures: EM climbs, equal labels give equal bits, sklearn agrees, awkward labels are survived."""

from __future__ import annotations

import math
import time
import warnings

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from potluck.parts.counted import Counted, counted
from potluck.parts.mixture import Mixture, MixtureFit, climb, single

histograms = some.lists(some.integers(0, 300), min_size=1, max_size=20).filter(any)


def of_counts(counts: list[int]) -> Counted:
    array = np.asarray(counts, dtype=np.int64)
    places = np.flatnonzero(array)
    return Counted(places.astype(np.float64), array[places])


def loglik(mixture: Mixture, data: Counted) -> float:
    bells = norm.pdf(data.values[:, None], mixture.mu, np.sqrt(mixture.s2)) @ mixture.pi
    return float(data.counts @ np.log(bells))


@given(histograms, some.integers(1, 5), some.sampled_from(["quantile", "random"]), some.booleans())
@settings(deadline=None, max_examples=250)
def test_em_never_lowers_the_likelihood(counts: list[int], components: int, init: str, tight: bool) -> None:
    data = of_counts(counts)
    components = min(components, len(data.values))
    fit = MixtureFit(init="random" if init == "random" else "quantile", v_min=1e-2 if tight else 0.2)
    starts = [fit.start(data, components, trial) for trial in range(4)]
    for found in climb(data, starts, fit.v_min, fit.tol, fit.iterations):
        steps = np.diff(found.trace)
        assert (steps >= -1e-8 * np.maximum(1, np.abs(found.trace[1:]))).all()
        assert found.loglik == found.trace[-1]
        assert (found.mixture.s2 >= fit.v_min).all()
        assert found.mixture.pi.sum() == pytest.approx(1, abs=1e-9)
    best = fit.orders(data, [components])[0]
    assert best.loglik >= single(data, fit.v_min).loglik


@given(histograms)
@settings(deadline=None, max_examples=100)
def test_the_fit_is_a_proper_mixture_within_its_size(counts: list[int]) -> None:
    data = of_counts(counts)
    mixture, reached, bic = MixtureFit()(data)
    most = max(1, math.ceil(len(data.values) / 2))
    assert len(mixture.pi) == len(mixture.mu) == len(mixture.s2) <= most
    assert (mixture.pi > 0).all()
    assert mixture.pi.sum() == pytest.approx(1, abs=1e-12)
    assert (mixture.s2 >= 1e-2).all()
    assert all(part.dtype == np.float64 for part in mixture)
    assert reached >= single(data, 1e-2).loglik
    assert bic <= -2 * single(data, 1e-2).loglik + 2 * math.log(data.rows) + 1e-9


@pytest.mark.parametrize("init", ["quantile", "random"])
def test_equal_label_multisets_give_equal_bits(init: str) -> None:
    labels = np.random.default_rng(3).choice(10, 800, p=np.random.default_rng(4).dirichlet(np.ones(10)))
    fit = MixtureFit(init="random" if init == "random" else "quantile")
    one = fit(counted(labels)).mixture
    for other in (labels[::-1], np.sort(labels), labels.astype(np.float64), labels.astype(np.uint8)):
        two = fit(counted(other)).mixture
        assert [part.tobytes() for part in one] == [part.tobytes() for part in two]


@given(
    some.lists(some.integers(1, 300), min_size=8, max_size=20),
    some.integers(1, 4),
    some.sampled_from([1, 7, 60]),
)
@settings(deadline=None, max_examples=60)
def test_agreement_with_scikit_learn_step_by_step(counts: list[int], components: int, steps: int) -> None:
    data = of_counts(counts)
    start = MixtureFit().start(data, components, 0)
    ours = climb(data, [start], 1e-12, 0.0, steps)[0]
    assume(len(ours.trace) == steps + 1)
    assume(ours.mixture.s2.min() > 1e-2)
    assume(ours.mixture.pi.min() > 1e-6)
    theirs = GaussianMixture(
        components,
        tol=0.0,
        reg_covar=0.0,
        max_iter=steps,
        weights_init=start.pi,
        means_init=start.mu[:, None],
        precisions_init=(1 / start.s2)[:, None, None],
    )
    labels = np.repeat(data.values, data.counts)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(labels)
    assert theirs.n_iter_ == steps
    assert ours.loglik == pytest.approx(theirs.score(labels) * data.rows, abs=1e-6)
    assert ours.mixture.mu == pytest.approx(theirs.means_[:, 0], abs=1e-6)


def test_log_density_agrees_with_scipy_and_does_not_underflow() -> None:
    mixture = Mixture(np.array([0.3, 0.7]), np.array([1.0, 4.0]), np.array([0.5, 2.0]))
    points = np.linspace(-3, 9, 25)
    expected = norm.pdf(points[:, None], mixture.mu, np.sqrt(mixture.s2)) @ mixture.pi
    assert np.exp(mixture.log_density(points)) == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(Mixture(np.ones(1), np.zeros(1), np.full(1, 1e-2)).log_density(np.array([1e3]))).all()
    data = counted(np.array([0, 1, 4, 4, 5]))
    found = MixtureFit()(data)
    assert found.loglik == pytest.approx(loglik(found.mixture, data), abs=1e-9)


def test_bic_counts_the_parameters_it_says() -> None:
    data = of_counts([40, 3, 0, 25, 60, 2, 9, 30])
    for rule, parameters in (("3M-1", [2, 5, 8, 11]), ("M", [1, 2, 3, 4]), ("M-1", [0, 1, 2, 3])):
        fit = MixtureFit(bic_penalty="M" if rule == "M" else "M-1" if rule == "M-1" else "3M-1")
        climbs = fit.orders(data, [1, 2, 3, 4])
        scores = [-2 * c.loglik + p * math.log(data.rows) for c, p in zip(climbs, parameters, strict=True)]
        assert fit(data).bic == min(scores)


def test_two_far_classes_are_two_spikes() -> None:
    mixture = MixtureFit(rho=1.0)(counted(np.repeat([1, 8], [30, 10]))).mixture
    assert mixture.mu == pytest.approx([1, 8], abs=1e-9)
    assert mixture.pi == pytest.approx([0.75, 0.25], abs=1e-9)
    assert mixture.s2.tolist() == [1e-2, 1e-2]


@pytest.mark.parametrize("labels", [[7], [3] * 500, [0, 9], [2, 61, 61, 40]])
def test_awkward_labels(labels: list[int]) -> None:
    mixture = MixtureFit()(counted(labels)).mixture
    assert all(np.isfinite(part).all() for part in mixture)
    if len(set(labels)) == 1:
        assert [part.tolist() for part in mixture] == [[1.0], [float(labels[0])], [1e-2]]


def test_no_rows_give_no_components() -> None:
    assert [len(part) for part in MixtureFit()(counted([])).mixture] == [0, 0, 0]
    assert MixtureFit()(counted([])).mixture.log_density(np.arange(3.0)).tolist() == [-np.inf] * 3


def test_a_start_with_nan_fails_alone_and_the_fit_falls_back() -> None:
    data = of_counts([5, 9, 0, 4, 7])
    good = MixtureFit().start(data, 2, 0)
    broken = Mixture(good.pi, np.array([np.nan, 1.0]), good.s2)
    alone, beside = climb(data, [good], 1e-2, 1e-9, 1500)[0], climb(data, [broken, good], 1e-2, 1e-9, 1500)
    assert not np.isfinite(beside[0].loglik)
    assert beside[1].loglik == alone.loglik
    huge = Counted(np.array([-1e200, 0.0, 1e200]), np.array([1, 1, 1]))
    with np.errstate(over="ignore", invalid="ignore"):
        assert len(MixtureFit(rho=1.0).orders(huge, [3])[0].mixture.pi) == 1


def test_more_starts_are_never_worse() -> None:
    data = of_counts([50, 2, 31, 0, 0, 77, 8, 3, 60, 12])
    reached = [MixtureFit(n_init=n).orders(data, [4])[0].loglik for n in (1, 2, 3, 8)]
    assert reached == sorted(reached)


def test_real_targets_are_fitted_fast_and_bounded() -> None:
    draw = np.random.default_rng(0)
    targets = np.concatenate([draw.normal(-4, 1, 100_000), draw.normal(5, 2, 100_000)])
    begin = time.perf_counter()
    mixture = MixtureFit(max_components=4)(counted(targets)).mixture
    assert time.perf_counter() - begin < 5
    assert len(mixture.pi) <= 4
    grid: npt.NDArray[np.float64] = np.linspace(-12, 16, 400)
    truth = 0.5 * norm.pdf(grid, -4, 1) + 0.5 * norm.pdf(grid, 5, 2)
    assert np.abs(np.exp(mixture.log_density(grid)) - truth).max() < 0.01
    assert MixtureFit().largest(counted(targets)) == 10
    assert MixtureFit().largest(counted(np.arange(62))) == 31
    assert MixtureFit().largest(counted(np.arange(400))) == 10


def test_the_cost_does_not_grow_with_the_rows() -> None:
    shares = np.random.default_rng(0).dirichlet(np.full(10, 5.0))
    few = of_counts(np.maximum(1, shares * 1_000).astype(np.int64).tolist())
    many = Counted(few.values, few.counts * (10_000_000 // few.rows + 1))
    assert few.rows <= 1_000 < 10_000_000 <= many.rows
    fit = MixtureFit()
    for components in range(2, 6):
        starts = [[fit.start(data, components, trial) for trial in range(3)] for data in (few, many)]
        climbs = [
            climb(data, each, fit.v_min, fit.tol, 1500)
            for data, each in zip((few, many), starts, strict=True)
        ]
        assert [len(one.trace) for one in climbs[0]] == [len(one.trace) for one in climbs[1]]
    spent = {id(data): math.inf for data in (few, many)}
    for _ in range(40):
        for data in (few, many):
            begin = time.process_time()
            fit(data)
            spent[id(data)] = min(spent[id(data)], time.process_time() - begin)
        if 1 / 1.2 < spent[id(many)] / spent[id(few)] < 1.2:
            break
    assert spent[id(many)] == pytest.approx(spent[id(few)], rel=0.2)


def test_random_starts_pick_rows_without_replacement() -> None:
    data = counted(np.array([1, 2, 3, 4]))
    for trial in range(20):
        start = MixtureFit(init="random").start(data, 4, trial)
        assert sorted(start.mu.tolist()) == [1, 2, 3, 4]
        assert start.pi.sum() == pytest.approx(1)
        assert start.s2.tolist() == [1.25] * 4
