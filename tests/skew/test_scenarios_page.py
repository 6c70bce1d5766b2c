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


def test_every_scenario_has_its_picture(generator: ModuleType) -> None:
    named = re.findall(r"\]\((pictures/scenarios/[a-z0-9-]+\.svg)\)", generator.PAGE.read_text())
    assert len(named) == 16
    for name in named:
        picture = DOCS / name
        assert picture.stat().st_size < 120_000
        assert "prefers-color-scheme" in picture.read_text()
