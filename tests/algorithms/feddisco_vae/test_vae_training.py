"""FedDisco with a beta-VAE and the federated VAE, training: loss, cost, laws, report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.algorithms.feddisco_vae.small import (
    FIT,
    NIID2,
    SMALL,
    system,
    trained,
    world,
)

from potluck.algorithms.fedvae import fedvae, wire
from potluck.config import experiment
from potluck.core import Algorithm
from potluck.laws import check
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.model import Model
from potluck.parts.autoencoder import Autoencoder, ConvAutoencoder
from potluck.report import plot
from potluck.report.page import write
from potluck.run import run
from potluck.world import World

NOISE = ("numbers_are_only_names",)  # a client's noise is named after its number


@pytest.mark.parametrize("network", [SMALL, ConvAutoencoder(channels=(4,), hidden=8, eval_beta=3.0)])
def test_an_autoencoder_is_scored_by_its_loss(network: Autoencoder | ConvAutoencoder) -> None:
    one = play(world(fedvae(1, FIT, network)))
    tally = next(iter(one.scores.sites.values()))
    assert tally is not None
    assert tally.confusion is None
    found = tally.figures()
    assert found.keys() == {"loss", "reconstruction", "kl"}
    assert found["loss"] == pytest.approx(found["reconstruction"] + network.eval_beta * found["kl"])
    assert play(world(fedvae(1, FIT, network))).fingerprint == one.fingerprint


def test_training_lowers_the_loss() -> None:
    network, fit = replace(SMALL, eval_beta=0.1), replace(FIT, lr=1e-2)
    early, late = (play(world(fedvae(rounds, fit, network))).scores.sites.values() for rounds in (1, 15))
    losses = [tally.figures()["loss"] for tally in (*early, *late) if tally is not None]
    assert losses[1] < 0.8 * losses[0]


def test_the_classifier_is_the_experiments_model() -> None:
    algorithm = system(task="classifier", rounds=8, fit=Fit(lr=0.1, batch=8, epochs=2), vae_rounds=1, a=0.02)
    played = play(world(algorithm))
    assert "head.decoder.0.weight" not in trained(played, "train").params
    scores = next(iter(played.scores.sites.values()))
    assert scores is not None
    assert scores.figures()["accuracy"] > 0.5


def test_every_stage_is_counted() -> None:
    built = world(system(rounds=2, vae_rounds=3))
    played = play(built)
    moved = [fact for fact in played.facts if fact.what in ("bytes/up", "bytes/down")]
    down, up = wire_of(built)
    cost = {"vae": 3 * 7 * (down + up), "train": 2 * 7 * (down + up)}
    encoder = sum(leaf.numel() * 4 for name, leaf in built.model_of(0).slots.items() if "decoder" not in name)
    cost["latent"] = 7 * (encoder + 8)
    found: dict[str, float] = dict.fromkeys(cost, 0.0)
    for fact in moved:
        found[fact.stage] += float(str(fact.value))
    assert found == cost
    big = Model(lambda: torch.nn.Linear(1, 1), shape=(1, 28, 28), classes=10)
    assert wire(big) == (4 * 1_068_820, 4 * 1_068_820 + 8)


def wire_of(built: World) -> tuple[int, int]:
    size = 4 * built.model_of(0).count()
    return size, size + 8


@pytest.mark.parametrize(
    "algorithm",
    [
        fedvae(2, FIT, SMALL),
        system(rounds=2),
        system(
            rounds=4,
            fit=Fit(lr=0.1, batch=8, epochs=3),
            vae_rounds=1,
            task="classifier",
            scope="all",
            encoder_by="public",
            a=0.02,
        ),
    ],
    ids=["fedvae", "task vae", "task classifier"],
)
def test_laws(algorithm: Algorithm) -> None:
    assert "same_bits_on_every_engine" in check(algorithm, without=NOISE)


def test_a_run_is_reported_by_its_loss(tmp_path: Path) -> None:
    fit = {"optimizer": "adam", "lr": 3e-3}
    small = {"name": "vae", "hidden": [12]}
    for label, spec in (
        ("fedvae", {"name": "fedvae"}),
        ("disco", {"name": "feddisco-vae", "a": 0.1}),
    ):
        table = {**NIID2, "algorithm": {**spec, "rounds": 2, "fit": fit, "vae": small}}
        result = run(experiment(table), tmp_path / label, label=label)
        figures = result["seeds"]["0"]
        assert figures["accuracy"] is None
        assert figures["loss"] == pytest.approx(figures["reconstruction"] + figures["kl"])
        assert result["summary"]["accuracy"] == {"mean": None, "std": None}
    page = write(tmp_path / "page", [tmp_path / "fedvae", tmp_path / "disco"]).read_text()
    assert "lowest final loss on the global test set" in page
    assert "Loss minus that of fedvae, over common seeds" in page
    assert (tmp_path / "page/figures/latent.svg").is_file()
    panel = plot([tmp_path / "disco"], "latent").axes[0]
    legend = panel.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert len(names) == 6
    assert names[0].startswith("client 0, d 0.")
    assert len(plot([tmp_path / "fedvae", tmp_path / "disco"], "latent").axes) == 2
