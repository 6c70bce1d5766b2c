"""Effective rounds and costs (V-DK10 from records), and the histograms of row weights on the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from potluck.parts.ecr import two_phase_cost
from potluck.report import page
from potluck.report.page_cost import Effort, courses_of, effective_costs, effort
from potluck.report.page_weights import histograms, row_weights
from potluck.report.read import open_runs

CLIENTS, DENSITY, CLASSIFIER = 4, 1000, 250


def stored(
    folder: Path, label: str, curve: list[float], density_rounds: int = 0, weights: bool = False
) -> Path:
    """Write a run of one seed whose mean accuracy follows a curve."""
    rows: list[tuple[str, int, str, str, object]] = []
    for number in range(1, density_rounds + 1):
        rows += [("density", number, "server", "bytes/up/params", CLIENTS * DENSITY * 4)]
        rows += [("density", number, "server", "bytes/up", CLIENTS * DENSITY * 4)]
        rows += [("density", number, "server", "bytes/down", CLIENTS * DENSITY * 4)]
        rows += [("density", number, "server", "participants", CLIENTS)]
    if weights:
        for client in range(CLIENTS):
            counts = [client + 1] + [0] * 18 + [3]
            rows += [("ratio", 1, f"client/{client}", "row_weights/histogram", counts)]
            rows += [("ratio", 1, f"client/{client}", "row_weights/effective", 0.5)]
            rows += [("ratio", 1, f"client/{client}", "row_weights/clip", 20.0)]
    for number, value in enumerate(curve, start=1):
        rows += [("train", number, "server", "local/mean/accuracy", value)]
        rows += [
            ("train", number, "server", "bytes/up", 100.0),
            ("train", number, "server", "bytes/down", 50.0),
        ]
    path = folder / label
    path.mkdir()
    (path / "manifest.json").write_text(json.dumps({"label": label, "parameters": CLASSIFIER}))
    fields = ("stage", "round", "who", "what", "value")
    lines = [json.dumps({"run": "x", "seed": 0, **dict(zip(fields, row, strict=True))}) for row in rows]
    (path / "records.jsonl").write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    return [
        stored(tmp_path, "feddisk", [0.2, 0.5, 0.7, 0.9], density_rounds=3, weights=True),
        stored(tmp_path, "fedavg", [0.3, 0.4, 0.6, 0.6]),
    ]


def test_efforts_by_the_papers_convention_and_in_bytes(pair: list[Path]) -> None:
    disk, plain = courses_of(open_runs(pair))
    before = 3 * 2 * CLIENTS * DENSITY * 4
    assert effort(disk, 0.6) == Effort(3, two_phase_cost(DENSITY, 3, CLASSIFIER, 3), before + 3 * 150)
    assert effort(plain, 0.6) == Effort(3, two_phase_cost(0, 0, CLASSIFIER, 3), 3 * 150)
    assert effort(plain, 0.855) == Effort(None, None, None)


def test_the_table_stops_the_winners_clock_at_the_best_rivals_best(pair: list[Path]) -> None:
    found = effective_costs(open_runs(pair))
    assert "The common target is 85.50 %" in found
    winner, loser = found.split("<tbody>")[1].split("</tr>")[:2]
    assert f'data-value="{two_phase_cost(DENSITY, 3, CLASSIFIER, 3)}"' in winner
    assert f'data-value="{two_phase_cost(DENSITY, 3, CLASSIFIER, 4)}"' in winner
    assert f'data-value="{two_phase_cost(0, 0, CLASSIFIER, 3)}"' in loser
    assert "\u2013" in loser


def test_histograms_are_drawn_where_rows_are_weighed(pair: list[Path]) -> None:
    runs = open_runs(pair)
    assert {k: counts.tolist()[::19] for k, counts in histograms(runs[0]).items()} == {
        k: [k + 1.0, 3.0] for k in range(CLIENTS)
    }
    drawn = row_weights(runs)
    assert drawn.count("<rect") == 2 * CLIENTS
    assert "client 3: 4 rows" in drawn
    assert "50 %" in drawn
    assert row_weights(runs[1:]) == ""


def test_the_page_holds_both_sections(pair: list[Path], tmp_path: Path) -> None:
    written = page.write(tmp_path / "page", pair).read_text(encoding="utf-8")
    assert 'id="effective-costs"' in written
    assert 'id="row-weights"' in written


def test_a_run_without_scores_has_no_costs(make: Callable[..., Path], tmp_path: Path) -> None:
    assert effective_costs(open_runs([stored(tmp_path, "empty", [])])) == ""
    assert "Rounds, common" in effective_costs(open_runs([make(warmup=2)]))
