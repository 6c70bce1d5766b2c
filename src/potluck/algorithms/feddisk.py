"""FedDisk: a client's rows count by how much likelier they are among everybody's rows than among its own.

Nguyen, Wu and Chang, "Federated learning for distribution skewed data using sample weights", IEEE Transactions
on Artificial Intelligence 2024. Four stages: (1) every client trains a density q_k of its own; (2) a federated
density p (MADE), stopped early; (3) every client weighs its rows; (4) averaging with weighted losses.

    alpha_kj = p(x_kj) / q_k(x_kj), clipped to [1/clip, clip], divided by the client's mean
    loss of client k:  (1 / N_k) sum_j alpha_kj l(g(x_kj), y_kj)

`ratio` says how alpha is found. "paper" is the published estimator (a judge on the densities' outputs); it is
no density ratio: independent inputs give every row the same weight. "log_ratio" and "cpe_sample" are density
ratios. FedDiskAb ("raw") compares rows with a pool of all clients' rows: an upper bound, and a leak by design.
Deviations: masks come from a shared seed (the authors' code averages weights under different masks); density
validation uses the client's validation rows, not its test rows; alpha is normalised; the densities' optimiser
is that of the authors' code (Adam), the rest is descent with rate 0.01 as in the text.
Wire: nothing in (1), a MADE down and up and one loss up in (2), the MADE down in (3), as FedAvg in (4). State: the
own density until it is used, then the row weights.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from potluck.algorithms.fedavg import Rounds
from potluck.algorithms.fedavg import wire as wire
from potluck.average import Average, averaging
from potluck.combine import NormBuffers
from potluck.core import Algorithm, Stage
from potluck.errors import BadInputError
from potluck.learn import Fit
from potluck.parts.density_model import Made, Mixture, NormalisingFlow
from potluck.parts.density_ratio import DensityRatio
from potluck.parts.early_stop import NoBetter
from potluck.parts.judge import Judge
from potluck.parts.likelihood import Likelihood
from potluck.parts.own_density import OwnDensity
from potluck.parts.ratio import Paper, Ratio, Raw
from potluck.parts.row_pool import RowPool
from potluck.parts.row_weighted import RowWeighted
from potluck.roles import Architecture, ByRows, Everything, Replace, Server, Share, Weigh

FIT = Fit(epochs=2)
PAPER, MADE, JUDGE = Paper(), Made(), Judge()
DENSITY_FIT = Fit("adam", lr=1e-3, epochs=2)
LOCAL_FIT = Fit("adam", lr=1e-3, epochs=5)
PAPER_NEEDS = (
    'algorithm.ratio: "paper" compares conditional means, which only density "made" has; choose ratio = '
    '{ name = "log_ratio" } or { name = "cpe_sample" }'
)
STAR = "it pools rows at one server; use a star or a rotating server"


def feddisk(
    rounds: Rounds = 10,
    fit: Fit = FIT,
    ratio: Ratio = PAPER,
    density: Architecture = MADE,
    density_rounds: Rounds = 100,
    density_fit: Fit = DENSITY_FIT,
    patience: Rounds = 3,
    local_fit: Fit = LOCAL_FIT,
    local_chunks: Annotated[int, Field(ge=1)] = 100,
    weigh: Weigh = ByRows(),
    server: Server = Replace(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
) -> Algorithm:
    """Averaging with row weights that are density ratios (Nguyen et al., IEEE TAI 2024).

    The pooled density trains for at most `density_rounds`, a client's own for at most `local_chunks` times
    `local_fit.epochs`; both stop after `patience` looks at the validation rows that show nothing better.
    """
    if isinstance(ratio, Paper) and isinstance(density, Mixture | NormalisingFlow):
        raise BadInputError(PAPER_NEEDS)
    own = OwnDensity(density, local_fit, local_chunks, patience)
    pooled = Average(
        density_rounds, density_fit, objective=Likelihood(density),
        stream="density", architecture=density, stop=NoBetter(patience),
    )  # fmt: skip
    before = (*((RowPool(),) if ratio.leaks else (own, pooled)), DensityRatio(ratio, density))
    return _behind(before, "feddisk", rounds, fit, weigh, server, share, bn_buffers)


def feddisk_ab(
    rounds: Rounds = 10,
    fit: Fit = FIT,
    judge: Judge = JUDGE,
    clip: Annotated[float, Field(gt=1)] = 20.0,
    most: Annotated[int, Field(ge=1)] = 10_000,
    weigh: Weigh = ByRows(),
    server: Server = Replace(),
    share: Share = Everything(),
    bn_buffers: NormBuffers = "average",
) -> Algorithm:
    """FedDisk with weights from pooled raw rows (Nguyen et al., IEEE TAI 2024); leaks them, an upper bound."""
    before = RowPool(most), DensityRatio(Raw(clip, judge))
    return _behind(before, "feddisk-ab", rounds, fit, weigh, server, share, bn_buffers)


def _behind(
    before: tuple[Stage[Any, Any, Any], ...],
    name: str,
    rounds: int,
    fit: Fit,
    weigh: Weigh,
    server: Server,
    share: Share,
    bn_buffers: NormBuffers,
) -> Algorithm:
    trained = averaging(name, rounds, fit, weigh, RowWeighted(), server, share, bn_buffers)
    pools = any(stage.leaks for stage in before)
    topologies = frozenset({"star", "rotating"}) if pools else trained.topologies
    return Algorithm((*before, *trained.stages), name, topologies=topologies, refusal=STAR if pools else "")
