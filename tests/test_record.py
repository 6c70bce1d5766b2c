"""The run directory: rows that a checkpoint vouches for, files that are whole or not there."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from potluck.errors import BadInputError
from potluck.record import Records, RunDirectory, machine, plain, read_json, write_json
from potluck.rounds import Fact


def rows(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_rows_behind_the_last_checkpoint_are_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    records = Records(file, "demo")
    records.write(0, [Fact("train", 1, "server", "accuracy", 0.5)])
    offset = records.commit()
    records.write(0, [Fact("train", 2, "server", "accuracy", 0.6)])
    records.close()
    assert len(rows(file)) == 2
    again = Records(file, "demo", offset)
    again.write(0, [])
    again.write(1, [Fact("train", 2, "client/3", "weight", torch.tensor([1, 2]))])
    again.close()
    assert rows(file) == [
        {
            "run": "demo",
            "seed": 0,
            "stage": "train",
            "round": 1,
            "who": "server",
            "what": "accuracy",
            "value": 0.5,
        },
        {
            "run": "demo",
            "seed": 1,
            "stage": "train",
            "round": 2,
            "who": "client/3",
            "what": "weight",
            "value": [1, 2],
        },
    ]


def test_values_are_plain_json() -> None:
    assert plain(torch.tensor([1.5, math.inf])) == [1.5, "inf"]
    assert plain((math.nan, [2, None], "text")) == ["nan", [2, None], "text"]


def test_json_is_strict_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "result.json"
    write_json(file, {"a": 1.5})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(file, {"a": math.nan})
    assert read_json(file) == {"a": 1.5}
    assert [each.name for each in file.parent.iterdir()] == ["result.json"]
    file.write_text("{")
    with pytest.raises(BadInputError, match=r"result\.json: is not valid JSON"):
        read_json(file)


def test_half_written_files_are_swept(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for name in (".manifest.json.12.part", "checkpoints/.seed-0.safetensors.9.part", "kept.txt"):
        (tmp_path / name).touch()
    RunDirectory(tmp_path).sweep()
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["checkpoints", "kept.txt"]


def test_the_machine_is_described() -> None:
    described = machine()
    assert (
        described["versions"]["torch"] == torch.__version__.partition("+")[0]
        or described["versions"]["torch"]
    )
    assert described["threads_per_visit"] == 1
    assert isinstance(described["cpu"]["flags"], list)
    json.dumps(described, allow_nan=False)
