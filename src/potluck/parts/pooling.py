"""FedEP's pooling: from what clients said about their labels to raw aggregation weights.

H. Guan, "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling" (thesis,
University of Zurich, 2024), section 4.1 and listing 5.2:
    P = sum_k p_k P_k,   KL_k = sum_y P ln(P / P_k),   alpha_k = KL_k / sum_j KL_j.
`kl_scale="text"` works on probabilities normalised over the label space and smoothed alike in P and P_k.
`kl_scale="listing"` reproduces the published listing: the client's term is scaled by its share p_k, nothing
is normalised, densities are read at y + 0.1 with variance + 0.1, and numbers are rounded on the way; its
weights are nearly uniform for clients of equal size and favour small ones. What cannot be used is set aside
with a reason code. A divergence below zero (rounding) counts as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from potluck.errors import BadInputError
from potluck.parts.counted import Floats
from potluck.parts.mixture import Mixture
from potluck.parts.support import Support

Told = Mixture | Floats
"""What a client says of its labels: a mixture, or its counts of classes 0..C-1."""

_ZERO = 1e-8
_DENSITY_SHIFT = 1e-1
_PREDICTION_EPSILON = 1e-2


class Pooled(NamedTuple):
    """Raw weights and divergences in the order given (0 and NaN where set aside), and reason codes."""

    raw: Floats
    kl: Floats
    notes: Mapping[int, str]


@dataclass(frozen=True)
class Pooling:
    """How divergences are taken and turned into raw weights.

    `eps_mass` is the whole smoothing mass; `eps_class` gives it per class instead (the listing's 1e-2).
    `kl_noise_floor` counts smaller divergences as 0; "recommended" is max(5 (C - 1) / (2 n_k), 0.02).
    """

    kl_scale: Literal["text", "listing"] = "text"
    direction: Literal["proportional", "inverse"] = "proportional"
    eps_inv: Annotated[float, Field(gt=0)] = 1e-2
    kl_noise_floor: Annotated[float, Field(ge=0)] | Literal["recommended"] = 0.0
    eps_mass: Annotated[float, Field(gt=0)] = 0.1
    eps_class: Annotated[float, Field(gt=0)] | None = None

    def __call__(self, told: Sequence[Told | None], sizes: Sequence[int], support: Support) -> Pooled:
        """Weigh every client by its divergence; fall back to sizes where no divergence is left."""
        if len(told) != len(sizes):
            raise BadInputError(
                f"pooling needs one size per message: {len(told)} messages, {len(sizes)} sizes"
            )
        notes = {k: why for k, said in enumerate(told) if (why := refusal(said, sizes[k])) is not None}
        kept = [k for k in range(len(told)) if k not in notes]
        raw, kl = np.zeros(len(told)), np.full(len(told), np.nan)
        if not kept:
            return Pooled(raw, kl, notes)
        rows = np.asarray([sizes[k] for k in kept], dtype=np.float64)
        good = [said for k in kept if (said := told[k]) is not None]
        kl[kept] = self.divergences(good, rows / rows.sum(), support)
        counted = np.where(kl[kept] < self.floor(rows, len(support.points)), 0.0, kl[kept])
        if counted.sum() < _ZERO:
            raw[kept] = rows
            notes |= dict.fromkeys(kept, "zero_divergence")
        else:
            raw[kept] = counted if self.direction == "proportional" else 1 / (counted + self.eps_inv)
        return Pooled(raw, kl, notes)

    def divergences(self, told: Sequence[Told], shares: Floats, support: Support) -> Floats:
        """Return KL_k >= 0 for each of the usable messages."""
        if self.kl_scale == "listing":
            return _listing(told, shares, support)
        points = len(support.points)
        eps = self.eps_mass / points if self.eps_class is None else self.eps_class
        plain = np.stack([probabilities(said, support) for said in told])
        smooth = (plain + eps) / (1 + points * eps)
        pooled = shares @ smooth
        return np.asarray(np.maximum((pooled * np.log(pooled / smooth)).sum(axis=1), 0.0), dtype=np.float64)

    def floor(self, rows: Floats, points: int) -> Floats:
        """Return the divergence below which a client's own counts as noise."""
        if self.kl_noise_floor == "recommended":
            return np.maximum(5 * (points - 1) / (2 * rows), 0.02)
        return np.full(len(rows), self.kl_noise_floor)


def probabilities(told: Told, support: Support) -> Floats:
    """Return probabilities over the support: density times cell width, normalised in log space."""
    if isinstance(told, Mixture):
        logs = told.log_density(support.points)
        top = logs.max(initial=-np.inf)
        mass = np.exp(logs - top) if np.isfinite(top) else np.ones(len(logs))
    else:
        mass = _counts_at(told, support)
        mass = mass if mass.sum() > 0 else np.ones(len(mass))
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def refusal(told: Told | None, size: int) -> str | None:
    """Return why a message cannot be pooled, or None."""
    if told is None:
        return "no_message"
    if not size > 0:
        return "no_rows"
    return check(told) if isinstance(told, Mixture) else _check_counts(told)


def check(mixture: Mixture, most: int | None = None) -> str | None:
    """Return the reason to reject a mixture that came from elsewhere (at most `most` components), or None."""
    parts = [np.asarray(part) for part in mixture]
    if any(part.dtype.kind not in "fiu" or part.ndim != 1 for part in parts):
        return "wrong_shape"
    if len({len(part) for part in parts}) != 1:
        return "wrong_length"
    if len(parts[0]) == 0:
        return "no_components"
    if most is not None and len(parts[0]) > most:
        return "too_many_components"
    if not all(np.isfinite(part).all() for part in parts):
        return "nonfinite_mixture"
    if (mixture.s2 <= 0).any():
        return "negative_variance"
    if (mixture.pi < 0).any() or abs(float(mixture.pi.sum()) - 1) > 1e-6:
        return "bad_proportions"
    return None


def _check_counts(counts: Floats) -> str | None:
    if counts.ndim != 1 or len(counts) == 0:
        return "wrong_shape"
    if not np.isfinite(counts).all():
        return "nonfinite_counts"
    if (counts < 0).any():
        return "negative_counts"
    return None if counts.sum() > 0 else "no_rows"


def _counts_at(counts: Floats, support: Support) -> Floats:
    places = support.points.astype(np.int64)
    if (places != support.points).any():
        raise BadInputError(
            "counts of classes cannot be pooled on a grid of real labels; send mixtures instead"
        )
    inside = (places >= 0) & (places < len(counts))
    return np.where(inside, counts[np.where(inside, places, 0)], 0.0)


def _listing(told: Sequence[Told], shares: Floats, support: Support) -> Floats:
    """Follow listing 5.2: KL_k = sum_y P log2((P + .01) / (f_k + .01)), f_k scaled by p_k and rounded."""
    terms = np.stack([_scaled(said, share, support) for said, share in zip(told, shares, strict=True)])
    pooled = terms.sum(axis=0)
    client = np.round(terms, 4)
    gain = np.log2((pooled + _PREDICTION_EPSILON) / (client + _PREDICTION_EPSILON))
    return np.asarray(np.maximum((pooled * gain).sum(axis=1), 0.0), dtype=np.float64)


def _scaled(told: Told, share: float, support: Support) -> Floats:
    if not isinstance(told, Mixture):
        return np.round(probabilities(told, support) * share, 5)
    weight = np.round(told.pi * share, 5)[:, None]
    spread = (told.s2 + _DENSITY_SHIFT)[:, None]
    away = support.points - told.mu[:, None] + _DENSITY_SHIFT
    bells = np.exp(-away * away / (2 * spread)) / np.sqrt(2 * np.pi * spread)
    return np.asarray((weight * bells).sum(axis=0) * support.width, dtype=np.float64)
