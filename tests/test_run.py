"""Runs: what lies in a run directory, what comes back, and what is refused before anything is written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from potluck.config import Experiment, experiment
from potluck.errors import BadInputError, RunError
from potluck.learn import Fit
from potluck.run import Options, Progress, compare_all, run, total_rounds

SETTINGS: Mapping[str, Any] = {
    "name": "small",
    "partition": {"name": "dirichlet", "beta": 0.5, "clients": 5},
    "model": {"name": "mlp", "hidden": [8]},
    "algorithm": {"name": "fedavg", "rounds": 3, "fit": {"lr": 0.1, "steps": 3}},
}


def made(**changes: Any) -> Experiment:
    return experiment({**SETTINGS, **changes})


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def values(out: Path, who: str, what: str) -> list[Any]:
    return [row["value"] for row in rows(out) if (row["who"], row["what"]) == (who, what)]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("done") / "run"
    run(made(seeds=[0, 4]), out)
    return out


def test_the_result_holds_every_seed_and_their_spread(done: Path) -> None:
    result = json.loads((done / "result.json").read_text())
    assert result["algorithm"] == "fedavg"
    assert list(result["seeds"]) == ["0", "4"]
    for seed in result["seeds"].values():
        assert len(seed["fingerprint"]) == 64
        assert 0 <= seed["accuracy"] <= 1
        assert {"accuracy_macro", "f1_macro", "loss", "local_accuracy", "rounds", "seconds"} <= set(seed)
    both = [seed["accuracy"] for seed in result["seeds"].values()]
    assert result["summary"]["accuracy"]["mean"] == pytest.approx(np.mean(both))
    assert result["summary"]["accuracy"]["std"] == pytest.approx(np.std(both, ddof=1))
    assert result["bytes_up"] == sum(seed["bytes_up"] for seed in result["seeds"].values())
    model = 4 * (64 * 8 + 8 + 8 * 10 + 10)
    assert result["seeds"]["0"]["bytes_down"] == 3 * 5 * model
    assert result["seeds"]["0"]["bytes_up"] == 3 * 5 * (model + 8)


def test_one_seed_has_no_deviation(tmp_path: Path) -> None:
    result = run(made(), tmp_path / "run")
    assert result["summary"]["accuracy"]["std"] is None
    assert result["summary"]["accuracy"]["mean"] == result["seeds"]["0"]["accuracy"]


def test_the_directory_says_what_was_run_and_on_what(done: Path) -> None:
    manifest = json.loads((done / "manifest.json").read_text())
    assert manifest["digest"] == made(seeds=[0, 4]).digest()
    assert manifest["seeds"] == [0, 4]
    assert manifest["clients"] == {"0": 5, "4": 5}
    assert list(manifest["partition_digest"]) == ["0", "4"]
    assert manifest["parameters"] == 610
    assert manifest["versions"]["torch"]
    config = tomllib.loads((done / "config.toml").read_text())
    assert experiment(config).digest() == manifest["digest"]
    assert sorted(file.name for file in done.iterdir()) == [
        "checkpoints",
        "config.toml",
        "manifest.json",
        "records.jsonl",
        "result.json",
    ]


def test_the_records_are_tidy(done: Path) -> None:
    assert {tuple(row) for row in rows(done)} == {("run", "seed", "stage", "round", "who", "what", "value")}
    first = [row for row in rows(done) if row["seed"] == 0]
    assert {row["round"] for row in first if row["what"] == "global/accuracy"} == {1, 2, 3}
    weights = [row["value"] for row in first if row["what"] == "weight" and row["round"] == 2]
    assert len(weights) == 5
    assert sum(weights) == pytest.approx(1)
    histograms = [row["value"] for row in first if row["what"] == "histogram"]
    counts = [row["value"] for row in first if row["what"] == "rows" and row["stage"] == "partition"]
    assert [sum(histogram) for histogram in histograms] == counts
    down = [row["value"] for row in first if row["what"] == "bytes/down"]
    assert sum(down) == json.loads((done / "result.json").read_text())["seeds"]["0"]["bytes_down"]


def test_scores_of_the_last_round_are_those_of_the_result(done: Path) -> None:
    result = json.loads((done / "result.json").read_text())
    last = [row["value"] for row in rows(done) if row["what"] == "global/accuracy" and row["round"] == 3]
    assert last == [seed["accuracy"] for seed in result["seeds"].values()]


def test_evaluation_follows_its_settings_and_changes_no_bit(tmp_path: Path, done: Path) -> None:
    seldom = made(seeds=[0], evaluate={"every": 2, "who": "none"})
    result = run(seldom, tmp_path / "run")
    scored = [row for row in rows(tmp_path / "run") if row["what"].endswith("accuracy")]
    assert [(row["round"], row["who"]) for row in scored] == [(2, "server"), (3, "server")]
    whole = json.loads((done / "result.json").read_text())
    assert result["seeds"]["0"]["fingerprint"] == whole["seeds"]["0"]["fingerprint"]


def test_watchers_hear_of_every_round(tmp_path: Path) -> None:
    heard: list[Progress] = []
    run(made(), tmp_path / "run", Options(watch=heard.append))
    assert [standing.round for standing in heard] == [0, 1, 2, 3]
    assert heard[-1].participants == 5
    assert heard[-1].accuracy is not None
    assert total_rounds(made(seeds=[0, 1])) == 6


def test_a_loss_that_runs_away_is_null_not_nan(tmp_path: Path) -> None:
    wild = made(algorithm={"name": "alone", "rounds": 2, "fit": {"lr": 1e30, "steps": 1}})
    result = run(wild, tmp_path / "run")
    text = (tmp_path / "run" / "result.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert result["seeds"]["0"]["loss"] is None


def test_alone_and_pooled_have_their_own_figures(tmp_path: Path) -> None:
    results = compare_all(
        {name: made(algorithm={"name": name, "rounds": 2}) for name in ("alone", "pooled")}, tmp_path
    )
    assert results["alone"]["bytes_up"] == 0
    assert results["pooled"]["seeds"]["0"]["accuracy"] is not None
    assert results["alone"]["seeds"]["0"]["local_accuracy"] is not None
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in results]
    assert manifests[0]["partition_digest"] == manifests[1]["partition_digest"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": {"name": "lenet"}}, "images of 8 x 8 are too small for 'lenet'"),
    ({"partition": {"name": "iid", "clients": 99_999}}, "99999|99,999"),
    ({"algorithm": {"name": "scaffold", "fit": {"optimizer": "adam"}}}, "(?i)scaffold|plain"),
    ({"topology": {"name": "random_regular", "degree": 3}}, r"topology\.degree"),
    ({"data": {"name": "npz", "path": "nowhere.npz"}}, "nowhere"),
    ({"init": "nowhere.safetensors"}, "nowhere.safetensors is not a readable"),
    ({"evaluate": {"tests": ["other"]}}, "unknown test 'other'"),
]


@pytest.mark.parametrize(("change", "complaint"), REFUSED)
def test_what_is_refused_leaves_nothing_behind(
    tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    out = tmp_path / "run"
    with pytest.raises(BadInputError, match=complaint) as caught:
        run(made(**change), out)
    assert "\n" not in str(caught.value)
    assert not out.exists()
    out.mkdir()
    with pytest.raises(BadInputError):
        run(made(**change), out)
    assert not list(out.iterdir())


def test_a_directory_of_something_else_is_left_as_it_is(tmp_path: Path, done: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInputError, match="is not empty and holds no run"):
        run(made(), tmp_path, Options(overwrite=True, resume=True))
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(BadInputError, match=r"notes\.txt: is not a folder"):
        run(made(), tmp_path / "notes.txt")
    before = (done / "records.jsonl").read_bytes()
    with pytest.raises(BadInputError, match="already holds this run; --resume to go on"):
        run(made(seeds=[0, 4]), done)
    with pytest.raises(BadInputError, match="belongs to another configuration"):
        run(made(seeds=[0, 4], participation=0.5), done, Options(resume=True))
    assert (done / "records.jsonl").read_bytes() == before


def test_overwriting_starts_anew_and_keeps_what_is_not_ours(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(made(algorithm={"name": "scaffold", "rounds": 2}), out)
    (out / "notes.txt").write_text("mine")
    run(made(), out, Options(overwrite=True))
    assert (out / "notes.txt").read_text() == "mine"
    assert not (out / "memories").exists()
    assert json.loads((out / "result.json").read_text())["algorithm"] == "fedavg"
    assert {row["round"] for row in rows(out)} == {0, 1, 2, 3}


@pytest.mark.parametrize("workers", [0, 2])
def test_simulated_faults_are_recorded_and_the_same_everywhere(tmp_path: Path, workers: int) -> None:
    faulty = made(faults={"lost": 0.2, "late": 0.2, "crash": 0.2}, stragglers={"share": 0.3})
    run(faulty, tmp_path / "run", Options(workers=workers))
    reasons = [
        (row["round"], row["who"], row["value"]) for row in rows(tmp_path / "run") if row["what"] == "reason"
    ]
    assert {reason for _, _, reason in reasons} <= {"lost", "late", "crash", "straggler"}
    assert len(reasons) > 3
    run(faulty, tmp_path / "again", Options(workers=1 - workers % 2))
    again = [
        (row["round"], row["who"], row["value"])
        for row in rows(tmp_path / "again")
        if row["what"] == "reason"
    ]
    assert again == reasons


def test_a_failure_keeps_what_was_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that fails in round 2 stops the run; once it is mended, --resume goes on after round 1."""
    whole = run(made(), tmp_path / "whole")
    fit = Fit.__call__

    def failing(self: Fit, *given: Any, **named: Any) -> Any:
        if named["round"] == 2:
            raise ZeroDivisionError("by nothing")
        return fit(self, *given, **named)

    monkeypatch.setattr(Fit, "__call__", failing)
    with pytest.raises(
        RunError, match="stage 'train', round 2, client 0 failed: ZeroDivisionError: by nothing"
    ):
        run(made(), tmp_path / "run")
    skipped = run(made(on_error="skip"), tmp_path / "skipped")
    assert skipped["seeds"]["0"]["rounds"] == 3
    assert values(tmp_path / "skipped", "client/3", "reason") == ["error"]
    monkeypatch.undo()
    resumed = run(made(), tmp_path / "run", Options(resume=True))
    assert resumed["seeds"]["0"]["fingerprint"] == whole["seeds"]["0"]["fingerprint"]
