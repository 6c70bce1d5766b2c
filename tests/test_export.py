"""`potluck export`: the model of a finished run, as other programs can read it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from potluck.config import experiment
from potluck.errors import BadInputError
from potluck.export import export
from potluck.run import run

TABLE = {"name": "small", "model": {"name": "softmax"}, "algorithm": {"name": "fedavg", "rounds": 1}}


def test_an_exported_model_can_be_started_from(tmp_path: Path) -> None:
    run(experiment(TABLE), tmp_path / "run")
    file = export(tmp_path / "run", 0, tmp_path / "out" / "model.safetensors")
    params = load_file(file)
    assert {name: tuple(leaf.shape) for name, leaf in params.items()} == {
        "head.weight": (10, 64),
        "head.bias": (10,),
    }
    world = experiment({**TABLE, "init": str(file)}).world(0)
    started = world.stage(0).init(world.site(0, "server"), None).state
    assert all(torch.equal(started.params[name], leaf) for name, leaf in params.items())


def test_what_has_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no checkpoint of seed 0"):
        export(tmp_path, 0, tmp_path / "model.safetensors")
    run(experiment({**TABLE, "algorithm": {"name": "alone", "rounds": 1}}), tmp_path / "run")
    with pytest.raises(BadInputError, match="no one to export"):
        export(tmp_path / "run", 0, tmp_path / "model.safetensors")
    assert not (tmp_path / "model.safetensors").exists()
