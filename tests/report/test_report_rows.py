"""The rows that count most and least: drawn where the data are, on demand, and never written into records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from potluck.cli import cli
from potluck.config import experiment, load
from potluck.extreme_rows import extreme_rows
from potluck.report import open_runs
from potluck.report.plot_rows import Extremes, extremes
from potluck.run import run

TABLE = {
    "name": "weighed",
    "partition": {"name": "iid", "clients": 3},
    "model": {"name": "mlp", "hidden": [8]},
    "algorithm": {"name": "feddisk", "rounds": 1, "density_rounds": 2, "local_chunks": 2, "patience": 1},
}


@pytest.fixture(scope="module")
def weighed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of FedDisk on digits."""
    out = tmp_path_factory.mktemp("weighed") / "run"
    run(experiment(TABLE), out)
    return out


def report(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, words)], catch_exceptions=True)


def test_the_rows_are_those_at_the_recorded_positions(weighed: Path) -> None:
    (found,) = extreme_rows(open_runs([weighed]), [1])
    assert (found.run, found.client) == ("feddisk", 1)
    recorded = {
        row["what"].rpartition("/")[2]: row["value"]
        for line in (weighed / "records.jsonl").read_text().splitlines()
        if (row := json.loads(line))["who"] == "client/1" and row["what"].startswith("row_weights/")
    }
    table = load(weighed / "config.toml").federation(0).holders[1].train
    for end in ("highest", "lowest"):
        np.testing.assert_allclose(found.images[end], table.x[recorded[end]].numpy())
        assert list(found.labels[end]) == [str(int(y)) for y in table.y[recorded[end]]]


def test_they_are_drawn_on_demand_only(weighed: Path, tmp_path: Path) -> None:
    before = (weighed / "records.jsonl").read_bytes()
    assert report(weighed, "--out", tmp_path / "plain").exit_code == 0
    assert report(weighed, "--out", tmp_path / "rows", "--rows", "0", "--rows", "2").exit_code == 0
    plain, drawn = ((tmp_path / name / "report.html").read_text("utf-8") for name in ("plain", "rows"))
    assert "--rows CLIENT draws" in plain
    assert "lowest weights, feddisk" not in plain
    for client in (0, 2):
        assert f"lowest weights, feddisk, client {client}" in drawn
    assert (weighed / "records.jsonl").read_bytes() == before


def test_grey_images_colours_and_vectors_can_be_drawn() -> None:
    draw = np.random.default_rng(0)
    for shape in ((1, 8, 8), (3, 8, 8), (5,)):
        rows = {"highest": draw.random((3, *shape)), "lowest": draw.random((2, *shape))}
        shown = Extremes("x $y$", 4, rows, {"highest": ["a", "b", "c"], "lowest": ["1", "2"]})
        canvas = extremes(shown)
        canvas.draw_without_rendering()
        assert len(canvas.axes) == 5


def test_what_cannot_be_drawn_is_said_in_a_sentence(weighed: Path, tmp_path: Path) -> None:
    cases = []
    cases.append((weighed, "3", "client 3 does not exist; the clients are 0 to 2"))
    other = tmp_path / "other"
    shutil.copytree(weighed, other)
    config = other / "config.toml"
    config.write_text(config.read_text().replace("clients = 3", "clients = 4"))
    cases.append((other, "0", "the data are not those of the run"))
    unweighed = tmp_path / "fedavg"
    run(experiment({**TABLE, "algorithm": {"name": "fedavg", "rounds": 1}}), unweighed)
    cases.append((unweighed, "0", "no run here weighs rows"))
    for path, client, words in cases:
        told = report(path, "--rows", client, "--out", tmp_path / "none")
        assert words in str(told.exception)
        assert not (tmp_path / "none").exists()
