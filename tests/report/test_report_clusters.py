"""The figures of clusters and of experts: drawn from records alone, and left out where nobody was sorted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from potluck.errors import BadInputError
from potluck.report import open_runs, plot, write
from potluck.report.plot_clusters import clusters, sorted_clients

SCORES = {
    "expert/0/accuracy": 0.25,
    "expert/1/accuracy": 0.5,
    "gate/online/accuracy": 0.4,
    "gate/oracle/accuracy": 0.75,
    "gate/0/weight/1": 0.5,
    "gate/0/weight/30": 0.7,
    "gate/1/weight/1": 0.5,
    "gate/1/weight/30": 0.3,
}


def run_with(
    folder: Path,
    labels: Sequence[int],
    groups: Sequence[str] = (),
    histogram: bool = True,
    scored: bool = False,
) -> Path:
    """Write a run in which clients were sorted, and their experts scored."""
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
    if scored:
        rows += [("train", "server", f"global/{name}", value) for name, value in SCORES.items()]
        rows += [("train", "server", f"cifar/{name}", 0.0) for name in SCORES]
    lines = [
        json.dumps({"run": "r", "seed": 3, "stage": s, "round": 1, "who": who, "what": what, "value": value})
        for s, who, what, value in rows
    ]
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def named(area: Axes) -> list[str]:
    """Return what the legend of some axes says."""
    shown = area.get_legend()
    assert shown is not None
    return [text.get_text() for text in shown.get_texts()]


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
    plane, truth, classes = drawn.axes
    assert named(plane) == ["cluster 0 (2)", "cluster 1 (1)"]
    assert truth.get_title(loc="left") == "The same by group"
    assert named(truth) == ["x (2)", "y (1)"]
    heights = [bar.get_height() for bar in classes.patches if isinstance(bar, Rectangle)]
    assert heights == [20, 10, 6, 0, 5, 3]


def test_many_runs_and_missing_histograms_can_be_drawn(tmp_path: Path) -> None:
    runs = [run_with(tmp_path / f"$run_{k}", [0, 0, 1, k], histogram=bool(k % 2)) for k in range(6)]
    drawn = plot(runs, "clusters")
    assert len(drawn.axes) == 3 * 4
    assert drawn.axes[5].get_title(loc="left") == "The same by main class"
    assert named(drawn.axes[5]) == ["0 (2)", "1 (2)"]
    assert named(drawn.axes[4]) == ["several (4)"]


def test_weights_and_accuracies_of_experts_are_drawn(tmp_path: Path) -> None:
    drawn = plot([run_with(tmp_path / f"run_{k}", [0, 1], scored=k > 0) for k in range(6)], "experts")
    assert len(drawn.axes) == 2 * 4
    weights, accuracies = drawn.axes[0], drawn.axes[4]
    assert named(weights) == ["expert 0", "expert 1"]
    points = np.asarray(weights.lines[0].get_xydata())
    assert points.tolist() == [[1, 0.5], [30, 0.7]]
    heights = [bar.get_height() for bar in accuracies.patches if isinstance(bar, Rectangle)]
    assert heights == [25, 50, 40, 75]
    names = [text.get_text() for text in accuracies.get_xticklabels()]
    assert names == ["expert 0", "expert 1", "online", "oracle"]


def test_nobody_sorted_gives_no_figure_and_no_section(tmp_path: Path) -> None:
    bare = run_with(tmp_path / "bare", [])
    with pytest.raises(BadInputError, match="no run recorded"):
        plot([bare], "clusters")
    with pytest.raises(BadInputError, match="no run recorded"):
        plot([bare], "experts")
    assert 'id="clusters"' not in write(tmp_path / "one", [bare]).read_text()
    some = run_with(tmp_path / "some", [0, 1, 1], scored=True)
    page = write(tmp_path / "two", [some]).read_text()
    assert 'id="clusters"' in page
    assert 'id="experts"' in page
    assert page.count("data:image/png;base64,") == 2
