"""`make bench`: the engine against the raw loop, interleaved, medians of several."""

from __future__ import annotations

import statistics

from command import Figures, measured
from engine import idle_milliseconds, lenet_samples_per_second
from raw import samples_per_second


def figures(times: int) -> Figures:
    """Return the figures, medians of several measurements."""
    inline = statistics.median(idle_milliseconds(0) for _ in range(times))
    pool = statistics.median(idle_milliseconds(2) for _ in range(times))
    ratios, heaped, rates = [], [], []
    for _ in range(times):
        raw, engine, kept = samples_per_second(), lenet_samples_per_second(), samples_per_second(heap=True)
        rates.append(engine)
        ratios.append(engine / raw)
        heaped.append(engine / kept)
    return {
        "idle_ms_per_client_inline": round(inline, 3),
        "idle_ms_per_client_2_workers": round(pool, 3),
        "lenet_samples_per_second": round(statistics.median(rates)),
        "lenet_ratio_to_raw": round(statistics.median(ratios), 3),
        "lenet_ratio_to_raw_keeping_its_heap": round(statistics.median(heaped), 3),
    }


if __name__ == "__main__":
    measured(__doc__, 3, figures)
