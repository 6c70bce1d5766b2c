"""The tables and the picture of `docs/algorithms/fedep.md`.

    python docs/make_fedep.py measure     # docs/records/fedep-digits/ratios.json, about a minute
    python docs/make_fedep.py             # the tables and the picture, from the records

The comparison is drawn from the stored runs of `experiments/fedep-digits.toml`:

    potluck compare experiments/fedep-digits.toml --out runs/fedep-digits
    python docs/store.py --lean runs/fedep-digits fedep-digits
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import numpy as np
from blocks import HERE, RECORDS, fill, markdown, picture, runs

from potluck import report
from potluck.federation import Labels
from potluck.key import Key
from potluck.partition.grouped import Group, Grouped
from potluck.parts.counted import counted
from potluck.parts.mixture import MixtureFit
from potluck.parts.pooling import Pooling
from potluck.parts.support import every_class
from potluck.report.read import open_runs
from potluck.report.statistics import Summary, finals, paired

RECORD = RECORDS / "fedep-digits" / "ratios.json"
PAGE = HERE / "algorithms" / "fedep.md"
SEEDS = range(5)
EVEN = (2, 5, 8)
BETAS = (5.0, 1.0, 0.5)
SCALES = ("text", "listing")


def measure() -> None:
    """Write down, for every mixed scenario and seed, an even client's mean weight over a skewed one's."""
    found = [
        {"even": even, "beta": beta, "seed": seed, **ratios(even, beta, seed)}
        for even in EVEN
        for beta in BETAS
        for seed in SEEDS
    ]
    RECORD.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n", encoding="utf-8")


def ratios(even: int, beta: float, seed: int) -> dict[str, float]:
    """Deal 50 000 balanced labels to ten clients and weigh them by the text and by the listing."""
    labels = Labels(np.repeat(np.arange(10), 5000), 10)
    deal = Grouped(groups=(Group(clients=even, beta=50), Group(clients=10 - even, beta=beta)))
    told = [counted(labels.y[rows]) for rows in deal(labels, Key.root(seed))]
    fits, sizes = [MixtureFit()(each).mixture for each in told], [each.rows for each in told]
    raws = {
        scale: Pooling(kl_scale="listing" if scale == "listing" else "text")(fits, sizes, every_class(10)).raw
        for scale in SCALES
    }
    return {scale: float(raw[:even].mean() / raw[even:].mean()) for scale, raw in raws.items()}


def ratio_table() -> str:
    """Return the medians over seeds of the ratios."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = [
        [
            f"{even}:{10 - even}",
            f"{beta:g}",
            *(
                f"{np.median([one[scale] for one in found if (one['even'], one['beta']) == (even, beta)]):.2f}"
                for scale in SCALES
            ),
        ]
        for even in EVEN
        for beta in BETAS
    ]
    return markdown(["even : skewed clients", "beta of the skewed", *SCALES], rows)


def percent(figure: Summary) -> str:
    """Return mean and standard deviation over seeds, in %."""
    return f"{100 * (figure.mean or 0):.1f} ± {100 * (figure.std or 0):.1f}"


def comparison(names: Sequence[str]) -> str:
    """Return accuracy, worst client and the difference to the first method with its 95 % interval."""
    paths = runs("fedep-digits")
    opened = {run.label: run for run in open_runs(paths)}
    lines = {line.method: line for line in report.table(paths)}
    base = finals(opened[names[0]], "accuracy")
    rows = []
    for name in names:
        gap = paired(finals(opened[name], "accuracy"), base)
        told = "" if name == names[0] else f"{100 * (gap.mean or 0):+.1f} ({interval(gap.low, gap.high)})"
        rows.append([name, percent(lines[name].accuracy), percent(lines[name].local_accuracy_worst), told])
    return markdown(["method", "accuracy (%)", "worst client (%)", f"minus {names[0]} (95 % interval)"], rows)


def interval(low: float | None, high: float | None) -> str:
    """Return an interval in percentage points."""
    return f"{100 * (low or 0):+.1f} to {100 * (high or 0):+.1f}"


def main() -> None:
    """Fill in the tables and draw the picture."""
    paths = runs("fedep-digits")
    fill(PAGE, "ratios", ratio_table())
    fill(PAGE, "fedep-digits", comparison([run.label for run in open_runs(paths)]))
    picture(paths, "weights", "fedep-weights.png")


if __name__ == "__main__":
    measure() if sys.argv[1:2] == ["measure"] else main()
