"""Every method by name. Adding one is one file and one line here; the laws then test it on every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from potluck.algorithms.alone import alone
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.pooled import pooled
from potluck.core import Algorithm
from potluck.roles import ByRows, Everything, Objective, Plain, Replace, Server, Share, Uniform, Weigh

ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = {
    "alone": alone,
    "fedavg": fedavg,
    "pooled": pooled,
}

WEIGHS: Mapping[str, Callable[..., Weigh]] = {
    "rows": ByRows,
    "uniform": Uniform,
}

OBJECTIVES: Mapping[str, Callable[..., Objective]] = {
    "plain": Plain,
}

SERVERS: Mapping[str, Callable[..., Server]] = {
    "replace": Replace,
}

SHARES: Mapping[str, Callable[..., Share]] = {
    "everything": Everything,
}

__all__ = ["ALGORITHMS", "OBJECTIVES", "SERVERS", "SHARES", "WEIGHS"]
