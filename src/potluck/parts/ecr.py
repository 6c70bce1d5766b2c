"""Effective communication rounds and costs of FedDisk (Nguyen, Wu and Chang, IEEE TAI 2024, eq. 18 and 19).

The paper compares FedDisk's rounds to the best rival's best accuracy with every rival's rounds to its own
best, which favours FedDisk; `rounds_to` with one target for all is the fair figure, to be shown beside it.
"""

from __future__ import annotations

from collections.abc import Sequence


def rounds_to(curve: Sequence[float], target: float) -> int | None:
    """Return the first round (from 1) whose accuracy reaches the target, or None."""
    return next((t for t, value in enumerate(curve, start=1) if value >= target), None)


def rounds_to_best(curve: Sequence[float]) -> int | None:
    """Return the first round (from 1) with the curve's best accuracy, or None for an empty curve."""
    finite = [value for value in curve if value == value]
    return rounds_to(curve, max(finite)) if finite else None


def cost(scalars: int, rounds: int) -> int:
    """Return the scalars one client sends and receives: C = 2 S ECR (eq. 18)."""
    return 2 * scalars * rounds


def two_phase_cost(
    density_scalars: int, density_rounds: int, classifier_scalars: int, classifier_rounds: int
) -> int:
    """Return the cost with a density model first: C = 2 (S_MADE ECR_MADE + S_cls ECR_cls) (eq. 19)."""
    return cost(density_scalars, density_rounds) + cost(classifier_scalars, classifier_rounds)
