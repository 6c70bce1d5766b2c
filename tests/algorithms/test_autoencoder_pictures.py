"""What a federated autoencoder shows at the end: pictures of the test, codes of the clients, monitor of collapse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from potluck.config import experiment
from potluck.key import Key
from potluck.models.vae import conv_vae, vae
from potluck.parts.vae_pictures import chosen, levels, pictures
from potluck.parts.wasserstein import w1_to_normal
from potluck.report import plot
from potluck.report.page import write
from potluck.report.plot_pictures import images, montage
from potluck.report.read import read_run
from potluck.run import Interrupted, Options, run
from potluck.table import Table

SETTINGS: dict[str, Any] = {
    "name": "shown",
    "partition": {"name": "dirichlet", "beta": 0.5, "clients": 4},
    "split": {"val": 0.0, "test": 0.0},
    "algorithm": {
        "name": "fedvae",
        "rounds": 3,
        "fit": {"optimizer": "adam", "lr": 3e-3, "batch": 64},
        "vae": {"name": "vae", "hidden": [24], "beta": 0.1},
    },
}


def rows(out: Path) -> list[dict[str, Any]]:
    """Return the records without times."""
    read = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    return [row for row in read if row["what"] != "seconds"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run of the federated VAE."""
    out = tmp_path_factory.mktemp("shown") / "fedvae"
    run(experiment(SETTINGS), out)
    return out


def test_a_run_writes_down_what_its_report_draws(shown: Path) -> None:
    last = {(row["who"], row["what"]): row["value"] for row in rows(shown) if row["round"] == 3}
    shape = last["server", "picture/shape"]
    assert shape == [10, 1, 8, 8]
    for strip in ("original", "reconstruction", "sample"):
        level = np.array(last["server", f"picture/{strip}"])
        assert len(level) == np.prod(shape)
        assert level.min() >= 0
        assert level.max() <= 255
        assert level.std() > 10
    for who in ("server", *(f"client/{k}" for k in range(4))):
        assert len(last[who, "kl"]) == 2
        assert last[who, "collapsed"] == sum(kl < 0.01 for kl in last[who, "kl"])
    for k in range(4):
        assert len(last[f"client/{k}", "latent/across"]) <= 200
        assert last[f"client/{k}", "discrepancy"] == pytest.approx(np.mean(last[f"client/{k}", "w1"]))


def test_showing_is_no_traffic_and_changes_no_score(shown: Path, tmp_path: Path) -> None:
    crossed = [row for row in rows(shown) if row["what"] == "bytes/up"]
    assert len(crossed) == 3
    stopped = Options(stop_after=2)
    with pytest.raises(Interrupted):
        run(experiment(SETTINGS), tmp_path / "again", stopped)
    run(experiment(SETTINGS), tmp_path / "again", Options(resume=True))
    assert rows(tmp_path / "again") == rows(shown)


def test_the_figures_and_the_page_show_it(shown: Path, tmp_path: Path) -> None:
    found = images(read_run(shown), 0)
    assert {name: strip.shape for name, strip in found.items()} == dict.fromkeys(
        ("original", "reconstruction", "sample"), (10, 8, 8, 1)
    )
    assert plot([shown], "pictures").axes[0].get_title(loc="left") == "Reconstructions and samples"
    assert len(plot([shown], "latent").axes[0].collections) == 4
    page = write(tmp_path, [shown]).read_text()
    assert '<section id="autoencoder"' in page
    assert page.count('<img src="data:image/png;base64,') == 2
    assert "Collapsed" in page
    assert (tmp_path / "figures/pictures.png").is_file()
    assert (tmp_path / "figures/latent.png").is_file()


def test_no_row_of_a_test_is_written_down_if_none_is_named(tmp_path: Path) -> None:
    run(experiment({**SETTINGS, "evaluate": {"tests": []}}), tmp_path / "none")
    found = {(row["who"].partition("/")[0], row["what"]) for row in rows(tmp_path / "none")}
    assert ("client", "latent/across") in found
    assert not [what for _, what in found if what.startswith("picture/")]


def test_other_models_show_nothing(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "algorithm": {"name": "fedavg", "rounds": 1},
        "model": {"name": "mlp", "hidden": [4]},
    }
    run(experiment(settings), tmp_path / "fedavg")
    assert not [row for row in rows(tmp_path / "fedavg") if row["what"].startswith(("picture/", "latent/"))]
    assert '<section id="autoencoder"' not in write(tmp_path, [tmp_path / "fedavg"]).read_text()


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_the_rows_and_what_the_decoder_makes_of_them(channels: int) -> None:
    made = conv_vae if channels == 3 else vae
    network = made((channels, 6, 5)).eval()
    table = Table(torch.rand(40, channels, 6, 5) * 3 - 1, torch.arange(40) % 7)
    found = pictures(network, table, Key.root(1))
    low, high = found["picture/range"]
    assert low <= float(table.x.min()) + 0.1
    with torch.no_grad():
        again = network(table.x[torch.from_numpy(chosen(table.y))])
    seen = np.array(found["picture/reconstruction"]) / 255 * (high - low) + low
    assert seen == pytest.approx(again.numpy().ravel(), abs=(high - low) / 500)
    assert found == pictures(network, table, Key.root(1))
    assert found["picture/sample"] != pictures(network, table, Key.root(2))["picture/sample"]


def test_rows_are_chosen_from_all_classes() -> None:
    assert chosen(torch.tensor([4, 4, 2, 2, 9])).tolist() == [0, 2, 4, 1, 3]
    assert chosen(torch.arange(30)).tolist() == list(range(10))
    assert chosen(torch.zeros(3)).tolist() == [0, 1, 2]


def test_what_is_no_image_has_no_picture() -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    assert pictures(vae((5,), hidden=(4,)), Table(torch.rand(3, 5), torch.zeros(3)), Key.root(0)) == {}
    assert pictures(vae((1, 2, 2), hidden=(4,)), Table(torch.rand(0, 1, 2, 2), nothing), Key.root(0)) == {}
    assert levels(torch.tensor([float("nan"), 5.0, -5.0]), 0.0, 1.0) == [0, 255, 0]


def test_a_montage_lays_strips_below_each_other() -> None:
    strip = np.zeros((3, 4, 5, 1))
    assert montage([strip, strip + 0.5]).shape == (4 + 2 + 4, 3 * 5 + 2 * 2)
    assert montage([strip])[0, 5] == 1
    assert montage([np.zeros((2, 4, 4, 3))]).shape == (4, 10, 3)


def test_distances_of_the_codes_are_exact() -> None:
    """The distance in a client's log is that of all its codes, of which at most two hundred are shown."""
    settings = {**SETTINGS, "partition": {"name": "iid", "clients": 10}}
    world = experiment(settings).world(0)
    stage, client = world.stage(0), world.client(0, "show", 1, 0, {}, scoring=True)
    view = stage.deploy(stage.init(world.site(0, "server"), None).state, 0)
    with client.key.ambient():
        found = stage.show(view, client)
    codes = torch.stack([torch.as_tensor(found["latent/across"]), torch.as_tensor(found["latent/up"])], dim=1)
    assert len(codes) == len(client.train) <= 200
    assert np.asarray(found["w1"]) == pytest.approx(w1_to_normal(codes.numpy()), abs=1e-3)
