"""The figure of clusters: drawn from records alone, with groups and without, and left out where nobody was sorted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from potluck.errors import BadInputError
from potluck.report import open_runs, plot, write
from potluck.report.plot_clusters import clusters, sorted_clients


def run_with(folder: Path, labels: Sequence[int], groups: Sequence[str] = (), histogram: bool = True) -> Path:
    """Write a run in which clients were sorted."""
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"label": folder.name, "seeds": [3]}))
    rows: list[tuple[str, str, str, object]] = []
    for client, label in enumerate(labels):
        who = f"client/{client}"
        if histogram:
            rows.append(("partition", who, "histogram", [10 * (label == 0), 5, 3]))
        if groups:
            rows.append(("partition", who, "group/source", groups[client]))
        rows.append(("warmup", who, "cluster", label))
        if label >= 0:
            rows.append(("warmup", who, "coordinates", [0.1 * client, label - 0.5]))
    lines = [
        json.dumps({"run": "r", "seed": 3, "stage": s, "round": 1, "who": who, "what": what, "value": value})
        for s, who, what, value in rows
    ]
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_clusters_groups_and_classes_are_read(tmp_path: Path) -> None:
    (run,) = open_runs([run_with(tmp_path / "a", [0, 1, 0, -1], ["x", "y", "x", ""])])
    found = sorted_clients(run, 3)
    assert found is not None
    assert found.clients == (0, 1, 2)
    assert found.labels.tolist() == [0, 1, 0]
    assert found.groups == ("x", "y", "x")
    assert found.plane == pytest.approx(np.array([[0, -0.5], [0.1, 0.5], [0.2, -0.5]]))
    drawn = clusters([run])
    assert drawn is not None
    plane, classes = drawn.axes
    shown = plane.get_legend()
    assert shown is not None
    assert [text.get_text() for text in shown.get_texts()] == ["cluster 0, x (2)", "cluster 1, y (1)"]
    heights = [bar.get_height() for bar in classes.patches if isinstance(bar, Rectangle)]
    assert heights == [20, 10, 6, 0, 5, 3]


def test_many_runs_and_missing_histograms_can_be_drawn(tmp_path: Path) -> None:
    runs = [run_with(tmp_path / f"$run_{k}", [0, 0, 1, k], histogram=bool(k % 2)) for k in range(6)]
    drawn = plot(runs, "clusters")
    assert len(drawn.axes) == 8


def test_nobody_sorted_gives_no_figure_and_no_section(tmp_path: Path) -> None:
    bare = run_with(tmp_path / "bare", [])
    with pytest.raises(BadInputError, match="no run recorded"):
        plot([bare], "clusters")
    assert 'id="clusters"' not in write(tmp_path / "one", [bare]).read_text()
    some = run_with(tmp_path / "some", [0, 1, 1])
    page = write(tmp_path / "two", [some]).read_text()
    assert 'id="clusters"' in page
    assert "data:image/png;base64," in page
