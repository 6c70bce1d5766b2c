"""The page of FedDisco with a beta-VAE: its figures are those of the stored runs, and a missing record says so."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from potluck.config import experiment
from potluck.run import compare_all

DOCS = Path(__file__).parents[1] / "docs"
VAE = {"name": "vae", "hidden": [16], "beta": 10.0}
SETTINGS: dict[str, Any] = {
    "name": "tiny",
    "seeds": [0, 1],
    "partition": {"name": "niid2"},
    "split": {"val": 0.0, "test": 0.0},
    "evaluate": {"who": "none"},
    "compare": [
        {"label": "fedvae", "name": "fedvae", "vae": VAE},
        {"label": "a 0", "name": "feddisco-vae", "a": 0.0},
        {"label": "a 0.9", "name": "feddisco-vae", "a": 0.9},
    ],
    "algorithm": {
        "name": "feddisco-vae",
        "rounds": 2,
        "fit": {"optimizer": "adam", "lr": 3e-3, "batch": 64},
        "vae": VAE,
    },
}


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Return the maker of the page, with its records and pictures elsewhere."""
    monkeypatch.syspath_prepend(str(DOCS))
    for name in ("blocks", "make_vae", "vae_tables", "vae_published"):
        sys.modules.pop(name, None)
    import blocks
    import make_vae

    monkeypatch.setattr(make_vae, "RECORDS", tmp_path / "records")
    for module in (blocks, make_vae):
        monkeypatch.setattr(module, "PICTURES", tmp_path / "pictures")
    return make_vae


def test_the_page_tells_what_the_runs_say(maker: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "records" / "feddisco-vae-sc9-fmnist-reduced"
    results = compare_all(experiment(SETTINGS).variants(), out)
    one = maker.POSTER[2]
    text = maker.poster(one)
    for label, result in results.items():
        loss = result["summary"]["loss"]
        assert f"{loss['mean']:.2f} ± {loss['std']:.2f}" in line(text, label)
    assert "691.03" in line(text, "fedvae")
    base, strong = (results[label]["summary"]["loss"]["mean"] for label in ("fedvae", "a 0.9"))
    assert f"{100 * (strong / base - 1):+.2f} %" in line(text, "a 0.9")
    assert line(text, "a 0.9").split(" | ")[-2] == "5"
    assert "The unbiased client is nearest to the prior in" in text
    for picture in ("loss", "latent", "pictures"):
        assert (tmp_path / "pictures" / f"{out.name}-{picture}.png").is_file()


def line(text: str, label: str) -> str:
    """Return the row of a method in the first table."""
    return next(row for row in text.splitlines() if row.startswith(f"| {label} |"))


def test_the_pick_is_the_cheapest_of_those_that_are_not_clearly_worse(
    maker: ModuleType, tmp_path: Path
) -> None:
    out = tmp_path / "records" / "feddisco-vae-classifier-niid2"
    small = {**SETTINGS["algorithm"], "task": "classifier", "vae_rounds": 1}
    compare = ["fedavg", {"label": "strong", "name": "feddisco-vae", "a": 0.9}]
    settings = {**SETTINGS, "model": {"name": "mlp", "hidden": [16]}, "algorithm": small, "compare": compare}
    results = compare_all(experiment(settings).variants(), out)
    text = maker.classifier(maker.CLASSIFIER[1])
    for label, result in results.items():
        assert f"{100 * result['summary']['accuracy']['mean']:.2f}" in line(text, label)
    best = max(results, key=lambda label: float(results[label]["summary"]["accuracy"]["mean"]))
    assert f"Highest mean accuracy: **{best}**" in text
    assert "**fedavg** moves the fewest bytes" in text or "Of these **strong**" in text


def test_a_missing_record_says_how_it_is_made(maker: ModuleType) -> None:
    for comparisons, told in ((maker.POSTER, maker.poster), (maker.CLASSIFIER, maker.classifier)):
        text = maker.section(comparisons, told)
        assert text.startswith("### Not run")
        for one in comparisons:
            file = f"experiments/feddisco-vae-{one.name}.toml"
            assert f"- {one.title}: `potluck compare {file}`" in text
            assert (DOCS.parent / file).is_file()
