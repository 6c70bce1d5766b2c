"""Which of the FedDisk paper's claims a stored comparison bears out: one sentence a claim, from the figures alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from feddisk_paper import DISK, OURS, Scenario
from feddisk_tables import constant, density_rounds, paper_target, weighing

from potluck.report import Run
from potluck.report.page_cost import Course, best_of, courses_of, effort


def reading(runs: Sequence[Run], scenario: Scenario) -> str:
    """Return the claims with what was found."""
    courses = {course.method: course for course in courses_of(runs)}
    rivals = [course for name, course in courses.items() if name not in OURS]
    if DISK not in courses or not rivals:
        return "Too few methods are stored to judge a claim."
    disk = courses[DISK]
    before = next(density_rounds(run) for run in runs if run.label == DISK)
    lines = [_accuracy(disk, rivals, scenario), _rounds(disk, list(courses.values()), before, scenario)]
    lines += [_bound(disk, courses["FedDiskAb"])] if "FedDiskAb" in courses else []
    lines += _weights(runs)
    return "\n".join(f"- {line}" for line in lines)


def _accuracy(disk: Course, rivals: Sequence[Course], scenario: Scenario) -> str:
    best = max(rivals, key=lambda course: course.accuracy[-1])
    gap = 100 * float(disk.accuracy[-1] - best.accuracy[-1])
    stated = scenario.accuracy - scenario.rival
    return (
        f"*FedDisk is the most accurate* (paper: {stated:+.1f} points over the best rival): "
        f"{'borne out' if gap > 0 else 'not borne out'} at this scale; {gap:+.2f} points after "
        f"{int(disk.rounds[-1])} rounds, against {best.method}."
    )


def _rounds(disk: Course, courses: Sequence[Course], before: int, scenario: Scenario) -> str:
    rounds, costs = {}, {}
    for course in courses:
        found = effort(course, paper_target(course, courses))
        if found.rounds is not None and (course.method not in OURS or course is disk):
            rounds[course.method] = found.rounds + (before if course is disk else 0)
            costs[course.method] = found.numbers or 0
    fewest, least = min(rounds, key=rounds.__getitem__), min(costs, key=costs.__getitem__)
    rival = min(cost for name, cost in costs.items() if name != DISK)
    stated = min(scenario.cost(name) for name in scenario.rounds if name != DISK) / scenario.cost(DISK)
    return (
        f"*FedDisk needs the fewest rounds and the least traffic* (paper: the cheapest rival costs {stated:.1f} times "
        f"as much): by the paper's rule {fewest} needs the fewest rounds ({rounds[fewest]}; FedDisk {rounds[DISK]}, "
        f"its MADE's included) and {least} costs least; the cheapest rival costs {rival / costs[DISK]:.2f} times "
        f"as much as FedDisk, which {_reaches(disk, courses)} the best rival's best."
    )


def _reaches(disk: Course, courses: Sequence[Course]) -> str:
    rivals = [best_of(course) for course in courses if course.method not in OURS]
    return "reaches" if best_of(disk) >= max(rivals) else "does not reach"


def _bound(disk: Course, raw: Course) -> str:
    gap = 100 * float(disk.accuracy[-1] - raw.accuracy[-1])
    return f"*FedDisk comes close to FedDiskAb, which sees the raw rows*: {gap:+.2f} points."


def _weights(runs: Sequence[Run]) -> list[str]:
    lines = []
    for run in runs:
        shares = np.array(list(weighing(run).share.values()))
        if len(shares):
            same = len(constant(run))
            lines.append(
                f"*{run.label}*: at {same} of {len(shares)} clients all weights are equal, which is FedAvg; the median "
                f"client's weights amount to {100 * np.median(shares):.1f} % of its rows (100 % is FedAvg)."
            )
    return lines
