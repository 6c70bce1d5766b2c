"""Pooling label distributions: the published oracles, the listing, fallbacks, and bad messages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn
from pydantic import TypeAdapter, ValidationError
from scipy.stats import norm

from potluck.errors import BadInputError
from potluck.parts.counted import counted, histogram
from potluck.parts.mixture import Mixture, MixtureFit
from potluck.parts.pooling import Pooling, check, probabilities
from potluck.parts.support import every_class, quadrature, seen_labels

Floats = npt.NDArray[np.float64]

NIID2 = [np.full(10, 100.0)] + [np.repeat(np.eye(5)[i], 2) * 500.0 for i in range(5)]
"""One client with all classes, five with two classes each."""


@some.composite
def mixtures(draw: DrawFn) -> Mixture:
    m = draw(some.integers(1, 5))
    weights = np.asarray(draw(some.lists(some.floats(0.05, 1), min_size=m, max_size=m)))
    mu = np.asarray(draw(some.lists(some.floats(-1, 10), min_size=m, max_size=m)))
    s2 = np.asarray(draw(some.lists(some.floats(0.01, 9), min_size=m, max_size=m)))
    return Mixture(weights / weights.sum(), mu, s2)


def share(raw: Floats) -> Floats:
    return np.asarray(raw / raw.sum(), dtype=np.float64)


def text_oracle(tables: Sequence[Floats], sizes: Sequence[int], eps: float) -> Floats:
    p = np.asarray(sizes) / np.sum(sizes)
    smooth = [(t / t.sum() + eps) / (1 + len(t) * eps) for t in tables]
    pooled = sum(a * s for a, s in zip(p, smooth, strict=True))
    return np.asarray([np.sum(pooled * np.log(pooled / s)) for s in smooth])


def listing_oracle(thetas: Sequence[Floats], sizes: Sequence[int], labels: Sequence[int]) -> Floats:
    """Compute the alphas of the thesis' listing 5.2, written from its text with loops."""
    gaussian_epsilon, prediction_epsilon = 1e-1, 1e-2

    def gaussian(y: int, mu: Floats, s2: Floats) -> Floats:
        top = np.exp(-np.square(y - mu + gaussian_epsilon) / (2 * (s2 + gaussian_epsilon)))
        return np.asarray(top / np.sqrt(2 * np.pi * (s2 + gaussian_epsilon)))

    total = sum(sizes)
    scaled = [
        np.array([[round(float(row[0] * (n / total)), 5), row[1], row[2]] for row in theta])
        for theta, n in zip(thetas, sizes, strict=True)
    ]
    pooled = [
        sum(float(np.sum(theta[:, 0] * gaussian(y, theta[:, 1], theta[:, 2]))) for theta in scaled)
        for y in labels
    ]
    kls = []
    for theta in scaled:
        own = [np.round(np.sum(theta[:, 0] * gaussian(y, theta[:, 1], theta[:, 2])), 4) for y in labels]
        kls.append(
            sum(
                p * np.log2((p + prediction_epsilon) / (q + prediction_epsilon))
                for p, q in zip(pooled, own, strict=True)
            )
        )
    return np.asarray(np.asarray(kls) / sum(kls), dtype=np.float64)


def test_four_disjoint_classes_weigh_the_same() -> None:
    told = [row * 50.0 for row in np.eye(4)]
    for pooling in (Pooling(), Pooling(kl_scale="listing"), Pooling(direction="inverse")):
        assert share(pooling(told, [50] * 4, every_class(4)).raw) == pytest.approx(
            np.full(4, 0.25), abs=1e-12
        )


@pytest.mark.parametrize(
    ("pooling", "expected", "tolerance"),
    [
        (Pooling(), [0, 0.2], 1e-9),
        (Pooling(eps_class=1e-2), [0, 0.2], 1e-9),
        (Pooling(kl_scale="listing"), [0.1267, 0.1747], 2e-4),
        (Pooling(direction="inverse", eps_inv=1e-12), [1, 0], 1e-9),
        (Pooling(direction="inverse", eps_inv=1e-2), [0.970, 0.006], 5e-4),
    ],
)
def test_one_unbiased_client_and_five_of_two_classes(
    pooling: Pooling, expected: list[float], tolerance: float
) -> None:
    alpha = share(pooling(NIID2, [1000] * 6, every_class(10)).raw)
    assert alpha == pytest.approx(np.array([expected[0]] + [expected[1]] * 5), abs=tolerance)


@given(some.lists(mixtures(), min_size=2, max_size=6), some.data())
@settings(deadline=None, max_examples=150)
def test_the_listing_is_reproduced(thetas: list[Mixture], data: some.DataObject) -> None:
    sizes = data.draw(some.lists(some.integers(50, 5000), min_size=len(thetas), max_size=len(thetas)))
    expected = listing_oracle([np.column_stack(theta) for theta in thetas], sizes, range(10))
    found = Pooling(kl_scale="listing")(thetas, sizes, every_class(10))
    assert share(found.raw) == pytest.approx(np.maximum(expected, 0), abs=1e-6)
    assert not found.notes


def test_the_listing_favours_small_clients_of_one_distribution() -> None:
    theta = Mixture(np.ones(1), np.array([4.5]), np.array([8.0]))
    alpha = share(Pooling(kl_scale="listing")([theta] * 3, [5000, 5000, 100], every_class(10)).raw)
    assert alpha[2] > 0.5


@given(
    some.lists(some.lists(some.integers(0, 40), min_size=6, max_size=6).filter(any), min_size=1, max_size=6),
    some.sampled_from([1e-3, 1e-2, 0.1]),
)
@settings(deadline=None, max_examples=150)
def test_the_text_is_reproduced(rows: list[list[int]], eps: float) -> None:
    tables, sizes = [np.asarray(row, dtype=np.float64) for row in rows], [sum(row) for row in rows]
    found = Pooling(eps_class=eps)(tables, sizes, every_class(6))
    assert found.kl == pytest.approx(text_oracle(tables, sizes, eps), abs=1e-12)
    assert (found.kl >= 0).all()
    assert (found.raw >= 0).all()
    assert np.isfinite(found.raw).all()
    assert found.raw.sum() > 0


@given(some.lists(mixtures(), min_size=2, max_size=6), some.randoms(use_true_random=False))
@settings(deadline=None, max_examples=80)
def test_clients_renumbered_are_weights_renumbered(thetas: list[Mixture], dice: object) -> None:
    sizes = [100 * (k + 1) for k in range(len(thetas))]
    order = np.random.default_rng(len(thetas)).permutation(len(thetas))
    for pooling in (Pooling(), Pooling(kl_scale="listing"), Pooling(direction="inverse")):
        plain = pooling(thetas, sizes, every_class(10)).raw
        moved = pooling([thetas[k] for k in order], [sizes[k] for k in order], every_class(10)).raw
        assert moved == pytest.approx(plain[order], rel=1e-9, abs=1e-12)


def test_equal_label_multisets_get_bit_identical_weights() -> None:
    labels = np.random.default_rng(0).choice(10, 700, p=np.random.default_rng(1).dirichlet(np.ones(10)))
    other = MixtureFit()(counted(np.arange(10))).mixture
    thetas = [MixtureFit()(counted(labels)).mixture, other, MixtureFit()(counted(labels[::-1])).mixture]
    for pooling in (Pooling(), Pooling(kl_scale="listing"), Pooling(direction="inverse")):
        raw = pooling(thetas, [700, 10, 700], every_class(10)).raw
        assert raw[0] == raw[2]
        assert raw[0] != raw[1]


def test_the_smoothing_mass_is_shared_by_the_classes() -> None:
    tables = [np.eye(62)[k] * 10 for k in (0, 5)]
    whole = Pooling(eps_mass=0.1)(tables, [10, 10], every_class(62)).kl
    assert whole == pytest.approx(text_oracle(tables, [10, 10], 0.1 / 62), abs=1e-12)
    assert Pooling(eps_mass=0.62)(tables, [10, 10], every_class(62)).kl == pytest.approx(
        Pooling(eps_class=1e-2)(tables, [10, 10], every_class(62)).kl, abs=1e-12
    )


@pytest.mark.parametrize("direction", ["proportional", "inverse"])
def test_equal_clients_fall_back_to_their_sizes(direction: str) -> None:
    pooling = Pooling(direction="inverse" if direction == "inverse" else "proportional")
    found = pooling([np.ones(10)] * 3, [30, 10, 20], every_class(10))
    assert found.raw.tolist() == [30, 10, 20]
    assert dict(found.notes) == dict.fromkeys(range(3), "zero_divergence")
    alone = pooling([np.ones(10)], [7], every_class(10))
    assert alone.raw.tolist() == [7]


def test_noise_below_the_floor_counts_as_nothing() -> None:
    draw = np.random.default_rng(0)
    alike = [draw.multinomial(500, np.full(10, 0.1)).astype(np.float64) for _ in range(40)]
    pooling = Pooling(kl_noise_floor="recommended")
    found = pooling(alike, [500] * 40, every_class(10))
    assert found.raw.tolist() == [500.0] * 40
    assert set(found.notes.values()) == {"zero_divergence"}
    odd = pooling([*alike, np.eye(10)[3] * 500], [500] * 41, every_class(10))
    assert (odd.raw[:40] == 0).all()
    assert odd.raw[40] == odd.kl[40] > 0.5
    assert pooling.floor(np.array([10.0, 500.0, 1e6]), 10) == pytest.approx([2.25, 0.045, 0.02])
    assert (Pooling(kl_noise_floor=9.0)(NIID2, [1000] * 6, every_class(10)).raw == 1000).all()
    inverse = Pooling(direction="inverse", kl_noise_floor="recommended")
    assert inverse([*alike, np.eye(10)[3] * 500], [500] * 41, every_class(10)).raw[:40] == pytest.approx(100)


def test_support_of_somebody_else_hides_classes() -> None:
    thetas = [MixtureFit(rho=1.0)(counted(labels)).mixture for labels in ([0, 0, 1], [8, 9, 9], [0, 9, 9])]
    everything = share(Pooling()(thetas, [3, 3, 3], every_class(10)).raw)
    own = share(Pooling()(thetas, [3, 3, 3], seen_labels([0, 0, 1])).raw)
    assert seen_labels([7, 1, 1]).points.tolist() == [1, 7]
    assert np.abs(own - everything).max() > 0.05
    assert np.isfinite(own).all()
    counts = [histogram(labels, 10) for labels in ([0, 0, 1], [8, 9, 9])]
    assert probabilities(counts[0], seen_labels([0, 1, 9])).tolist() == [2 / 3, 1 / 3, 0]
    assert probabilities(counts[1], seen_labels([0, 1])).tolist() == [0.5, 0.5]


def test_real_labels_are_compared_on_a_grid() -> None:
    thetas = [
        Mixture(np.ones(1), np.array([m]), np.array([s])) for m, s in ((0.0, 1.0), (3.0, 1.0), (0.0, 1.0))
    ]
    fine, coarse = quadrature(thetas, 4000), quadrature(thetas, 400)
    for grid in (fine, coarse):
        pmf = probabilities(thetas[0], grid)
        assert pmf.sum() == pytest.approx(1, abs=1e-12)
        assert pmf == pytest.approx(norm.pdf(grid.points) * grid.width, abs=1e-6)
        assert grid.points[0] - grid.width / 2 == pytest.approx(-5)
        assert grid.points[-1] + grid.width / 2 == pytest.approx(8)
    tight = Pooling(eps_mass=1e-9)
    kl = tight(thetas, [10, 10, 20], fine).kl
    assert kl == pytest.approx(tight(thetas, [10, 10, 20], coarse).kl, rel=1e-3)
    y = np.linspace(-12, 15, 200_001)
    first, second = norm.logpdf(y), norm.logpdf(y, 3)
    pooled = 0.75 * np.exp(first) + 0.25 * np.exp(second)
    truth = [float(np.trapezoid(pooled * (np.log(pooled) - own), y)) for own in (first, second, first)]
    assert kl == pytest.approx(truth, rel=2e-3)


def test_counts_cannot_be_pooled_on_a_grid() -> None:
    with pytest.raises(BadInputError, match="send mixtures"):
        Pooling()([np.ones(3)], [3], quadrature([Mixture(np.ones(1), np.zeros(1), np.ones(1))], 10))


@pytest.mark.parametrize(
    ("mixture", "reason"),
    [
        (Mixture(np.array([np.nan]), np.ones(1), np.ones(1)), "nonfinite_mixture"),
        (Mixture(np.ones(1), np.array([np.inf]), np.ones(1)), "nonfinite_mixture"),
        (Mixture(np.ones(1), np.ones(1), np.array([-1.0])), "negative_variance"),
        (Mixture(np.ones(1), np.ones(1), np.zeros(1)), "negative_variance"),
        (Mixture(np.ones(2), np.ones(1), np.ones(1)), "wrong_length"),
        (Mixture(np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1))), "wrong_shape"),
        (Mixture(np.array([0.5, 0.6]), np.ones(2), np.ones(2)), "bad_proportions"),
        (Mixture(np.array([1.5, -0.5]), np.ones(2), np.ones(2)), "bad_proportions"),
        (Mixture(np.zeros(0), np.zeros(0), np.zeros(0)), "no_components"),
        (Mixture(np.full(6, 1 / 6), np.ones(6), np.ones(6)), "too_many_components"),
        (Mixture(np.ones(1), np.ones(1), np.ones(1)), None),
    ],
)
def test_bad_messages_are_named_and_set_aside(mixture: Mixture, reason: str | None) -> None:
    assert check(mixture, most=5) == reason
    good = [Mixture(np.ones(1), np.array([m]), np.ones(1)) for m in (2.0, 7.0)]
    with_bad = Pooling()([good[0], mixture, good[1]], [10, 10, 30], every_class(10))
    if reason in (None, "too_many_components"):
        assert not with_bad.notes
        return
    without = Pooling()(good, [10, 30], every_class(10))
    assert with_bad.raw[[0, 2]].tolist() == without.raw.tolist()
    assert with_bad.raw[1] == 0
    assert math.isnan(with_bad.kl[1])
    assert dict(with_bad.notes) == {1: reason}


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (np.array([1.0, np.nan]), "nonfinite_counts"),
        (np.array([1.0, -2.0]), "negative_counts"),
        (np.zeros(2), "no_rows"),
        (np.ones((2, 2)), "wrong_shape"),
        (None, "no_message"),
    ],
)
def test_bad_counts_are_set_aside(counts: Floats | None, reason: str) -> None:
    found = Pooling()([np.array([3.0, 1.0]), counts, np.array([0.0, 2.0])], [4, 4, 2], every_class(2))
    assert dict(found.notes) == {1: reason}
    assert found.raw[1] == 0


def test_clients_without_rows_and_nobody_at_all() -> None:
    found = Pooling()([np.ones(2), np.ones(2)], [0, 0], every_class(2))
    assert found.raw.tolist() == [0, 0]
    assert set(found.notes.values()) == {"no_rows"}
    assert len(Pooling()([], [], every_class(2)).raw) == 0
    with pytest.raises(BadInputError, match="one size per message"):
        Pooling()([np.ones(2)], [], every_class(2))


@pytest.mark.parametrize("labels", [[3], [3, 3, 3], [0, 9, 9], [2, 61]])
def test_awkward_clients_get_finite_weights_and_small_messages(labels: list[int]) -> None:
    fit = MixtureFit()(counted(labels)).mixture
    others = Mixture(np.ones(1), np.array([30.5]), np.array([320.0]))
    for pooling in (Pooling(), Pooling(kl_scale="listing"), Pooling(direction="inverse")):
        alpha = share(pooling([fit, others], [len(labels), 62], every_class(62)).raw)
        assert np.isfinite(alpha).all()
        assert alpha.sum() == pytest.approx(1)
    assert sum(part.size for part in fit) + 1 <= 3 * math.ceil(len(set(labels)) / 2) + 1


def test_supports_refuse_nothing_to_stand_on() -> None:
    with pytest.raises(BadInputError, match="at least one class"):
        every_class(0)
    with pytest.raises(BadInputError, match="needs labels"):
        seen_labels([])
    with pytest.raises(BadInputError, match="at least one mixture"):
        quadrature([Mixture(np.zeros(0), np.zeros(0), np.zeros(0))])
    with pytest.raises(BadInputError, match="finite mixtures"):
        quadrature([Mixture(np.ones(1), np.array([np.nan]), np.ones(1))])


def test_options_are_checked_when_they_come_from_a_configuration() -> None:
    adapter = TypeAdapter(Pooling)
    assert adapter.validate_python({"kl_noise_floor": "recommended"}).kl_noise_floor == "recommended"
    for bad in ({"eps_mass": 0}, {"kl_scale": "code"}, {"kl_noise_floor": -1}, {"eps_inv": 0}):
        with pytest.raises(ValidationError):
            adapter.validate_python(bad)
    with pytest.raises(ValidationError):
        TypeAdapter(MixtureFit).validate_python({"rho": 0})


def mixed(draw: np.random.Generator, alphas: list[float]) -> list[Floats]:
    """Deal 50,000 balanced labels: two groups in proportion, a class-wise Dirichlet within each group."""
    tables = np.zeros((len(alphas), 10))
    for alpha in sorted(set(alphas)):
        group = [k for k, a in enumerate(alphas) if a == alpha]
        for label in range(10):
            rows = 5000 * len(group) // len(alphas)
            tables[group, label] = draw.multinomial(rows, draw.dirichlet(np.full(len(group), alpha)))
    return list(tables)


def median_ratios(poolings: Sequence[Pooling], iid: int, alpha: float) -> list[float]:
    """Return an IID client's mean weight over a skewed one's by each pooling of the same fits; medians of seeds."""
    ratios = []
    for seed in range(5):
        tables = mixed(
            np.random.default_rng([seed, iid, int(10 * alpha)]), [50.0] * iid + [alpha] * (10 - iid)
        )
        fits = [
            MixtureFit()(counted(np.repeat(np.arange(10), table.astype(np.int64)))).mixture
            for table in tables
        ]
        sizes = [int(table.sum()) for table in tables]
        raws = [pooling(fits, sizes, every_class(10)).raw for pooling in poolings]
        ratios.append([raw[:iid].mean() / raw[iid:].mean() for raw in raws])
    return [float(ratio) for ratio in np.median(ratios, axis=0)]


@pytest.mark.slow
@pytest.mark.parametrize("iid", [2, 5, 8])
def test_skewed_clients_weigh_more_in_the_text_and_alike_in_the_listing(iid: int) -> None:
    poolings = (Pooling(eps_class=1e-3), Pooling(kl_scale="listing"))
    found = [median_ratios(poolings, iid, alpha) for alpha in (5.0, 1.0, 0.5)]
    text, listing = zip(*found, strict=True)
    assert max(text) < 0.8
    assert list(text) == sorted(text, reverse=True)
    assert all(0.85 <= ratio <= 1.05 for ratio in listing)
