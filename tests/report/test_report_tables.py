"""The comparison table: its figures are those of the records, and the terminal shows them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from potluck.report import render, table
from potluck.report.tables import HEADINGS, best_of, cell, human_bytes, human_seconds

Writer = Callable[..., Path]


def stored(path: Path, metric: str) -> list[float]:
    seeds = json.loads((path / "result.json").read_text())["seeds"]
    return [seeds[seed][metric] for seed in seeds]


def shown(runs: list[Path], width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    render(runs, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_figures_are_mean_and_deviation_of_the_result(comparison: list[Path]) -> None:
    lines = table(comparison)
    assert [line.method for line in lines] == ["FedAvg", "FedEP", "FedBN"]
    for path, line in zip(comparison, lines, strict=True):
        for metric in ("local_accuracy", "local_accuracy_worst", "bytes_up", "seconds"):
            values = stored(path, metric)
            assert getattr(line, metric) == pytest.approx((np.mean(values), np.std(values, ddof=1), 3))
    assert lines[2].accuracy == (None, None, 0)
    assert lines[2].rounds_to.mean is None


def test_rounds_to_is_measured_at_95_percent_of_the_best(comparison: list[Path]) -> None:
    target = 0.95 * max(np.mean(stored(path, "accuracy")) for path in comparison[:2])
    firsts = []
    for seed in range(3):
        rows = map(json.loads, (comparison[1] / "records.jsonl").read_text().splitlines())
        own = [row for row in rows if row["what"] == "global/accuracy" and row["seed"] == seed]
        firsts.append(next(row["round"] for row in own if row["value"] >= target))
    assert table(comparison)[1].rounds_to.mean == pytest.approx(np.mean(firsts))
    assert table(comparison)[0].rounds_to.mean is None


def test_methods_without_global_figures_are_compared_by_their_clients(make: Writer) -> None:
    lines = table([make("FedBN", global_figures=False), make("FedPCL", global_figures=False, limit=0.6)])
    assert lines[0].rounds_to.mean is not None
    assert lines[1].rounds_to.mean is None


@pytest.mark.parametrize("width", [200, 100])
def test_the_terminal_shows_figures_differences_and_warnings(comparison: list[Path], width: int) -> None:
    text = shown(comparison, width)
    values = stored(comparison[0], "accuracy")
    assert f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f}" in text
    text = " ".join(text.split())
    assert "FedEP minus FedAvg" in text
    assert "indicative: 3 seeds" in text
    assert "FedEP was in its fallback in 20 %" in text
    assert "84 MB" in text


def test_a_label_is_never_markup(make: Writer) -> None:
    assert "[red]x[bold]" in shown([make("[red]x[bold]")], 200)


def test_the_best_of_a_column_is_marked_unless_all_are_equal(comparison: list[Path]) -> None:
    lines = table(comparison)
    heads = {heading.field: heading for heading in HEADINGS}
    assert best_of(lines, heads["accuracy"]) == {"FedEP"}
    assert best_of(lines, heads["loss"]) == {"FedEP"}
    assert best_of(lines, heads["bytes_down"]) == frozenset()


def test_one_seed_shows_no_deviation(make: Writer) -> None:
    (line,) = table([make(seeds=1)])
    assert "±" not in cell(line.accuracy, "percent")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (4.2e6, "4.2 MB"), (1.5e9, "1.5 GB"), (2e15, "2e+03 TB")],
)
def test_bytes_have_units(value: float, text: str) -> None:
    assert human_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.50 s"), (7.25, "7.2 s"), (90, "1.5 min"), (7200, "2 h")]
)
def test_seconds_have_units(value: float, text: str) -> None:
    assert human_seconds(value) == text
