"""Every real set trains one round with FedAvg and is drawn. They lie under $POTLUCK_DATA."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from potluck.config import experiment
from potluck.data import Places
from potluck.run import Options, run

pytestmark = [pytest.mark.realdata, pytest.mark.slow]
WRITERS = {"name": "by_group", "column": "writer"}
SOURCES = {"name": "blocks", "column": "source", "size": 325}
SETS: Mapping[str, Mapping[str, Any]] = {
    "mnist": {"name": "dirichlet", "beta": 0.5, "clients": 10},
    "fashion-mnist": {"name": "dirichlet", "beta": 0.5, "clients": 10},
    "cifar10": {"name": "dirichlet", "beta": 0.5, "clients": 10},
    "svhn": {"name": "quantity", "beta": 0.5, "clients": 10},
    "femnist": WRITERS,
    "xray": SOURCES,
    "mnist-cifar": SOURCES,
}


@pytest.mark.parametrize("name", SETS)
def test_it_trains_and_is_drawn(name: str, real: Places, tmp_path: Path) -> None:
    fit = {"lr": 0.05, "batch": 32, "steps": 2}
    made = experiment(
        {
            "name": "once",
            "data": {"name": name},
            "partition": dict(SETS[name]),
            "model": {"name": "lenet"},
            "algorithm": {"name": "fedavg", "rounds": 1, "fit": fit},
            "participation": 0.1,
        }
    )
    federation = made.federation(0, real)
    result = run(made, tmp_path / "run", Options(places=real), federations={0: federation})
    assert result["seeds"]["0"]["loss"] is None or result["seeds"]["0"]["loss"] > 0
    assert result["seeds"]["0"]["local_accuracy"] > 0
    assert federation.plot(tmp_path / "skew").stat().st_size > 10_000
