"""`make bench`: the engine against the raw loop, interleaved, medians of several."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from engine import idle_milliseconds, lenet_samples_per_second
from raw import samples_per_second


def main() -> None:
    """Measure and print; with --record also store the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="how often each measurement is taken")
    parser.add_argument("--record", type=Path, help="a JSON file to store the figures in")
    arguments = parser.parse_args()
    inline = statistics.median(idle_milliseconds(0) for _ in range(arguments.times))
    pool = statistics.median(idle_milliseconds(2) for _ in range(arguments.times))
    ratios, heaped, rates = [], [], []
    for _ in range(arguments.times):
        raw, engine, kept = samples_per_second(), lenet_samples_per_second(), samples_per_second(heap=True)
        rates.append(engine)
        ratios.append(engine / raw)
        heaped.append(engine / kept)
    figures = {
        "idle_ms_per_client_inline": round(inline, 3),
        "idle_ms_per_client_2_workers": round(pool, 3),
        "lenet_samples_per_second": round(statistics.median(rates)),
        "lenet_ratio_to_raw": round(statistics.median(ratios), 3),
        "lenet_ratio_to_raw_keeping_its_heap": round(statistics.median(heaped), 3),
    }
    for name, value in figures.items():
        print(f"{name:40} {value}")
    if arguments.record:
        arguments.record.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
