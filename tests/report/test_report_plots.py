"""Figures: what is drawn is what was recorded, all can be written, equal records give equal bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from potluck.errors import BadInputError
from potluck.report import PLOTS, plot, save
from potluck.report.read import read_run
from potluck.report.series import curve, partition

Writer = Callable[..., Path]


def texts(drawn: Figure) -> set[str]:
    drawn.canvas.draw()
    found = [area.get_title(loc="left") for area in drawn.axes]
    return {*found, *(text.get_text() for legend in drawn.legends for text in legend.get_texts())}


def test_the_thick_line_is_the_mean_over_seeds(comparison: list[Path]) -> None:
    found = curve(read_run(comparison[0]), "global/accuracy")
    assert found is not None
    (area,) = plot(comparison[:1], "accuracy").axes
    thick = max(area.lines, key=lambda line: line.get_linewidth())
    assert np.asarray(thick.get_ydata()) == pytest.approx(100 * found.values.mean(axis=0))
    assert len(area.lines) == 1 + 3


def test_a_method_without_the_figure_is_named(comparison: list[Path]) -> None:
    assert "not defined for:\nFedBN" in texts(plot(comparison, "accuracy"))


def test_many_methods_get_a_panel_each_with_the_others_behind(make: Writer) -> None:
    runs = [make(f"Method {number}", seeds=2, rounds=5) for number in range(8)]
    areas = plot(runs, "accuracy").axes
    assert [area.get_title(loc="left") for area in areas] == [f"Method {number}" for number in range(8)]
    assert len({area.get_ylim() for area in areas}) == 1
    for area, run in zip(areas, runs, strict=True):
        own = curve(read_run(run), "global/accuracy")
        assert own is not None
        thick = max(area.lines, key=lambda line: line.get_linewidth())
        assert np.asarray(thick.get_ydata()) == pytest.approx(100 * own.values.mean(axis=0))
        assert len(area.lines) == 1 + 2 + 7


@pytest.mark.parametrize("clients", [5, 30, 100])
def test_the_partition_shows_every_client(make: Writer, clients: int) -> None:
    path = make(clients=clients, seeds=1, rounds=1)
    own = partition(read_run(path), 0)
    assert own is not None
    upper, lower = plot([path], "partition").axes
    heights = [bar.get_height() for bar in upper.patches if isinstance(bar, Rectangle)]
    assert heights == pytest.approx(own.counts.sum(axis=1).tolist())
    if clients <= 40:
        (bubbles,) = lower.collections
        assert len(np.asarray(bubbles.get_offsets())) == np.count_nonzero(own.counts)
    else:
        (picture,) = lower.images
        assert np.array_equal(np.asarray(picture.get_array()), own.counts.T)


def test_a_mesh_has_its_own_figures(make: Writer) -> None:
    path = make("FedAvg ring", mesh=True, clients=6)
    (area,) = plot([path], "sites").axes
    assert len(area.lines) == 6
    assert texts(plot([path], "consensus")) >= {"Distance from consensus"}


def test_anything_recorded_over_rounds_can_be_drawn(comparison: list[Path]) -> None:
    assert texts(plot(comparison, "participants")) >= {"participants"}


def test_what_is_unknown_or_absent_is_refused(comparison: list[Path]) -> None:
    with pytest.raises(BadInputError, match="unknown figure 'acuracy'; did you mean accuracy"):
        plot(comparison, "acuracy")
    with pytest.raises(BadInputError, match="no run recorded"):
        plot(comparison, "sites")
    with pytest.raises(BadInputError, match="no run recorded"):
        plot(comparison, "reason")


def test_equal_records_give_equal_files(comparison: list[Path], tmp_path: Path) -> None:
    one, two = save(comparison, tmp_path / "one"), save(comparison, tmp_path / "two")
    assert {path.suffix for path in one} == {".png", ".svg"}
    absent = {"sites", "consensus", "graph", "clusters", "latent", "pictures", "experts"}
    assert {path.stem for path in one} == set(PLOTS) - absent
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_awkward_runs_can_be_drawn(make: Writer, tmp_path: Path) -> None:
    runs = [
        make("$one_", seeds=1, rounds=1, clients=1, classes=1),
        make("_two^$", seeds=1, rounds=1, clients=1),
    ]
    assert save(runs, tmp_path / "figures")


def test_more_methods_than_colours_and_many_clients(make: Writer, tmp_path: Path) -> None:
    runs = [make(f"Method {number}", seeds=2, rounds=2, clients=45, classes=3) for number in range(10)]
    assert {path.stem for path in save(runs, tmp_path / "figures")} >= {"weights", "clients", "costs"}
