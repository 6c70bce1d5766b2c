"""FedDisco: clients whose labels are distributed oddly count less.

Ye, Xu, Wang, Xu, Chen and Wang, "FedDisco: federated learning with discrepancy-aware collaboration",
ICML 2023.

    raw_k = max(0, n_k / n_S - a d_k + b),      weights = raw / sum raw

P_k is client k's label distribution, U the target (uniform unless given). The discrepancy d_k, by `metric`:
"kl" is sum_c P_kc ln(P_kc / U_c), "l1" and "l2" are norms of P_k - U, "cosine" is 1 - cos(P_k, U), and
"only_iid" is 0.01 where that cosine exceeds 0.9, else infinite. As in the authors' final code only "kl" is
divided by its sum over the participants; `normalise` does so for all or for none.
Deviations: where all raw weights are zero the authors' code fails; here n_k decides. Clients without rows
get no weight. One that missed the census counts with the mean discrepancy of the others.
Wire: as FedAvg, and once one count per class up. State: the label histograms at the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.algorithms.fedavg import Rounds
from potluck.algorithms.fedavg import wire as wire
from potluck.average import averaging
from potluck.combine import NormBuffers
from potluck.core import Algorithm, Stage
from potluck.learn import Fit
from potluck.parts.census import Histograms, LabelCensus, distributions
from potluck.roles import Everything, Objective, Plain, Replace, Server, Share, Told, Weigh

Metric = Literal["kl", "l1", "l2", "cosine", "only_iid"]
Normalise = Literal["kl", "all", "none"]
Pull = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ROUNDING = 1e-12
Target = tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...]


@dataclass(frozen=True)
class LabelDiscrepancy(Weigh):
    """Weigh answers by size less label discrepancy (FedDisco)."""

    a: Pull = 0.5
    b: Pull = 0.1
    metric: Metric = "kl"
    normalise: Normalise = "kl"
    target: Target | None = None

    def before(self) -> tuple[Stage[Any, Any, Any], ...]:
        """Ask for the label histograms first."""
        return (LabelCensus(expected=len(self.target or ())),)

    def raw(self, told: Sequence[Told], past: Histograms, population: Sequence[int]) -> Sequence[float]:
        """Return max(0, n_k / n_S - a d_k + b)."""
        if not told:
            return []
        given = torch.tensor(self.target or [1.0] * past.classes, dtype=torch.float64)
        found = self.distances(distributions(past, [answer.client for answer in told]), given / given.sum())
        return disco_weights([answer.rows for answer in told], found, self.a, self.b)

    def distances(self, shares: Tensor, target: Tensor) -> Tensor:
        """Return the discrepancy of every label distribution; NaN where there is none."""
        gap = shares - target
        cosine = (shares @ target) / (shares.norm(dim=1) * target.norm())
        if self.metric == "kl":
            found = (torch.xlogy(shares, shares) - torch.xlogy(shares, target)).sum(dim=1)
        elif self.metric in ("l1", "l2"):
            found = torch.linalg.vector_norm(gap, ord=int(self.metric[1]), dim=1)
        elif self.metric == "cosine":
            found = 1 - cosine
        else:
            found = torch.where(cosine > 0.9, 0.01, torch.inf).where(~cosine.isnan(), cosine)
        found = torch.where(found < ROUNDING, 0.0, found)
        total = found.nansum()
        scaled = self.normalise == "all" or self.normalise == self.metric
        return found / total if scaled and 0 < total < torch.inf else found


def disco_weights(rows: Sequence[int], distances: Tensor, a: float, b: float) -> list[float]:
    """Return max(0, n_k / n_S - a d_k + b), and 0 without rows; distances that are NaN count as the others' mean."""
    sizes = torch.tensor(rows, dtype=torch.float64)
    known = distances[distances.isfinite()]
    filled = torch.where(distances.isnan(), known.mean() if len(known) else 0.0, distances)
    raw = sizes / sizes.sum() - (a * filled if a else 0.0) + b
    return [float(weight) for weight in raw.clamp(min=0).where(sizes > 0, 0.0)]


def feddisco(
    rounds: Rounds = 10,
    fit: Fit = Fit(),
    a: Pull = 0.5,
    b: Pull = 0.1,
    metric: Metric = "kl",
    normalise: Normalise = "kl",
    target: Target | None = None,
    objective: Objective = Plain(),
    server: Server = Replace(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
) -> Algorithm:
    """Averaging that discounts clients with odd label distributions (Ye et al., ICML 2023)."""
    weigh = LabelDiscrepancy(a, b, metric, normalise, target)
    return averaging("feddisco", rounds, fit, weigh, objective, server, share, bn_buffers)
