"""The page of scenarios is what its generator makes of the stored record, and every scenario on it is valid."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from potluck.config import experiment

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_scenarios", DOCS / "make_scenarios.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_record(generator: ModuleType) -> None:
    stored = json.loads(generator.RECORD.read_text())["scenarios"]
    assert generator.page(stored) == generator.PAGE.read_text()
    assert set(stored) == {f"SC-{number}" for number in range(1, 17)}


def test_every_scenario_on_the_page_is_an_experiment(generator: ModuleType) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", generator.PAGE.read_text(), flags=re.S)
    assert len(blocks) == 16
    for block in blocks:
        assert experiment(tomllib.loads(block)).name.startswith("sc-")


def test_every_scenario_has_its_pictures_and_the_command_that_writes_them(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    named = re.findall(r"\]\((pictures/scenarios/[a-z0-9-]+\.svg)\)", text)
    assert len(set(named)) == len(named) == 17
    assert {DOCS / name for name in named} == set(generator.PICTURES.glob("*.svg"))
    for name in named:
        picture = (DOCS / name).read_text()
        assert len(picture) < 120_000
        assert "prefers-color-scheme" in picture
    commands = re.findall(r"\$ potluck skew (sc-\d+)\.toml --out \1    # (.*)", text)
    shown = [written.replace("/skew-", "-") for _, files in commands for written in files.split()]
    assert shown == [Path(name).name for name in named]


def test_the_page_can_be_made_with_the_others(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = generator.PAGE.read_text()
    monkeypatch.setattr(generator, "PICTURES", tmp_path)
    monkeypatch.setattr(generator, "PAGE", tmp_path / "scenarios.md")
    monkeypatch.setattr("sys.argv", ["docs/make.py"])
    generator.main()
    assert (tmp_path / "scenarios.md").read_text() == kept
    for picture in tmp_path.glob("*.svg"):
        assert picture.read_text() == (DOCS / "pictures" / "scenarios" / picture.name).read_text()
