"""What is kept of a run for the pages of the documentation."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from potluck.config import experiment
from potluck.report import open_runs
from potluck.report.statistics import reasons
from potluck.run import compare_all

DOCS = Path(__file__).parents[1] / "docs"
SETTINGS = {
    "name": "tiny",
    "partition": {"name": "iid", "clients": 6},
    "faults": {"lost": 0.3},
    "algorithm": {"name": "fedavg", "rounds": 5},
    "evaluate": {"every": 5, "who": "none"},
}


@pytest.mark.parametrize("how", ["slim", "lean"])
def test_a_stored_run_tells_how_often_answers_did_not_count(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    store = importlib.import_module("store")
    compare_all(experiment(SETTINGS).variants(), tmp_path / "run")
    store.store(tmp_path / "run" / "fedavg", tmp_path / "kept" / "fedavg", getattr(store, how))
    (whole,), (kept,) = open_runs([tmp_path / "run"]), open_runs([tmp_path / "kept"])
    assert reasons(whole).counts["lost"] > 1
    assert reasons(kept).counts == reasons(whole).counts
    sizes = [(tmp_path / place / "fedavg" / "records.jsonl").stat().st_size for place in ("kept", "run")]
    assert sizes[0] < sizes[1]
