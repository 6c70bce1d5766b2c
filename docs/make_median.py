"""The picture and the table of `docs/algorithms/fedmedian.md`, from the stored runs of `experiments/hostile.toml`.

To measure again:

    potluck compare experiments/hostile.toml --out runs/hostile
    python docs/store.py runs/hostile median
"""

from __future__ import annotations

from blocks import HERE, fill, markdown, picture, runs

from potluck import report
from potluck.report.statistics import Summary


def percent(figure: Summary) -> str:
    """Return mean and standard deviation over seeds, in %."""
    mean, std = figure.mean or 0.0, figure.std or 0.0
    return f"{100 * mean:.1f} ± {100 * std:.1f}"


def main() -> None:
    """Draw the picture and fill in the table."""
    paths = runs("median")
    picture(paths, "accuracy", "median.png")
    rows = [[line.method, percent(line.accuracy)] for line in report.table(paths)]
    table = markdown(["run", "accuracy after 20 rounds (%), three seeds"], rows)
    fill(HERE / "algorithms" / "fedmedian.md", "hostile", table)


if __name__ == "__main__":
    main()
