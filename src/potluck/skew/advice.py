"""Which methods are made for the skew that was measured: fixed thresholds and a fixed table.

Everything works from label histograms alone; where inputs were measured too, feature skew and groups are
judged as well. A method that is made for a skew need not win on it: the advice says what to compare with
FedAvg, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from potluck.skew.cluster import clusters
from potluck.skew.measure import Floats, Ints, Skew
from potluck.skew.methods import METHODS, NEED_CLASSES, Kind, Method

LABEL_KL = 0.05
"""Mean KL above the chance level (nats) from which label skew is worth acting on (Dirichlet beta of 10)."""

STRONG_KL = 0.5
"""Mean KL from which label skew is strong (Dirichlet beta of about 0.7 and less)."""

FLOORS = 2.0
"""How many times the chance level (C - 1) / 2 n_k the mean KL must reach."""

ERRORS = 4.0
"""How many standard errors of the mean KL by chance it must lie above that level (few clients, few classes)."""

SIZE_CV = 0.5
"""Coefficient of variation of sizes from which quantity skew is worth acting on."""

NOISE = 0.15
"""Range of the clients' noise (10th to 90th percentile) in units of the inputs' own deviation."""

SHIFT = 0.015
"""Mean shift of the class means in units of the variance within classes."""

JITTER = 5.0
"""How many standard errors of the noise that range must reach: twice what normal errors alone give (2.56)."""

CHANCE = 4.0
"""How many times its chance level, averaged over clients as chance is, the mean shift must reach."""

UNBIASED = 0.1
"""A client is unbiased among biased ones if its KL is below this share of the median KL, and no skew itself."""

LABEL_GROUPS = 0.3
"""Distance (Jensen-Shannon, nats; the largest is 0.69) by which groups of label histograms must lie apart."""


WORTH: Mapping[Kind, float] = MappingProxyType(
    {"groups": 6.0, "unbiased": 4.0, "mixed": 3.0, "label": 1.0, "quantity": 1.0, "feature": 1.0}
)
"""The rarer a situation, the more it says about the method to take."""

NAMES: Mapping[Kind, str] = MappingProxyType(
    {
        "label": "label skew",
        "unbiased": "unbiased among biased clients",
        "quantity": "quantity skew",
        "feature": "feature skew",
        "mixed": "mixed skew",
        "groups": "groups of clients",
    }
)


class Finding(NamedTuple):
    """One thing that was found, in a word and in a sentence."""

    kind: Kind
    sentence: str


class Advice(NamedTuple):
    """What kinds of skew there are, what was seen, and which methods are made for it, best first."""

    kinds: tuple[Kind, ...]
    findings: tuple[Finding, ...]
    methods: tuple[Method, ...]
    verdict: str


def advise(skew: Skew) -> Advice:
    """Compare the measures with the thresholds and look the methods up."""
    findings = (*_label(skew), *_quantity(skew), *_feature(skew), *_groups(skew))
    kinds = tuple(dict.fromkeys(finding.kind for finding in findings))
    basic = {"label", "quantity", "feature"} & set(kinds)
    if len(basic) > 1:
        kinds = (*kinds, "mixed")
    if not kinds:
        return Advice((), (), (METHODS["fedavg"],), _nothing(skew))
    fitting = [
        method
        for method in METHODS.values()
        if set(method.kinds) & set(kinds) and not (skew.real and method.algorithm in NEED_CLASSES)
    ]
    ranked = sorted(fitting, key=lambda method: -_fit(method, kinds))
    named = ", ".join(NAMES[kind] for kind in kinds if kind != "mixed")
    verdict = f"{named}: compare {', '.join(method.title for method in ranked[:3])} with FedAvg"
    return Advice(kinds, findings, tuple(ranked), verdict)


def _fit(method: Method, kinds: tuple[Kind, ...]) -> float:
    """Score a method by the kinds it is made for (the first above all); ties keep the table's order."""
    score = 0.0
    for place, kind in enumerate(method.kinds):
        if kind in kinds:
            score += WORTH[kind] * (1.0 if place == 0 else 0.8)
    return score


def _nothing(skew: Skew) -> str:
    return (
        f"no skew worth acting on: FedAvg (mean KL {skew.mean_kl:.3f} nats, where chance alone gives about "
        f"{skew.mean_floor:.3f}; size CV {skew.size_cv:.2f})"
    )


def _label(skew: Skew) -> list[Finding]:
    """Judge KL(q_k || P) against chance, and look for one unbiased client among biased ones."""
    if skew.mean_kl < max(LABEL_KL + skew.mean_floor, _reach(skew) * skew.mean_floor):
        return []
    strength = "strong" if skew.mean_kl >= STRONG_KL else "moderate"
    found = [
        Finding(
            "label",
            f"{strength} label skew: mean KL {skew.mean_kl:.3f} nats (chance: {skew.mean_floor:.3f}); "
            f"a client holds {np.median(skew.classes_held):.0f} of {skew.classes} {skew.unit} in the median",
        )
    ]
    unbiased, biased = _unbiased(skew)
    if len(unbiased):
        who = f"client {unbiased[0]}" if len(unbiased) == 1 else f"{len(unbiased)} of {skew.clients} clients"
        found.append(
            Finding(
                "unbiased",
                f"close to the whole are the classes of {who}; "
                f"the others are biased (median KL {biased:.3f})",
            )
        )
    return found


def _reach(skew: Skew) -> float:
    """Return how many times its chance level the mean KL must reach: 2 n_k KL is about chi-square(C - 1)."""
    free = max(int((skew.rows > 0).sum()) - 1, 1) * max(int((skew.counts.sum(axis=0) > 0).sum()) - 1, 1)
    return max(FLOORS, 1 + ERRORS * float(np.sqrt(2 / free)))


def _unbiased(skew: Skew) -> tuple[Ints, float]:
    """Return the clients as good as unbiased among strongly biased ones, and the median KL of the others."""
    filled = np.isfinite(skew.kl)
    good = filled & (np.nan_to_num(skew.kl, nan=np.inf) < LABEL_KL + np.nan_to_num(skew.floor))
    rest = skew.kl[filled & ~good]
    biased = float(np.median(rest)) if len(rest) else 0.0
    good &= np.nan_to_num(skew.kl, nan=np.inf) < UNBIASED * biased
    good &= skew.rows <= skew.rows.sum() / 2  # who holds most rows is the whole rather than like it
    return np.flatnonzero(good) if len(rest) > 1 and biased >= STRONG_KL else np.empty(
        0, dtype=np.int64
    ), biased


def _quantity(skew: Skew) -> list[Finding]:
    """Judge the coefficient of variation of sizes."""
    if skew.size_cv < SIZE_CV:
        return []
    return [
        Finding(
            "quantity",
            f"quantity skew: sizes from {int(skew.rows.min())} to {int(skew.rows.max())} rows, "
            f"CV {skew.size_cv:.2f}, the largest {skew.max_over_mean:.1f} times the mean",
        )
    ]


def _feature(skew: Skew) -> list[Finding]:
    """Judge noise and shifted class means, where inputs were measured."""
    inputs = skew.features
    if inputs is None or not np.isfinite(inputs.noise).any():
        return []
    low, high = (float(value) for value in np.nanpercentile(inputs.noise, [10, 90]))
    found = []
    if high - low > max(NOISE * inputs.spread, JITTER * inputs.jitter, 1e-12):
        found.append(
            Finding(
                "feature", f"feature skew: noise differs between clients (deviation {low:.3f} to {high:.3f})"
            )
        )
    shifts = inputs.shift[np.isfinite(inputs.shift)]
    shift = float(shifts.mean())
    if shift > max(SHIFT, CHANCE * inputs.chance / np.sqrt(max(len(shifts) - 1, 1))):
        found.append(
            Finding(
                "feature",
                f"feature skew: the same class looks different at different clients "
                f"(shift {shift:.2f} of the variance within a class)",
            )
        )
    return found


def _groups(skew: Skew) -> list[Finding]:
    """Look for groups of clients in the inputs, else in the label histograms."""
    if skew.features is not None and skew.features.groups.any():
        return [
            Finding("groups", f"the clients fall into groups by their inputs: {_sizes(skew.features.groups)}")
        ]
    if skew.clients > 200 or skew.classes < 2:
        return []
    filled = skew.rows > 0
    shares = skew.counts / np.maximum(skew.rows, 1)[:, None]
    labels = clusters(_divergences(shares), filled, LABEL_GROUPS)
    if labels.any():
        return [Finding("groups", f"the clients fall into groups by their labels: {_sizes(labels)}")]
    return []


def _sizes(groups: Ints) -> str:
    return " and ".join(f"{int((groups == name).sum())} clients" for name in np.unique(groups[groups > 0]))


def _divergences(shares: Floats) -> Floats:
    """Return the Jensen-Shannon divergence of every two clients, in nats."""

    def entropy(p: Floats) -> Floats:
        return np.asarray(-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1), dtype=np.float64)

    alone = entropy(shares)
    out = [entropy((shares + mine) / 2) - (alone + own) / 2 for mine, own in zip(shares, alone, strict=True)]
    far: Floats = np.maximum(np.stack(out), 0.0)
    return far
