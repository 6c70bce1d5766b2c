"""The tables of one FedDisk comparison, from its stored runs: accuracies, rounds and costs, phase 1, row weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from blocks import markdown
from feddisk_paper import DISK, OURS, Scenario

from potluck.report import Run
from potluck.report.page_cost import Course, best_of, courses_of, effort
from potluck.report.page_weights import histograms
from potluck.report.series import client_finals, number
from potluck.report.tables import SHARE_OF_BEST, human_bytes, human_seconds

MISSING = "-"
STAGES = ("rows", "own_density", "density", "ratio", "train")


class Weighing(NamedTuple):
    """What the weights of a run's rows amount to, by client: the share of the rows, the bound on leakage in nats."""

    share: Mapping[int, float]
    bound: Mapping[int, float]


def accuracies(runs: Sequence[Run], scenario: Scenario) -> str:
    """Return the accuracies over clients beside the paper's."""
    rows = []
    for run in runs:
        finals = [values for _, values in client_finals(run).values()]
        clients = 100 * np.concatenate(finals) if finals else np.array([np.nan])
        over = [f"{value:.1f}" for value in (clients.mean(), *np.quantile(clients, [0, 0.25, 0.5, 0.75, 1]))]
        rows.append([run.label, *over, _global(run), _stated(run.label, scenario)])
    heads = [
        "method",
        "mean",
        "least",
        "quartile",
        "median",
        "quartile",
        "most",
        "common test",
        "mean, paper",
    ]
    return markdown(heads, rows)


def _global(run: Run) -> str:
    summary = run.result.get("summary")
    found = summary.get("accuracy") if isinstance(summary, dict) else None
    mean = found.get("mean") if isinstance(found, dict) else None
    return f"{100 * mean:.1f}" if isinstance(mean, float) else MISSING


def _stated(label: str, scenario: Scenario) -> str:
    if label == DISK:
        return f"{scenario.accuracy:.1f}"
    return MISSING if label in OURS else f"at most {scenario.rival:.1f}"


def paper_target(course: Course, courses: Sequence[Course]) -> float:
    """Return where the paper stops a method's clock: FedDisk's at the best rival's best, others' at their own best."""
    rivals = [best_of(other) for other in courses if other.method not in OURS]
    if course.method in OURS and rivals:
        return min(best_of(course), max(rivals))
    return best_of(course)


def common_target(courses: Sequence[Course]) -> float:
    """Return the accuracy that all are asked for: 95 % of the best."""
    return SHARE_OF_BEST * max(best_of(course) for course in courses)


def efforts(runs: Sequence[Run], scenario: Scenario) -> tuple[str, str]:
    """Return the table by the paper's rule, beside Tables I and II, and the table with one target for all."""
    courses = courses_of(runs)
    before = {run.label: density_rounds(run) for run in runs}
    paper = [_effort(course, paper_target(course, courses), before) for course in courses]
    common = [_effort(course, common_target(courses), before) for course in courses]
    rows = [[*cells, *_published(cells[0], scenario)] for cells in paper]
    heads = ["method", "MADE rounds", "rounds", "cost", "crossed", "Table I", "cost by Tables I and II"]
    return markdown(heads, rows), markdown(heads[:5], common)


def density_rounds(run: Run) -> int:
    """Return how many rounds the pooled density took."""
    return int(run.records.rounds_of("density").max()) if "density" in run.records.stage.names else 0


def _effort(course: Course, target: float, before: Mapping[str, int]) -> list[str]:
    found = effort(course, target)
    cost = MISSING if found.numbers is None else f"{found.numbers / 1e6:.2f} M"
    crossed = MISSING if found.bytes is None else human_bytes(found.bytes)
    return [course.method, str(before[course.method]), str(found.rounds or MISSING), cost, crossed]


def _published(label: str, scenario: Scenario) -> list[str]:
    if label not in scenario.rounds:
        return [MISSING, MISSING]
    before = f"{scenario.density_rounds} + " if label == DISK else ""
    return [f"{before}{scenario.rounds[label]}", f"{scenario.cost(label) / 1e6:.2f} M"]


def stages(runs: Sequence[Run]) -> str:
    """Return what every stage of the methods that weigh rows took: rounds, seconds, bytes of all clients, both ways."""
    rows = []
    for run in runs:
        if run.label not in OURS:
            continue
        whole = sum(total(run, stage, "seconds") for stage in STAGES)
        for stage in STAGES:
            seconds = total(run, stage, "seconds")
            if stage not in run.records.stage.names:
                continue
            crossed = total(run, stage, "bytes/up") + total(run, stage, "bytes/down")
            rounds = int(run.records.rounds_of(stage).max())
            share = f"{100 * seconds / max(whole, 1e-9):.0f} %"
            rows.append([run.label, stage, str(rounds), human_seconds(seconds), share, human_bytes(crossed)])
    return markdown(["method", "stage", "rounds", "time", "share of the time", "crossed"], rows)


def total(run: Run, stage: str, what: str) -> float:
    """Return the sum over rounds of one of the server's figures, mean over seeds."""
    records = run.records
    mask = records.stage.equals(stage) & records.what.equals(what) & records.who.equals("server")
    return float(np.nansum(records.number[mask])) / max(len(run.seeds), 1)


def weighing(run: Run) -> Weighing:
    """Return what the row weights of the first seed amount to."""
    return Weighing(_by_client(run, "row_weights/effective"), _by_client(run, "privacy/bound"))


def _by_client(run: Run, what: str) -> dict[int, float]:
    records = run.records
    places = np.flatnonzero(records.what.equals(what) & (records.seed == run.seeds[0])).tolist()
    names = records.who.names
    return {number(names[records.who.codes[place]]): float(records.number[place]) for place in places}


def constant(run: Run) -> list[int]:
    """Return the clients all of whose rows have one weight, to a relative spread of 1e-6."""
    return [client for client, share in weighing(run).share.items() if share > 1 - 1e-12]


def row_weights(runs: Sequence[Run]) -> str:
    """Return how much the weights say, for every method that weighs rows."""
    rows = []
    for run in runs:
        share = np.array(list(weighing(run).share.values()))
        if not len(share):
            continue
        counts = np.sum(list(histograms(run).values()), axis=0)
        far = (counts[0] + counts[-1]) / counts.sum()
        rows.append(
            [
                run.label,
                f"{len(constant(run))} of {len(share)}",
                f"{100 * np.median(share):.1f} %",
                f"{100 * share.min():.1f} %",
                f"{100 * far:.1f} %",
            ]
        )
    heads = [
        "method",
        "clients with equal weights",
        "share of rows, median client",
        "least client",
        "rows at the clip",
    ]
    return markdown(heads, rows)


def leaks(runs: Sequence[Run]) -> str:
    """Return the paper's bound on what the pooled density tells of a client."""
    run = next((run for run in runs if run.label == DISK), None)
    bounds = np.array(list(weighing(run).bound.values())) if run else np.zeros(0)
    finite = bounds[np.isfinite(bounds)]
    if not len(bounds):
        return "No bound was recorded."
    if not len(finite):
        return (
            f"All {len(bounds)} clients have rows that lie on no grid of bytes: the entropy of a row is infinite, "
            "and the bound says nothing."
        )
    return (
        f"It is finite for {len(finite)} of {len(bounds)} clients, and lies between {finite.min():.4f} and "
        f"{finite.max():.4f} nats there."
    )
