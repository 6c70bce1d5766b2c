"""The Python interface: your own data, model and algorithm in place of names."""

from __future__ import annotations

import gc
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from torch import nn

import potluck as pl
from potluck import report

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(90, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0.5)
OWNERS = np.repeat(["anna", "bert", "cleo"], [20, 30, 40])
FAST: dict[str, Any] = {"algorithm": pl.fedavg(rounds=2, fit=pl.Fit(lr=0.1, steps=2))}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.body(x).relu())
        return out


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures and the page, which take longer than the run."""
    monkeypatch.setattr(report, "write", lambda out, runs, title=None: out / "report.html")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_your_own_data_model_and_algorithm(tmp_path: Path) -> None:
    data = pl.from_arrays(X, Y, clients=OWNERS)
    result = pl.run(data=data, model=Net, **FAST, out=tmp_path / "run")
    figures = result["fedavg"]["seeds"]["0"]
    assert 0 <= figures["local_accuracy"] <= 1
    assert result.page.exists()
    assert result.table()
    assert {row["who"] for row in result.records if row["what"] == "histogram"} == {
        "client/0",
        "client/1",
        "client/2",
    }
    figure = result.plot("clients")
    assert figure.axes
    pyplot.close("all")


@pytest.mark.usefixtures("no_page")
def test_names_tables_and_objects_go_together(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"partition": {"name": "iid", "clients": 3}, "model": "softmax"}
    named = pl.run(algorithm={"name": "fedavg", "rounds": 2, "fit": {"lr": 0.1, "steps": 2}}, **settings)
    given = pl.run(**FAST, **settings, out=tmp_path / "given", workers=1)
    prints = [each["fedavg"]["seeds"]["0"]["fingerprint"] for each in (named, given)]
    assert prints[0] == prints[1]


@pytest.mark.usefixtures("no_page")
def test_a_module_starts_from_its_own_weights() -> None:
    net = Net()
    with torch.no_grad():
        net.head.bias.fill_(0.25)
    data = pl.from_arrays(X, Y, test=(X, Y))
    still = pl.fedavg(rounds=1, fit=pl.Fit(epochs=0))
    result = pl.run(
        data=data, model=net, algorithm=still, seeds=[0, 1], partition={"name": "iid", "clients": 2}
    )
    expected = nn.functional.cross_entropy(net(torch.from_numpy(X)), torch.from_numpy(Y)).item()
    losses = [seed["loss"] for seed in result["fedavg"]["seeds"].values()]
    assert losses == pytest.approx([expected, expected], rel=1e-5)


@pytest.mark.usefixtures("no_page")
def test_comparing_keeps_rows_and_labels(tmp_path: Path) -> None:
    result = pl.compare(
        algorithms={
            "mine": pl.fedavg(rounds=1),
            "by name": "alone",
            "table": {"name": "fedavg", "rounds": 2},
        },
        partition={"name": "iid", "clients": 3},
        model={"name": "softmax"},
        out=tmp_path,
    )
    assert list(result.figures) == ["mine", "by name", "table"]
    manifests = [json.loads((run / "manifest.json").read_text()) for run in result.runs]
    assert len({manifest["partition_digest"]["0"] for manifest in manifests}) == 1


@pytest.mark.usefixtures("no_page")
def test_a_file_may_be_changed_by_settings(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(
        'name = "small"\nmodel = { name = "softmax" }\npartition = { name = "iid", clients = 2 }\n'
    )
    result = pl.run(file, **FAST, seeds=[2], out=tmp_path / "run")
    assert list(result["fedavg"]["seeds"]) == ["2"]
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["name"] == "small"


@pytest.mark.usefixtures("no_page")
def test_a_temporary_folder_lives_as_long_as_its_result(temporary: Path) -> None:
    result = pl.run(**FAST, model="softmax", partition={"name": "iid", "clients": 2})
    out = result.out
    assert out.parent == temporary
    assert (out / "records.jsonl").exists()
    del result
    gc.collect()
    assert not out.exists()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"algorithm": "fedavgg"}, "unknown algorithm 'fedavgg'; did you mean fedavg"),
        ({"nonsense": 3}, "unknown key 'nonsense'"),
        ({"model": "lenet"}, "too small for 'lenet'"),
        ({"partition": {"name": "iid", "clients": 100_000}}, "100000|100,000"),
    ],
)
def test_a_failure_leaves_no_temporary_folder(
    temporary: Path, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(pl.BadInputError, match=complaint):
        pl.run(**settings)
    with pytest.raises(pl.BadInputError):
        pl.compare(algorithms=["fedavg"] if "algorithm" not in settings else ["fedavgg"], **settings)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("x", "y", "complaint"),
    [
        (np.where(X > 2, np.nan, X), Y, "NaN or infinity"),
        (X, Y - 1, "the label of row"),
        (X[:5], Y, "rows|labels"),
    ],
)
def test_bad_arrays_are_refused(x: Any, y: Any, complaint: str) -> None:
    with pytest.raises(pl.BadInputError, match=complaint):
        pl.from_arrays(x, y, classes=3)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": nn.Linear(5, 3)}, r"^model: Linear cannot take rows of shape \(4,\): mat1"),
    ({"model": nn.Linear(4, 2)}, r"^model: Linear returns \(2,\) for a row; the data have 3 classes"),
    ({"model": 3}, r"^model: must be a table"),
    ({"algorithm": pl.fedavg(rounds=-1)}, r"^algorithm\.rounds: must be >= 1, got -1$"),
    ({"algorithm": pl.fedavg(fit=pl.Fit(lr=-1))}, r"^algorithm\.fit\.lr: must be > 0, got -1$"),
    ({"algorithm": pl.fedprox(mu=-1)}, r"^algorithm\.objective\.mu: must be >= 0, got -1$"),
    ({"data": X}, r"^data: must be a table .{1,90} \.\.\.$"),
]


@pytest.mark.parametrize(("change", "complaint"), WRONG, ids=lambda part: "")
def test_wrong_objects_are_refused_in_one_sentence(
    change: dict[str, Any], complaint: str, temporary: Path
) -> None:
    settings = {"data": pl.from_arrays(X, Y, clients=OWNERS), "model": Net, **FAST, **change}
    with pytest.raises(pl.BadInputError, match=complaint):
        pl.run(**settings)
    assert not list(temporary.iterdir())


def test_algorithms_of_a_list_are_called_by_their_names(tmp_path: Path, no_page: None) -> None:
    data = pl.from_arrays(X, Y, clients=OWNERS)
    quick = pl.Fit(lr=0.1, steps=1)
    methods = [pl.fedprox(rounds=1, fit=quick), pl.scaffold(rounds=1, fit=quick)]
    assert list(pl.compare(data=data, model=Net, algorithms=methods, out=tmp_path / "two").figures) == [
        "fedprox",
        "scaffold",
    ]
    with pytest.raises(pl.BadInputError, match=r"^algorithms: two are called 'fedprox'; give labels"):
        pl.compare(data=data, model=Net, algorithms=[methods[0], methods[0]])
    assert all(getattr(pl, name.replace("-", "_")) is make for name, make in pl.ALGORITHMS.items())
