"""What all tests share: one thread, patient Hypothesis, the folder of real data, and what was not run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

LATER = ("slow", "realdata")
left_out: dict[str, int] = dict.fromkeys(LATER, 0)


@pytest.fixture(scope="session")
def realdata() -> Path:
    """Return the folder with the real data."""
    named = os.environ.get("POTLUCK_DATA", "")
    folder = Path(named.split(os.pathsep)[0]) if named else None
    if folder is None or not folder.is_dir():
        pytest.skip("POTLUCK_DATA does not name the folder of the real data")
    return folder


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the tests that the command line left out, by the first marker that explains it."""
    for item in items:
        kind = next((name for name in LATER if item.get_closest_marker(name)), None)
        if kind is not None:
            left_out[kind] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were not selected, so that nobody takes them for passed."""
    if any(left_out.values()):
        counts = " and ".join(f"{count} {kind}" for kind, count in left_out.items())
        terminalreporter.write_line(f"{counts} tests not selected; `make test-full` runs them")
