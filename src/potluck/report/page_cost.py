"""The page's section on effective communication rounds: what a method must send before it is good enough.

FedDisk (Nguyen, Wu and Chang, IEEE TAI 2024, eq. 18 and 19) counts C = 2 S R: S numbers of the model, both ways,
for R effective rounds; a model trained beforehand (a density) adds its own 2 S R. The paper stops the winner's
clock when it reaches the best rival's best accuracy and everybody else's at their own best, and charges every
method the classifier's size, whatever it sends. Beside it stand the bytes that really crossed, and a target
that is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from potluck.report.markup import Cell, Head, section, table, text
from potluck.report.read import Run
from potluck.report.records import Floats, Ints
from potluck.report.series import Curve, curve
from potluck.report.tables import MISSING, SHARE_OF_BEST, written

METRICS = ("local/mean/accuracy", "global/accuracy")
FLOAT_BYTES = 4
TRAIN = "train"


class Course(NamedTuple):
    """A method's mean accuracy over rounds (of its training stage), and what it takes to get there."""

    method: str
    rounds: Ints
    accuracy: Floats
    ahead: int
    before: int | None
    size: int | None
    crossed: Curve | None


class Effort(NamedTuple):
    """What it took to reach a target: rounds, numbers by the paper's convention, bytes that really crossed."""

    rounds: int | None
    numbers: int | None
    bytes: float | None


def effective_costs(runs: Sequence[Run]) -> str:
    """Return the table of effective rounds and costs, or nothing when no accuracy was recorded."""
    courses = courses_of(runs)
    if not courses:
        return ""
    target = SHARE_OF_BEST * max(best_of(course) for course in courses)
    heads = [
        Head("Method", kind="words", first="up"),
        Head("Best", "best mean accuracy over rounds, in %"),
        Head("Rounds before", "rounds of the stages before training", first="up"),
        Head("Rounds, paper", "to the best rival's best if above it, else to the own best", first="up"),
        Head("Cost, paper", "numbers of one client, both ways (eq. 18, 19)", first="up"),
        Head("Crossed, paper", "bytes of all clients, both ways, up to there", first="up"),
        Head("Rounds, common", "to the common target", first="up"),
        Head("Cost, common", "numbers of one client, both ways (eq. 18, 19)", first="up"),
        Head("Crossed, common", "bytes of all clients, both ways, up to there", first="up"),
    ]
    rows = [_row(course, _paper_target(course, courses), target) for course in courses]
    lead = (
        "By FedDisk's convention every round costs the classifier's size, and the winner's clock stops at its best "
        f"rival's best. The common target is {100 * target:.2f} %, 95 % of the best."
    )
    return section(
        "effective-costs",
        "Effective rounds and their cost",
        lead,
        table(heads, rows, "Effective rounds and their cost", True),
    )


def courses_of(runs: Sequence[Run]) -> list[Course]:
    """Return the courses of the methods that recorded the accuracy that is compared."""
    metric = next((one for one in METRICS if any(curve(run, one) for run in runs)), None)
    found = [_course(run, metric) for run in runs] if metric else []
    return [course for course in found if course is not None]


def effort(course: Course, target: float) -> Effort:
    """Return what it took a method to reach a target; nothing where it never does."""
    reached = np.flatnonzero(course.accuracy >= target)
    if not len(reached):
        return Effort(None, None, None)
    rounds = int(course.rounds[reached[0]])
    known = course.size is not None and course.before is not None
    numbers = 2 * (course.size or 0) * rounds + (course.before or 0) if known else None
    crossed = None
    if course.crossed is not None:
        crossed = float(course.crossed.mean()[course.crossed.rounds <= rounds + course.ahead].sum())
    return Effort(rounds, numbers, crossed)


def best_of(course: Course) -> float:
    """Return the best mean accuracy of a method."""
    return float(course.accuracy.max())


def _paper_target(course: Course, courses: Sequence[Course]) -> float:
    """Return the best rival's best for the winner, and every other method's own best."""
    rivals = [best_of(other) for other in courses if other is not course]
    return min(best_of(course), max(rivals, default=np.inf))


def _course(run: Run, metric: str) -> Course | None:
    found = curve(run, metric)
    if found is None:
        return None
    ahead = run.offsets.get(TRAIN, 0)
    kept = (found.present() == len(found.seeds)) & (found.rounds > ahead)
    if not kept.any():
        return None
    size = run.manifest.get("parameters")
    return Course(
        run.label,
        found.rounds[kept] - ahead,
        found.mean()[kept],
        ahead,
        _before(run),
        size if isinstance(size, int) else None,
        _crossed(run),
    )


def _before(run: Run) -> int | None:
    """Return 2 S R of the models trained before the training stage, mean over seeds; None where S is unknown."""
    records = run.records
    total = 0.0
    for stage in (name for name in records.stage.names if name not in (TRAIN, "partition")):
        mine = records.stage.equals(stage) & records.who.equals("server") & np.isfinite(records.number)
        sent = mine & records.what.equals("bytes/up/params")
        if not sent.any():
            continue
        present = mine & records.what.equals("participants")
        if not present.any() or not records.number[present].sum():
            return None
        size = records.number[sent].sum() / records.number[present].sum() / FLOAT_BYTES
        total += 2 * size * sent.sum() / len(run.seeds)
    return round(total)


def _crossed(run: Run) -> Curve | None:
    """Return the bytes of each round, up and down together."""
    up, down = curve(run, "bytes/up"), curve(run, "bytes/down")
    if up is None or down is None or up.values.shape != down.values.shape:
        return None
    return up._replace(values=np.nan_to_num(up.values) + np.nan_to_num(down.values))


def _row(course: Course, paper: float, common: float) -> list[Cell]:
    cells = [Cell(text(course.method)), _cell(best_of(course), "percent"), _cell(course.ahead, "count")]
    for found in (effort(course, paper), effort(course, common)):
        cells += [
            _cell(found.rounds, "count"),
            _cell(found.numbers, "numbers"),
            _cell(found.bytes, "bytes"),
        ]
    return cells


def _cell(value: float | None, kind: str) -> Cell:
    if value is None:
        return Cell(MISSING, "")
    shown = f"{value:,.0f}".replace(",", "\u202f") if kind in ("numbers", "count") else written(value, kind)
    return Cell(text(shown), repr(value))
