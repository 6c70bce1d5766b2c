"""Every file in experiments/ is valid, and runs for one round where its data are embedded."""

from __future__ import annotations

from pathlib import Path

import pytest

from potluck.config import load
from potluck.run import Options, run

FILES = sorted((Path(__file__).parents[1] / "experiments").rglob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_experiment_is_valid(file: Path) -> None:
    for variant in load(file).variants().values():
        assert variant.toml()


@pytest.mark.parametrize(
    "file", [file for file in FILES if '"digits"' in file.read_text()], ids=lambda f: f.stem
)
def test_experiment_runs(file: Path, tmp_path: Path) -> None:
    overrides = ["algorithm.rounds=1", "seeds=[0]"]
    for label, variant in load(file, overrides).variants().items():
        result = run(variant, tmp_path / label, Options())
        assert result["seeds"]["0"]["fingerprint"]
