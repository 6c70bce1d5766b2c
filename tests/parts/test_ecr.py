"""Costs of FedDisk's Tables I and II (equations 18 and 19)."""

from __future__ import annotations

import pytest

from potluck.parts.ecr import cost, rounds_to, rounds_to_best, two_phase_cost


@pytest.mark.parametrize(
    ("density", "classifier", "millions"),
    [
        ((102_000, 80), (39_000, 100), 24.12),
        ((614_000, 15), (447_000, 105), 112.29),
        ((47_000, 70), (12_000, 85), 8.62),
    ],
)
def test_costs_of_feddisk(density: tuple[int, int], classifier: tuple[int, int], millions: float) -> None:
    assert two_phase_cost(*density, *classifier) == pytest.approx(millions * 1e6, abs=5000)


def test_costs_of_the_rivals() -> None:
    assert cost(447_000, 1015) == 907_410_000
    assert cost(447_000, 1015) / two_phase_cost(614_000, 15, 447_000, 105) == pytest.approx(8.08, abs=0.01)
    assert cost(39_000, 440) / two_phase_cost(102_000, 80, 39_000, 100) == pytest.approx(1.42, abs=0.01)
    assert cost(12_000, 500) / two_phase_cost(47_000, 70, 12_000, 85) == pytest.approx(1.39, abs=0.01)


def test_rounds() -> None:
    curve = [0.1, 0.5, float("nan"), 0.7, 0.6, 0.7]
    assert rounds_to(curve, 0.5) == 2
    assert rounds_to(curve, 0.55) == 4
    assert rounds_to(curve, 0.9) is None
    assert rounds_to_best(curve) == 4
    assert rounds_to_best([]) is None
    assert rounds_to_best([float("nan")]) is None
