"""What every benchmark's command line has in common: how often to measure, what to print, where to store it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

Figures = Mapping[str, float]


def measured(what: str | None, times: int, measure: Callable[[int], Figures]) -> None:
    """Measure as often as asked and print the figures; with --record also store them."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--times", type=int, default=times, help="how often each measurement is taken")
    parser.add_argument("--record", type=Path, help="a JSON file to store the figures in")
    arguments = parser.parse_args()
    figures = measure(arguments.times)
    for name, value in figures.items():
        print(f"{name:40} {value}")
    if arguments.record:
        arguments.record.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
