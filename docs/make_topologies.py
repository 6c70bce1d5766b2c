"""The table and the pictures of `docs/topologies.md`, from the stored runs of `experiments/topologies.toml`.

To measure again:

    potluck compare experiments/topologies.toml --out runs/topologies
    python docs/store.py --lean runs/topologies topologies
"""

from __future__ import annotations

import numpy as np
from blocks import HERE, fill, markdown, picture, runs

from potluck.report.read import Run, open_runs
from potluck.report.series import site_curves
from potluck.report.statistics import Summary, finals, summarise, totals
from potluck.report.tables import MISSING, written

NAME = "topologies"


def percent(figure: Summary) -> str:
    """Return mean and standard deviation over seeds, in %."""
    return MISSING if figure.mean is None else f"{100 * figure.mean:.1f} ± {100 * (figure.std or 0):.1f}"


def between(run: Run) -> Summary:
    """Return how far the best and the worst site are apart after the last round, over seeds."""
    found = site_curves(run, "global/accuracy")
    gaps = []
    for seed in run.seeds if len(found) > 1 else ():
        last = [own.seed(seed)[1][-1] for own in found.values()]
        gaps.append(float(np.ptp(last)))
    return summarise(gaps)


def row(run: Run) -> list[str]:
    """Return one topology's line."""
    apart, distance = between(run), summarise(list(finals(run, "consensus").values()))
    sent = sum(
        summarise(list(totals(run, what).values())).mean or 0.0
        for what in ("bytes/up", "bytes/down", "bytes/handover")
    )
    return [
        run.label,
        percent(summarise(list(finals(run, "accuracy").values()))),
        MISSING if apart.mean is None else f"{100 * apart.mean:.1f}",
        MISSING if distance.mean is None else f"{distance.mean:.2f}",
        written(sent, "bytes"),
    ]


def main() -> None:
    """Draw the pictures and fill in the table."""
    paths = runs(NAME)
    opened = open_runs(paths)
    heads = ["topology", "accuracy (%)", "best minus worst peer", "distance from consensus", "sent in all"]
    fill(HERE / "topologies.md", NAME, markdown(heads, [row(run) for run in opened]))
    picture(paths, "graph", "topologies-graphs.png")
    picture(paths, "sites", "topologies-sites.png")


if __name__ == "__main__":
    main()
