"""The picture of a mesh: drawn from the records, in any shape, and the same each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from potluck.config import experiment
from potluck.report import page, page_results
from potluck.report.plot_graph import Peers, graph, layout, peers, picture, scale
from potluck.report.read import open_runs
from potluck.report.statistics import totals
from potluck.run import run

BASE: dict[str, Any] = {
    "name": "mesh",
    "partition": {"name": "dirichlet", "beta": 0.5, "clients": 6},
    "model": {"name": "softmax"},
    "algorithm": {"name": "fedavg", "rounds": 2, "fit": {"lr": 0.1}},
}


def made(folder: Path, **changes: Any) -> Path:
    run(experiment({**BASE, **changes}), folder)
    return folder


def test_a_mesh_is_drawn_with_its_accuracies(tmp_path: Path) -> None:
    ring = made(tmp_path / "ring", topology={"name": "ring"}, seeds=[3, 4])
    (opened,) = open_runs([ring])
    own = peers(opened)
    assert own is not None
    assert sorted(own.graph.edges) == [(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)]
    rows = [json.loads(line) for line in (ring / "records.jsonl").read_text().splitlines()]
    last = {
        int(row["who"].removeprefix("site/")): row["value"]
        for row in rows
        if row["seed"] == 3 and row["what"] == "global/accuracy" and row["who"].startswith("site/")
    }
    assert own.values == last
    assert graph([opened]) is not None


def test_without_scores_it_shows_the_weights(tmp_path: Path) -> None:
    ring = made(tmp_path / "r", topology={"name": "hub_mesh"}, evaluate={"tests": []})
    (opened,) = open_runs([ring])
    own = peers(opened)
    assert own is not None
    assert own.shown == "mean weight"
    assert all(0 < value < 1 for value in own.values.values())
    assert len(own.values) == 6


def test_equal_values_get_a_scale_with_them_in_its_middle() -> None:
    alike = Peers(nx.complete_graph(3), {0: 0.9, 1: 0.9, 2: 0.9}, "accuracy")
    colours = scale([alike], "accuracy")
    assert (colours.vmin, colours.vmax) == pytest.approx((89.5, 90.5))
    far = Peers(nx.complete_graph(3), {0: 0.2, 1: 0.3}, "accuracy")
    both = scale([alike, far, Peers(nx.complete_graph(2), {0: 0.5}, "mean weight")], "accuracy")
    assert (both.vmin, both.vmax) == pytest.approx((20, 90))


def test_the_page_tells_what_crossed_in_every_stage(tmp_path: Path) -> None:
    few = {"name": "fedep", "rounds": 1, "fit": {"lr": 0.1}}
    sent = {}
    for name, topology in {"star": {"name": "star"}, "ring": {"name": "ring"}}.items():
        (opened,) = open_runs([made(tmp_path / name, topology=topology, algorithm=few)])
        shown = page_results.costs([opened])
        assert "mixture: up/said" in shown
        assert "train: up/params" in shown
        sent[name] = {stage: totals(opened, "bytes/up", stage)[0] for stage in ("mixture", "train")}
        assert sum(sent[name].values()) == totals(opened, "bytes/up")[0]
    assert sent["ring"] == {stage: 2 * size for stage, size in sent["star"].items()}


@pytest.mark.parametrize("name", ["star", "rotating", "edgeless"])
def test_without_links_there_is_no_picture(tmp_path: Path, name: str) -> None:
    (opened,) = open_runs([made(tmp_path / "r", topology={"name": name})])
    assert peers(opened) is None
    assert graph([opened]) is None
    assert picture([opened]) == ""


def test_a_graph_in_parts_and_a_large_one_are_drawn(tmp_path: Path) -> None:
    pairs = [[0, 1], [2, 3], [4, 5]]
    parts = made(tmp_path / "r", topology={"name": "edges", "pairs": pairs, "connected": False})
    (opened,) = open_runs([parts])
    own = peers(opened)
    assert own is not None
    assert len(layout(own.graph)) == 6
    assert graph([opened, opened, opened, opened]) is not None


def test_the_page_holds_the_picture_and_is_the_same_each_time(tmp_path: Path) -> None:
    ring = made(tmp_path / "ring", topology={"name": "ring"})
    star = made(tmp_path / "star", topology={"name": "star"})
    pages = [page.write(tmp_path / f"p{i}", [ring, star]).read_bytes() for i in range(2)]
    assert pages[0] == pages[1]
    assert b'src="data:image/svg+xml;base64,' in pages[0]
    assert (tmp_path / "p0" / "figures" / "graph.svg").exists()
    alone = page.write(tmp_path / "p3", [star]).read_bytes()
    assert b"data:image/svg+xml" not in alone
