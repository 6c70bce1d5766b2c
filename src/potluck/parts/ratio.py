"""Density ratios alpha(x) = p(x) / q_k(x): four ways to weigh a client's rows towards all clients' rows.

H. Nguyen, P. Wu and J. M. Chang, "Federated learning for distribution skewed data using sample weights",
IEEE TAI 2024 (FedDisk). Every estimator gives log alpha, which is clipped to [1/clip, clip] and divided
by its mean: the mean of p/q over q is 1, and without it the local learning rate would change.
  `paper`       the judge separates the outputs of the two density models on the same rows. This is not a
                density ratio: for independent inputs it gives every row the same weight.
  `log_ratio`   exp((log p(x) - log q_k(x)) / temp): exact at temp 1, a geometric mean over inputs at "D".
  `cpe_sample`  the judge separates rows drawn from the two models.
  `raw`         the judge separates the client's rows from rows of all clients (FedDiskAb): leaks by design.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.parts.judge import Judge


class Density(Protocol):
    """A distribution of rows."""

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-density of each row."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n flat rows."""
        ...


@runtime_checkable
class Conditional(Density, Protocol):
    """A density that can show the conditional mean of every input."""

    def conditionals(self, x: Tensor) -> Tensor:
        """Return rows x inputs of conditional means."""
        ...


class RowWeights(NamedTuple):
    """One weight per row (float32, mean 1), and a reason code where the estimate could not be used."""

    alpha: Tensor
    note: str | None = None


@dataclass(frozen=True)
class Ratio(ABC):
    """What the four estimators share: the call, the clip and the normalisation."""

    clip: Annotated[float, Field(gt=1)] = 20.0

    leaks: ClassVar[bool] = False

    @abstractmethod
    def log_alpha(
        self, x: Tensor, local: Density | None, pooled: Density | None, rows: Tensor | None, key: Key
    ) -> Tensor:
        """Return ln alpha of each row, neither clipped nor normalised."""

    def __call__(
        self, x: Tensor, local: Density | None, pooled: Density | None, rows: Tensor | None, key: Key
    ) -> RowWeights:
        """Weigh the rows x, given both densities and (for `raw` only) rows of all clients."""
        if len(x) < 2:
            return RowWeights(torch.ones(len(x)), "single_row" if len(x) else None)
        with torch.no_grad():
            log_alpha = self.log_alpha(x, local, pooled, rows, key).double()
        return normalised(log_alpha, self.clip)


@dataclass(frozen=True)
class Paper(Ratio):
    """FedDisk's estimator: a judge on the vectors of conditional means, read at the client's own vectors.

    link: odds (eq. 16) or prob (Algorithm 1, line 20).
    """

    link: Literal["odds", "prob"] = "odds"
    judge: Judge = field(default_factory=Judge)

    def log_alpha(
        self, x: Tensor, local: Density | None, pooled: Density | None, rows: Tensor | None, key: Key
    ) -> Tensor:
        """Return the judge's log-odds (or log-probability) of "pooled" at u_local(x)."""
        if not isinstance(local, Conditional) or not isinstance(pooled, Conditional):
            raise BadInputError('ratio "paper" needs densities with conditional means; use model "made"')
        with torch.no_grad():
            own, everyone = local.conditionals(x), pooled.conditionals(x)
        with torch.enable_grad():
            odds = self.judge(own, everyone, key / "judge").log_odds(own)
        return odds if self.link == "odds" else torch.nn.functional.logsigmoid(odds)


@dataclass(frozen=True)
class LogRatio(Ratio):
    """The ratio of the two densities themselves; `temp` flattens it ("D" = the number of inputs)."""

    temp: Annotated[float, Field(gt=0)] | Literal["D"] = 1.0

    def log_alpha(
        self, x: Tensor, local: Density | None, pooled: Density | None, rows: Tensor | None, key: Key
    ) -> Tensor:
        """Return (log p(x) - log q_k(x)) / temp."""
        own, everyone = _both("log_ratio", local, pooled)
        heat = math.prod(x.shape[1:]) if self.temp == "D" else self.temp
        return (everyone.log_prob(x).double() - own.log_prob(x).double()) / heat


@dataclass(frozen=True)
class CpeSample(Ratio):
    """Class-probability estimation on rows drawn from the two densities, as many as the client has."""

    judge: Judge = field(default_factory=Judge)

    def log_alpha(
        self, x: Tensor, local: Density | None, pooled: Density | None, rows: Tensor | None, key: Key
    ) -> Tensor:
        """Return the judge's log-odds of "drawn from the pooled density" at x."""
        own, everyone = _both("cpe_sample", local, pooled)
        zeros = own.sample(len(x), (key / "sample" / "local").torch())
        ones = everyone.sample(len(x), (key / "sample" / "pooled").torch())
        with torch.enable_grad():
            return self.judge(zeros, ones, key / "judge").log_odds(x)


@dataclass(frozen=True)
class Raw(Ratio):
    """FedDiskAb: a judge on the client's rows and as many of all clients; an upper bound that leaks."""

    judge: Judge = field(default_factory=Judge)

    leaks: ClassVar[bool] = True

    def log_alpha(
        self, x: Tensor, local: Density | None, pooled: Density | None, rows: Tensor | None, key: Key
    ) -> Tensor:
        """Return the judge's log-odds of "from all clients" at x."""
        if rows is None or len(rows) == 0:
            raise BadInputError(
                'ratio "raw" needs rows of all clients; choose another ratio where rows stay put'
            )
        picked = torch.randperm(len(rows), generator=(key / "rows").torch())[: len(x)]
        with torch.enable_grad():
            return self.judge(x, rows[picked], key / "judge").log_odds(x)


RATIOS: Mapping[str, type[Ratio]] = {
    "paper": Paper,
    "log_ratio": LogRatio,
    "cpe_sample": CpeSample,
    "raw": Raw,
}


def normalised(log_alpha: Tensor, clip: float) -> RowWeights:
    """Clip alpha to [1/clip, clip] and divide by its mean; NaN gives ones and a reason code."""
    if log_alpha.isnan().any():
        return RowWeights(torch.ones(len(log_alpha)), "nonfinite_ratio")
    bound = math.log(clip)
    alpha = log_alpha.double().clamp(-bound, bound).exp()
    if bool((alpha == alpha[:1]).all()):  # exactly FedAvg, whatever the rounding of the mean
        return RowWeights(torch.ones(len(alpha)))
    return RowWeights((alpha / alpha.mean()).float())


Known = TypeVar("Known", bound=Density)


def _both(name: str, local: Known | None, pooled: Known | None) -> tuple[Known, Known]:
    if local is None or pooled is None:
        raise BadInputError(f'ratio "{name}" needs a local and a pooled density; train both first')
    return local, pooled
