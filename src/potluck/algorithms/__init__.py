"""Every method by name. Adding one is one file and one line here; the laws then test it on every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from potluck.algorithms.alone import alone
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedavgm import ServerMomentum, fedavgm
from potluck.algorithms.fedbn import Norms, fedbn
from potluck.algorithms.feddisco import LabelDiscrepancy, feddisco
from potluck.algorithms.feddisco_vae import LatentDiscrepancy, feddisco_vae
from potluck.algorithms.feddisk import feddisk, feddisk_ab
from potluck.algorithms.fedep import fedep
from potluck.algorithms.fedex import fedex
from potluck.algorithms.fedloss import ValidationLoss, fedloss
from potluck.algorithms.fedmedian import Median, fedmedian
from potluck.algorithms.fedpcl import fedpcl
from potluck.algorithms.fedprox import Proximal, fedprox
from potluck.algorithms.fedrod import BalancedSoftmax, Decoupled, fedrod
from potluck.algorithms.fedvae import fedvae
from potluck.algorithms.pooled import pooled
from potluck.algorithms.scaffold import Variates, scaffold
from potluck.core import Algorithm
from potluck.parts.autoencoder import Autoencoder, ConvAutoencoder
from potluck.parts.density_model import Made, Mixture, NormalisingFlow
from potluck.parts.pooled_kl import PooledKL
from potluck.parts.rate import Rate
from potluck.parts.ratio import RATIOS
from potluck.roles import (
    Architecture,
    ByRows,
    Everything,
    Objective,
    Plain,
    Replace,
    Server,
    Share,
    Uniform,
    Weigh,
)

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = {
    "alone": alone,
    "fedavg": fedavg,
    "fedavgm": fedavgm,
    "fedbn": fedbn,
    "feddisco": feddisco,
    "feddisco-vae": feddisco_vae,
    "feddisk": feddisk,
    "feddisk-ab": feddisk_ab,
    "fedep": fedep,
    "fedex": fedex,
    "fedloss": fedloss,
    "fedmedian": fedmedian,
    "fedpcl": fedpcl,
    "fedprox": fedprox,
    "fedrod": fedrod,
    "fedvae": fedvae,
    "pooled": pooled,
    "scaffold": scaffold,
}

WEIGHS: Mapping[str, Callable[..., Weigh]] = {
    "disco": LabelDiscrepancy,
    "disco_vae": LatentDiscrepancy,
    "fedep": PooledKL,
    "loss": ValidationLoss,
    "rows": ByRows,
    "uniform": Uniform,
}

OBJECTIVES: Mapping[str, Callable[..., Objective]] = {
    "balanced_softmax": BalancedSoftmax,
    "fedrod": Decoupled,
    "plain": Plain,
    "proximal": Proximal,
    "scaffold": Variates,
}

SERVERS: Mapping[str, Callable[..., Server]] = {
    "median": Median,
    "momentum": ServerMomentum,
    "rate": Rate,
    "replace": Replace,
}

SHARES: Mapping[str, Callable[..., Share]] = {
    "everything": Everything,
    "norms": Norms,
}

ARCHITECTURES: Mapping[str, Callable[..., Architecture]] = {
    "conv_vae": ConvAutoencoder,
    "flow": NormalisingFlow,
    "gaussian_mixture": Mixture,
    "made": Made,
    "vae": Autoencoder,
}

__all__ = ["ALGORITHMS", "ARCHITECTURES", "OBJECTIVES", "RATIOS", "SERVERS", "SHARES", "WEIGHS"]
