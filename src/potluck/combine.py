"""The aggregation contract that every averaging method shares (spec 2.3), and the policy for batch norm (2.4).

Answers are folded in client order into one float64 buffer, so a round's memory does not grow with its
participants, and cast once at the end. Non-finite states and weights are dropped with a reason code; negative
weights count as zero; weights that are all zero give way to the fallback weights; with nobody left the previous
state stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from potluck.tree import Params, finite

NormBuffers = Literal["average", "pooled", "local"]
ZERO = 1e-12


class Weighed(NamedTuple):
    """One client's state with its raw weight and the weight to fall back on."""

    client: int
    params: Params
    raw: float
    fallback: float


class Combined(NamedTuple):
    """The combined state, the normalised weights (summing to 1, or empty), and reason codes by client."""

    params: Params
    weights: Mapping[int, float]
    notes: Mapping[int, str]


class Fold:
    """A running weighted sum of states in float64; integer leaves (counters) take the maximum."""

    def __init__(self) -> None:
        self.total = 0.0
        self._sums: dict[str, Tensor] = {}
        self._lift: dict[str, Tensor] = {}
        self._kinds: dict[str, torch.dtype] = {}

    def add(self, weight: float, params: Mapping[str, Tensor]) -> None:
        """Add weight x params."""
        first = not self._kinds
        self.total += weight
        for name, leaf in params.items():
            if first:
                self._kinds[name] = leaf.dtype
                self._sums[name] = leaf.clone() if not leaf.is_floating_point() else leaf.double() * weight
                if leaf.is_floating_point():
                    self._lift[name] = torch.empty_like(self._sums[name])
            elif name in self._lift:
                self._sums[name].add_(self._lift[name].copy_(leaf), alpha=weight)
            else:
                torch.maximum(self._sums[name], leaf, out=self._sums[name])

    def mean(self) -> Params:
        """Return the weighted mean, cast to the types that came in."""
        out = {}
        for name, kind in self._kinds.items():
            lifted = name in self._lift
            out[name] = (self._sums[name] / self.total).to(kind) if lifted else self._sums[name]
        return out

    def sums(self) -> dict[str, Tensor]:
        """Return the weighted sums in float64."""
        return self._sums


def combine(answers: Iterable[Weighed], previous: Params) -> Combined:
    """Average states under the contract of spec 2.3.

    A sequence may be walked a second time with the fallback weights; a stream is only handed in by rules
    whose raw weights are their own fallback.
    """
    fold, weights, notes = _walk(answers, use_fallback=False)
    if fold.total <= ZERO * max(len(weights), 1) and isinstance(answers, Sequence) and weights:
        kept = [answer for answer in answers if answer.client in weights]
        notes |= {answer.client: "zero_weights" for answer in kept}
        fold, weights, _ = _walk(kept, use_fallback=True)
    if fold.total <= ZERO * max(len(weights), 1):
        return Combined(previous, {}, notes | dict.fromkeys(weights, "empty_round"))
    return Combined(
        {**previous, **fold.mean()}, {client: w / fold.total for client, w in weights.items()}, notes
    )


def _walk(answers: Iterable[Weighed], *, use_fallback: bool) -> tuple[Fold, dict[int, float], dict[int, str]]:
    fold, weights, notes = Fold(), {}, {}
    for client, params, raw, fallback in answers:
        weight = fallback if use_fallback else raw
        if not finite(params):
            notes[client] = "nonfinite_state"
        elif not math.isfinite(weight):
            notes[client] = "nonfinite_weight"
        else:
            if weight < 0:
                notes[client] = "negative_weight"
            weights[client] = max(weight, 0.0)
            if weights[client] > 0:
                fold.add(weights[client], params)
            else:
                notes.setdefault(client, "zero_weight")
    return fold, weights, notes


def with_squares(params: Params, norms: frozenset[str]) -> Params:
    """Add to every running variance its second moment, var + mean^2, so that a plain average can pool variances.

    In float64, because the mean may be large against the deviation.
    """
    return params | {
        f"{name}|square": params[name].double() + params[_mean_of(name)].double().square()
        for name in _variances(params, norms)
    }


def pool_variances(params: Params, norms: frozenset[str]) -> Params:
    """Turn averaged second moments back into variances: the exact variance of the union of the clients' rows."""
    kept = {name: leaf for name, leaf in params.items() if not name.endswith("|square")}
    for name in _variances(kept, norms):
        if f"{name}|square" in params:
            pooled = params[f"{name}|square"] - kept[_mean_of(name)].double().square()
            kept[name] = pooled.clamp(min=0).to(kept[name].dtype)
    return kept


def _variances(params: Params, norms: frozenset[str]) -> list[str]:
    return [name for name in params if name in norms and name.endswith("running_var")]


def _mean_of(name: str) -> str:
    return name.removesuffix("running_var") + "running_mean"
