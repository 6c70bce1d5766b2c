"""The tables and pictures of `docs/feddisk-results.md`, and the figures in `docs/algorithms/feddisk.md`.

    python docs/make_feddisk.py

Everything is read from docs/records/feddisk-sc12-reduced, -sc13-reduced and -sc14-reduced; where one is missing, the
page says how to make it. The speed is that of docs/records/feddisk-bench/made.json (`python bench/density.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from blocks import HERE, RECORDS, fill, picture
from feddisk_paper import SCENARIOS, Scenario, sizes
from feddisk_reading import reading
from feddisk_tables import accuracies, common_target, efforts, leaks, row_weights, stages

from potluck.report import Run, open_runs
from potluck.report.page_cost import courses_of

PAGE = HERE / "feddisk-results.md"
METHOD = HERE / "algorithms" / "feddisk.md"
FIGURES = {
    "clients": "Accuracy of the clients",
    "local_accuracy": "Accuracy on the clients' own test rows over the rounds",
}


def main() -> None:
    """Fill both pages."""
    fill(PAGE, "sizes", sizes())
    fill(PAGE, "speed", speed())
    for name, scenario in SCENARIOS.items():
        runs = stored(name)
        fill(PAGE, name, written(name, runs, scenario) if runs else absent(name))
    runs = stored("sc12")
    fill(METHOD, "weights", row_weights(runs) if runs else absent("sc12"))


def speed() -> str:
    """Say how fast a MADE trains beside a raw loop."""
    found = json.loads((RECORDS / "feddisk-bench" / "made.json").read_text(encoding="utf-8"))
    return (
        f"A MADE of 784 inputs and 400 hidden units trains on {found['made_rows_per_second']:,} rows a second of one "
        f"core, {found['made_ratio_to_raw']:.2f} times as fast as a raw loop of plain PyTorch with the same masks and "
        f"batches (`python bench/density.py --times {found['times']}`, medians, taken in turn)."
    )


def stored(name: str) -> Sequence[Run]:
    """Return the stored runs of a scenario, in the order of the comparison; none where it was not stored."""
    folder = RECORDS / f"feddisk-{name}-reduced"
    return open_runs([folder]) if folder.is_dir() and any(folder.iterdir()) else ()


def absent(name: str) -> str:
    """Say how the record is made."""
    run = f"feddisk-{name}-reduced"
    return (
        f"No record is stored yet. It is made with `potluck compare experiments/{run}.toml`, then "
        f"`python docs/store.py runs/{run} {run}`, then `make docs`."
    )


def written(name: str, runs: Sequence[Run], scenario: Scenario) -> str:
    """Return everything about one scenario."""
    if not courses_of(runs):
        return absent(name)
    rule, common = efforts(runs, scenario)
    target = 100 * common_target(courses_of(runs))
    parts = [
        about(runs),
        "Accuracy over clients on their own test rows at the last round, in %:",
        accuracies(runs, scenario),
        *(f"![{words}]({drawn(name, what)})" for what, words in FIGURES.items()),
        "Effective rounds and their cost by the paper's rule. FedDisk's clock stops at the best rival's best, a "
        "rival's at its own best; *cost* counts numbers of one client (equations 18 and 19), *crossed* the bytes of "
        "all clients, both ways, with everything before the training:",
        rule,
        f"The same to one target for all, {target:.1f} % (95 % of the best):",
        common,
        "Time and traffic by stage (a stage that runs share is counted in each; other work ran on the same machine):",
        stages(runs),
        "What the row weights amount to (100 % is plain averaging):",
        row_weights(runs),
        "Bound on what the pooled density tells of one draw of a client (`kappa H`, for discrete rows only). "
        + leaks(runs),
        "What the paper claims, and what is found here:",
        reading(runs, scenario),
    ]
    return "\n\n".join(parts)


def drawn(name: str, what: str) -> str:
    """Draw one picture of a stored comparison."""
    folder = RECORDS / f"feddisk-{name}-reduced"
    return picture([folder], what, f"feddisk-{name}-{what}.png")


def about(runs: Sequence[Run]) -> str:
    """Say how the comparison was made, how large it is, and what its data note about themselves."""
    first = runs[0]
    rows = clients(first)
    rounds = max(int(run.records.rounds_of("train").max()) for run in runs)
    seeds = ", ".join(str(seed) for seed in first.seeds)
    notes = "".join(f" {note}." for note in first.notes())
    return (
        f"`{first.text('command')}`: {len(rows)} clients of {rows.mean():.1f} rows on average (standard deviation "
        f"{rows.std():.1f}, all parts together), {rounds} rounds of training, seed {seeds}.{notes}"
    )


def clients(run: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return how many rows each client holds, in all its parts."""
    dealt = run.mapping("partition").get(str(run.seeds[0]))
    held = dealt.get("sizes") if isinstance(dealt, dict) else None
    return np.asarray(held if isinstance(held, list) else [np.nan], dtype=np.float64)


if __name__ == "__main__":
    main()
