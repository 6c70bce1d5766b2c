"""Gaussian mixtures of labels, fitted by EM on label counts: what a FedEP client says about its labels.

H. Guan, "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling" (thesis,
University of Zurich, 2024), listing 5.1:
    P(y) = sum_m pi_m N(y; mu_m, s2_m), M in 1..ceil(rho * distinct labels), chosen by the least BIC.
What deviates from the listing: the true log-likelihood is climbed, in log space (the listing climbs another
quantity, which sometimes falls); the variance floor is part of the M-step, so that EM stays monotone; the
best of `n_init` starts is kept; starts are a function of the counts, so equal labels give equal bits; EM stops
where it gains less than 1e-9 a row (1e-6 in all for a thousand rows), so that the number of its steps does not
grow with the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from potluck.key import Key
from potluck.parts.counted import Counted, Floats

Penalty = Literal["3M-1", "M", "M-1"]

CLASS_LABELS = 128
_CACHED = 32_000
_GONE = 1e-12


class Mixture(NamedTuple):
    """Proportions, means and variances of the components: what travels."""

    pi: Floats
    mu: Floats
    s2: Floats

    def log_density(self, points: Floats) -> Floats:
        """Return ln sum_m pi_m N(y; mu_m, s2_m) at each point; -inf everywhere without components."""
        if len(self.pi) == 0:
            return np.full(len(points), -np.inf)
        joint = _log_joint(points, self.pi[None], self.mu[None], self.s2[None])[0]
        top = joint.max(axis=0)
        return np.asarray(top + np.log(np.exp(joint - top).sum(axis=0)), dtype=np.float64)


class Climbed(NamedTuple):
    """Where one EM ended: its mixture, its log-likelihood, and the log-likelihood before every step."""

    mixture: Mixture
    loglik: float
    trace: Floats


class Fitted(NamedTuple):
    """The chosen mixture with its log-likelihood and its BIC."""

    mixture: Mixture
    loglik: float
    bic: float


@dataclass(frozen=True)
class MixtureFit:
    """How a client fits its label mixture.

    `max_components` bounds the search where labels are real-valued or more than 128 distinct ones; class
    labels obey `rho` alone.
    """

    rho: Annotated[float, Field(gt=0, le=1)] = 0.5
    v_min: Annotated[float, Field(gt=0)] = 1e-2
    n_init: Annotated[int, Field(ge=1)] = 3
    init: Literal["quantile", "random"] = "quantile"
    bic_penalty: Penalty = "3M-1"
    tol: Annotated[float, Field(ge=0)] = 1e-9
    iterations: Annotated[int, Field(ge=1)] = 1500
    max_components: Annotated[int, Field(ge=1)] = 10

    def largest(self, data: Counted) -> int:
        """Return the most components to try: ceil(rho * distinct labels), bounded for real labels."""
        classes = len(data.values) <= CLASS_LABELS and bool((data.values == np.round(data.values)).all())
        most = max(1, math.ceil(self.rho * len(data.values)))
        return most if classes else min(most, self.max_components)

    def __call__(self, data: Counted) -> Fitted:
        """Fit every M and keep the least BIC(M) = -2 LL + pen(M) ln N (the smaller M on a tie)."""
        if data.rows == 0:
            return Fitted(Mixture(np.zeros(0), np.zeros(0), np.zeros(0)), 0.0, 0.0)
        orders = range(1, self.largest(data) + 1)
        best = self.orders(data, orders)
        scores = [
            -2 * fit.loglik + self.penalty(m) * math.log(data.rows)
            for m, fit in zip(orders, best, strict=True)
        ]
        chosen = int(np.argmin(scores))
        return Fitted(_tidy(best[chosen].mixture), best[chosen].loglik, scores[chosen])

    def orders(self, data: Counted, orders: Sequence[int]) -> list[Climbed]:
        """Return the best climb for each M; the one-component fit where no start does better."""
        one = single(data, self.v_min)
        jobs = [(m, self.start(data, m, trial)) for m in orders if m > 1 for trial in range(self.n_init)]
        best = dict.fromkeys(orders, one)
        for batch in _batches(jobs, len(data.values)):
            ends = climb(data, [start for _, start in batch], self.v_min, self.tol, self.iterations)
            for (m, _), found in zip(batch, ends, strict=True):
                if np.isfinite(found.loglik) and found.loglik > best[m].loglik:
                    best[m] = found
        return [best[m] for m in orders]

    def start(self, data: Counted, components: int, trial: int) -> Mixture:
        """Return where EM begins; its draws are the same for everybody, never from a stream of the run.

        quantile: trial 0 the quantiles of the rows, trial 1 those of the distinct labels, later ones
        jittered, all with variances var / M^2 (not below the floor) and equal proportions.
        random: proportions uniform, means M random rows without replacement, variances that of the labels.
        """
        spread = max(data.variance, self.v_min)
        draw = (Key(("mixture",)) / components / trial).numpy()
        if self.init == "random":
            pi = draw.random(components) + np.finfo(float).tiny
            picked = draw.multivariate_hypergeometric(data.counts, components, method="marginals")
            mu = draw.permutation(np.repeat(data.values, picked))
            return Mixture(pi / pi.sum(), mu, np.full(components, spread))
        inside = np.full(components, 0.5) if trial < 2 else draw.random(components)
        weights = np.ones(len(data.values)) if trial == 1 else data.counts.astype(np.float64)
        levels = (np.arange(components) + inside) / components
        mu = data.values[np.searchsorted(np.cumsum(weights) / weights.sum(), levels - 1e-12)]
        narrow = max(data.variance / components**2, self.v_min)
        return Mixture(np.full(components, 1 / components), mu, np.full(components, narrow))

    def penalty(self, components: int) -> int:
        """Return the number of parameters that BIC charges for M components."""
        return {"3M-1": 3 * components - 1, "M": components, "M-1": components - 1}[self.bic_penalty]


def _batches(jobs: Sequence[tuple[int, Mixture]], labels: int) -> Iterator[Sequence[tuple[int, Mixture]]]:
    """Cut the starts where their arrays would outgrow the cache: many at once save calls."""
    begin = 0
    for end in range(1, len(jobs) + 1):
        if end == len(jobs) or (end + 1 - begin) * jobs[end][0] * labels > _CACHED:
            yield jobs[begin:end]
            begin = end


def single(data: Counted, v_min: float) -> Climbed:
    """Fit one component in closed form: mean and variance (not below the floor) of the labels."""
    mixture = Mixture(np.ones(1), np.array([data.mean]), np.array([max(data.variance, v_min)]))
    loglik = float(data.counts @ mixture.log_density(data.values))
    return Climbed(mixture, loglik, np.array([loglik]))


def climb(
    data: Counted, starts: Sequence[Mixture], v_min: float, tol: float, iterations: int
) -> list[Climbed]:
    """Run EM from all starts until the log-likelihood gains less than `tol` a row or `iterations` are spent.

    A start that meets NaN ends with a log-likelihood that is not finite; its siblings are not disturbed.
    """
    pi, mu, s2 = _stack(starts)
    trace = np.full((iterations + 1, len(starts)), np.nan)
    active, before = np.arange(len(starts)), np.full(len(starts), -np.inf)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for step in range(iterations + 1):
            loglik, shares = _expect(data, pi[active], mu[active], s2[active])
            trace[step, active] = loglik
            going = loglik - before[active] >= tol * data.rows
            before[active] = loglik
            active, shares = active[going], shares[going]
            if len(active) == 0 or step == iterations:
                break
            pi[active], mu[active], s2[active] = _maximise(data, shares, mu[active], s2[active], v_min)
    return [
        Climbed(
            Mixture(pi[b, : len(start.pi)], mu[b, : len(start.pi)], s2[b, : len(start.pi)]),
            float(before[b]),
            trace[: np.flatnonzero(~np.isnan(trace[:, b])).max(initial=-1) + 1, b],
        )
        for b, start in enumerate(starts)
    ]


def _log_joint(values: Floats, pi: Floats, mu: Floats, s2: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        ceiling = np.log(pi) - 0.5 * np.log(2 * np.pi * s2)
    out = np.asarray(values - mu[..., None], dtype=np.float64)
    out *= out
    out *= (-0.5 / s2)[..., None]
    out += ceiling[..., None]
    return out


def _expect(data: Counted, pi: Floats, mu: Floats, s2: Floats) -> tuple[Floats, Floats]:
    """E-step: the log-likelihood of each fit, and how many rows of each label fall to each component."""
    shares = _log_joint(data.values, pi, mu, s2)
    top = shares.max(axis=1)
    shares -= top[:, None]
    np.exp(shares, out=shares)
    total = shares.sum(axis=1)
    loglik = ((top + np.log(total)) * data.counts).sum(axis=-1)
    shares *= (data.counts / total)[:, None]
    return loglik, shares


def _maximise(
    data: Counted, shares: Floats, mu: Floats, s2: Floats, v_min: float
) -> tuple[Floats, Floats, Floats]:
    """M-step under the variance floor; a component without rows stays where it was, with proportion 0."""
    rows = shares.sum(axis=-1)
    alive = ~(rows <= 0)
    safe = np.where(alive, rows, 1.0)
    mu = np.where(alive, np.einsum("bmc,c->bm", shares, data.values) / safe, mu)
    away = data.values - mu[..., None]
    away *= away
    s2 = np.where(alive, np.maximum(np.einsum("bmc,bmc->bm", shares, away) / safe, v_min), s2)
    return rows / rows.sum(axis=-1, keepdims=True), mu, s2


def _stack(starts: Sequence[Mixture]) -> tuple[Floats, Floats, Floats]:
    width = max((len(start.pi) for start in starts), default=1)
    pi, mu, s2 = np.zeros((len(starts), width)), np.zeros((len(starts), width)), np.ones((len(starts), width))
    for b, start in enumerate(starts):
        m = len(start.pi)
        pi[b, :m], mu[b, :m], s2[b, :m] = start
    return pi, mu, s2


def _tidy(mixture: Mixture) -> Mixture:
    """Drop components of proportion nothing, so that every pi_m > 0, and order them by mean."""
    kept = np.flatnonzero(mixture.pi > _GONE)
    order = kept[np.lexsort((mixture.s2[kept], mixture.mu[kept]))]
    return Mixture(mixture.pi[order] / mixture.pi[order].sum(), mixture.mu[order], mixture.s2[order])
