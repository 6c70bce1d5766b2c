"""FedEP's weights: how far a client's labels are from the pooled ones, told by a census in advance.

H. Guan, "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling" (thesis,
University of Zurich, 2024). A client whose labels are unknown is excluded (weight 0), or with
`missing = "median"` counts as the median of the known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from potluck.core import Reach, Stage
from potluck.errors import BadInputError
from potluck.parts.mixture import MixtureFit, Penalty
from potluck.parts.mixture_census import Dist, LabelShares, MixtureCensus, Where
from potluck.parts.pooling import Pooling
from potluck.roles import Told, Weigh
from potluck.tree import Params

Positive = Annotated[float, Field(gt=0)]
Rho = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Floor = Annotated[float, Field(ge=0)] | Literal["recommended"]
Start = Literal["quantile", "random"]
Scale = Literal["text", "listing"]
Direction = Literal["proportional", "inverse"]
Renormalise = StrictBool | Literal["delta"]
Missing = Literal["exclude", "median"]


@dataclass(frozen=True)
class PooledKL(Weigh):
    """Weigh by the divergence of a client's labels from the pooled ones (FedEP, Guan 2024)."""

    rho: Rho = 0.5
    v_min: Positive = 1e-2
    n_init: Count = 3
    init: Start = "quantile"
    bic_penalty: Penalty = "3M-1"
    max_components: Count = 10
    kl_scale: Scale = "text"
    direction: Direction = "proportional"
    eps_inv: Positive = 1e-2
    kl_noise_floor: Floor = 0.0
    eps_mass: Positive = 0.1
    eps_class: Positive | None = None
    support: Where = "global"
    dist: Dist = "mixture"
    reach: Reach = "neighbours"
    renormalise: Renormalise = True
    missing: Missing = "exclude"

    def before(self) -> tuple[Stage[Any, Any, Any], ...]:
        """Return the label census."""
        fit = MixtureFit(self.rho, self.v_min, self.n_init, self.init, self.bic_penalty)
        pooling = Pooling(self.kl_scale, self.direction, self.eps_inv, self.kl_noise_floor)
        pooling = replace(pooling, eps_mass=self.eps_mass, eps_class=self.eps_class)
        fit = replace(fit, max_components=self.max_components)
        return (MixtureCensus(fit, pooling, self.support, self.dist, self.reach),)

    def raw(self, told: Sequence[Told], past: Any, population: Sequence[int]) -> Sequence[float]:
        """Return KL_k; for a client whose labels are unknown 0, or the median of the known."""
        known = self.known(past, population)
        return [known.get(answer.client, 0.0) if answer.rows else 0.0 for answer in told]

    def known(self, past: Any, population: Sequence[int]) -> Mapping[int, float]:
        """Return the raw weights of all clients that count, present or not."""
        if not isinstance(past, LabelShares):
            raise BadInputError("weigh: FedEP needs its label census first; put weigh.before() ahead")
        weights = [raw for client, raw in past.raw.items() if past.heard[client].rows]
        middle = median(weights) if weights and self.missing == "median" else 0.0
        return {**dict.fromkeys(population, middle), **past.raw}

    def rescale(
        self, mean: Params, previous: Params, present: Sequence[int], past: Any, population: Sequence[int]
    ) -> Params:
        """Undo the renormalisation: with A the sum of the participants' alphas, A mean or w + A (mean - w)."""
        known = self.known(past, population)
        total = sum(known.values())
        there = set(present)
        share = sum(raw for client, raw in known.items() if client in there) / total if total else 1.0
        if self.renormalise is True or share in (0.0, 1.0):
            return mean
        base = 1 - share if self.renormalise == "delta" else 0.0
        return {
            name: (share * leaf.double() + base * previous[name].double()).to(leaf.dtype)
            if leaf.is_floating_point()
            else leaf
            for name, leaf in mean.items()
        }
