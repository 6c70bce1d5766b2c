"""Runs of a comparison that begin with the same stages play these once, and end with the bits they would have had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from potluck.beginnings import names
from potluck.config import Experiment, experiment
from potluck.report import find
from potluck.run import Interrupted, Options, Progress, compare_all, run

SETTINGS: dict[str, Any] = {
    "name": "together",
    "seeds": [0, 1],
    "partition": {"name": "dirichlet", "beta": 0.5, "clients": 4},
    "split": {"val": 0.2, "test": 0.2},
    "model": {"name": "mlp", "hidden": [8]},
    "algorithm": {"name": "feddisk", "rounds": 2, "density_rounds": 3, "local_chunks": 2},
}
RATIOS: dict[str, dict[str, Any]] = {
    "paper": {"name": "feddisk", "ratio": {"name": "paper"}},
    "log": {"name": "feddisk", "ratio": {"name": "log_ratio"}},
    "log again": {"name": "feddisk", "ratio": {"name": "log_ratio"}, "rounds": 3},
    "fedavg": {"name": "fedavg"},
}


def variants(**changes: Any) -> dict[str, Experiment]:
    entries = [{"label": label, **entry} for label, entry in RATIOS.items()]
    return experiment({**SETTINGS, "compare": entries, **changes}).variants()


def told(out: Path) -> list[dict[str, Any]]:
    """Return the records without times."""
    rows = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    return [row for row in rows if not row["what"].endswith("seconds")]


def figures(out: Path) -> dict[str, Any]:
    """Return the figures of all seeds without times."""
    result = json.loads((out / "result.json").read_text())
    return {
        seed: {name: value for name, value in each.items() if name != "seconds"}
        for seed, each in result["seeds"].items()
    }


class Watched:
    """Counts the rounds that are really played, by label and stage."""

    def __init__(self) -> None:
        self.played: dict[tuple[str, str], int] = {}
        self.heard = 0

    def __call__(self, standing: Progress) -> None:
        self.heard += standing.round if standing.resumed else min(standing.round, 1)
        if not standing.resumed and standing.round:
            place = (standing.label, standing.stage)
            self.played[place] = self.played.get(place, 0) + 1


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where every variant was run by itself."""
    out = tmp_path_factory.mktemp("apart")
    for label, variant in variants().items():
        run(variant, out / label, label=label)
    return out


def test_common_stages_are_played_once_and_change_no_bit(tmp_path: Path, apart: Path) -> None:
    watched = Watched()
    compare_all(variants(), tmp_path, Options(watch=watched))
    played = {place for place in watched.played if place[1] != "train"}
    assert played == {("paper", "own_density"), ("paper", "density"), ("paper", "ratio"), ("log", "ratio")}
    for label in RATIOS:
        assert figures(tmp_path / label) == figures(apart / label)
        assert told(tmp_path / label) == told(apart / label)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*RATIOS, "comparison.json"])


def test_a_borrowed_beginning_counts_with_its_seconds_and_rounds(tmp_path: Path) -> None:
    watched = Watched()
    results = compare_all(variants(), tmp_path, Options(watch=watched))
    density = [
        row["value"]
        for line in (tmp_path / "log" / "records.jsonl").read_text().splitlines()
        if (row := json.loads(line))["what"] == "seconds" and row["stage"] == "density"
    ]
    assert len(density) >= 2
    assert results["log"]["seconds"] >= sum(density)


@pytest.mark.parametrize("after", [3, 4])
def test_an_interrupted_comparison_goes_on_to_the_same_end(tmp_path: Path, apart: Path, after: int) -> None:
    stopped = 0
    while True:
        try:
            compare_all(variants(), tmp_path, Options(resume=stopped > 0, stop_after=after))
            break
        except Interrupted:
            stopped += 1
            assert {run.name for run in find(tmp_path)} <= set(RATIOS)
    assert stopped > 1
    for label in RATIOS:
        assert figures(tmp_path / label) == figures(apart / label)
        assert told(tmp_path / label) == told(apart / label)


def test_only_equal_beginnings_have_one_name() -> None:
    made = variants()
    paper, log, again, fedavg = (names(made[label]) for label in RATIOS)
    assert [len(each) for each in (paper, log, again, fedavg)] == [4, 4, 4, 1]
    assert paper[:2] == log[:2] == again[:2]
    assert log[2] == again[2] != paper[2]
    assert log[3] != again[3]
    other: list[dict[str, Any]] = [
        {"participation": 0.5},
        {"partition": {"name": "iid", "clients": 4}},
        {"shifts": [{"name": "noise", "variance": 0.1}]},
        {"model": {"name": "mlp", "hidden": [9]}},
        {"faults": {"lost": 0.1}},
        {"algorithm": {**SETTINGS["algorithm"], "density_rounds": 4}},
    ]
    for change in other:
        assert names(variants(**change)["paper"])[1] != paper[1]
    assert names(variants(seeds=[5], name="elsewhere")["paper"]) == paper


def test_a_whole_run_can_be_the_beginning_of_another(tmp_path: Path) -> None:
    """The federated VAE is stage A of FedDisco with a beta-VAE; of a classifier's only if that is scored as well."""
    small = {"rounds": 2, "vae": {"name": "vae", "hidden": [8]}}
    entries = [
        {"label": "fedvae", "name": "fedvae", **small},
        {"label": "disco", "name": "feddisco-vae", "a": 0.01, **small},
        {"label": "classifier", "name": "feddisco-vae", "task": "classifier", **small},
    ]
    fit = {"optimizer": "adam", "lr": 1e-3, "batch": 16}
    made = variants(algorithm={"name": "fedvae", "fit": fit}, compare=entries)
    for label, variant in made.items():
        run(variant, tmp_path / "apart" / label, label=label)
    watched = Watched()
    compare_all(made, tmp_path / "together", Options(watch=watched))
    assert {place for place in watched.played if place[1] == "vae"} == {
        ("fedvae", "vae"),
        ("classifier", "vae"),
    }
    for label in made:
        assert figures(tmp_path / "together" / label) == figures(tmp_path / "apart" / label)
        assert told(tmp_path / "together" / label) == told(tmp_path / "apart" / label)
