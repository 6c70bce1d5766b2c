"""Statistics over few seeds: mean and standard deviation (ddof 1), paired differences, reason codes.

Methods of one comparison share partitions, initial weights and participants seed by seed, so that differences
are paired by seed and get a Student t interval. With fewer than six seeds a verdict is at most "indicative".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard

import numpy as np
from scipy import stats

from potluck.errors import BadInputError
from potluck.report.read import Run
from potluck.report.records import JSON, Floats, Ints, Mask
from potluck.report.series import Curve, curve

ENOUGH_SEEDS = 6
FALLBACK_LIMIT = 0.10
ABSENCES = ("lost", "late", "crash", "error", "straggler", "empty")
DESIGNED = ("zero_weight", "negative_weight")
FINALS = {
    "accuracy": "global/accuracy",
    "accuracy_macro": "global/accuracy_macro",
    "precision_macro": "global/precision_macro",
    "recall_macro": "global/recall_macro",
    "f1_macro": "global/f1_macro",
    "loss": "global/loss",
    "local_accuracy": "local/weighted/accuracy",
    "local_accuracy_mean": "local/mean/accuracy",
    "local_accuracy_worst": "local/min/accuracy",
}
ALSO_CALLED = {"local_accuracy_worst": "local_accuracy_min"}
TOTALS = {"bytes_up": "bytes/up", "bytes_down": "bytes/down", "seconds": "seconds"}


class Summary(NamedTuple):
    """Mean and standard deviation over seeds; no std with one seed, no mean with none."""

    mean: float | None
    std: float | None
    seeds: int


class Difference(NamedTuple):
    """What one method has over another, paired by seed, with its t interval."""

    mean: float | None
    low: float | None
    high: float | None
    seeds: int
    verdict: str


class Reasons(NamedTuple):
    """How many client-rounds a run had, and how many carried each reason code."""

    client_rounds: int
    counts: Mapping[str, int]
    fallbacks: int

    def share(self, code: str) -> float:
        """Return the share of client-rounds with one code."""
        return self.counts.get(code, 0) / self.client_rounds if self.client_rounds else 0.0

    def fallback(self) -> float:
        """Return the share of client-rounds in which a method was in its fallback; absences do not count."""
        return min(1.0, self.fallbacks / self.client_rounds) if self.client_rounds else 0.0


def summarise(values: Sequence[float | None]) -> Summary:
    """Return mean and standard deviation (ddof 1) of the values that are there and finite."""
    there = np.array(
        [value for value in values if value is not None and math.isfinite(value)], dtype=np.float64
    )
    if not len(there):
        return Summary(None, None, 0)
    return Summary(float(there.mean()), float(there.std(ddof=1)) if len(there) > 1 else None, len(there))


def finals(run: Run, metric: str) -> dict[int, float]:
    """Return a final figure for each seed: from the result, else from the records."""
    stored = _stored(run, metric)
    if stored is None and metric in ALSO_CALLED:
        stored = _stored(run, ALSO_CALLED[metric])
    if stored is not None:
        return stored
    if metric in TOTALS:
        return totals(run, TOTALS[metric])
    found = curve(run, FINALS.get(metric, metric))
    if found is None:
        return {}
    return {seed: float(found.seed(seed)[1][-1]) for seed in found.seeds}


def _stored(run: Run, metric: str) -> dict[int, float] | None:
    seeds = run.result.get("seeds")
    if not isinstance(seeds, dict):
        return None
    entries = {int(seed): entry for seed, entry in seeds.items() if isinstance(entry, dict)}
    if not any(metric in entry for entry in entries.values()):
        return None
    figures = {seed: entry.get(metric) for seed, entry in sorted(entries.items())}
    return {seed: float(value) for seed, value in figures.items() if _number(value)}


def _number(value: JSON) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def totals(run: Run, what: str, stage: str | None = None) -> dict[int, float]:
    """Return the sum over rounds and sites of a quantity (in one stage, if it is named), for each seed."""
    records = run.records
    mask = records.what.equals(what) & records.merging() & np.isfinite(records.number)
    mask &= True if stage is None else records.stage.equals(stage)
    return {
        seed: float(records.number[mask & (records.seed == seed)].sum())
        for seed in run.seeds
        if (mask & (records.seed == seed)).any()
    }


def paired(one: Mapping[int, float], other: Mapping[int, float], confidence: float = 0.95) -> Difference:
    """Return `one - other` over their common seeds, with a two-sided Student t interval."""
    if not 0 < confidence < 1:
        raise BadInputError(f"confidence is {confidence}; give a number between 0 and 1, such as 0.95")
    common = sorted(set(one) & set(other))
    gaps = np.array([one[seed] - other[seed] for seed in common], dtype=np.float64)
    if not len(gaps):
        return Difference(None, None, None, 0, "no common seed")
    mean = float(gaps.mean())
    if len(gaps) == 1:
        return Difference(mean, None, None, 1, "one seed: no verdict")
    reach = float(stats.t.ppf((1 + confidence) / 2, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps)))
    return Difference(mean, mean - reach, mean + reach, len(gaps), _verdict(mean, reach, len(gaps)))


def _verdict(mean: float, reach: float, count: int) -> str:
    if abs(mean) <= reach or mean == 0:
        return "no clear difference"
    direction = "higher" if mean > 0 else "lower"
    return direction if count >= ENOUGH_SEEDS else f"{direction} (indicative: {count} seeds)"


def rounds_to(rounds: Ints, values: Floats, target: float) -> int | None:
    """Return the first evaluated round whose value is at least the target, else None."""
    reached = np.flatnonzero(np.isfinite(values) & (values >= target) & (rounds > 0))
    return int(rounds[reached[0]]) if len(reached) else None


def rounds_to_of(found: Curve | None, target: float | None) -> Summary:
    """Return `rounds_to` over the seeds of a curve; nothing unless every seed got there."""
    if found is None or target is None:
        return Summary(None, None, 0)
    firsts = [rounds_to(*found.seed(seed), target) for seed in found.seeds]
    if any(first is None for first in firsts):
        return Summary(None, None, 0)
    return summarise(firsts)


def reasons(run: Run) -> Reasons:
    """Count the client-rounds of a run, and those with each reason code (in a mesh: at any site)."""
    records = run.records
    coded = records.who.starts("client/") & records.what.ends("reason") & (records.round > 0)
    keys = np.stack([records.seed, records.stage.codes, records.round], axis=1)
    _, moment = np.unique(keys, axis=0, return_inverse=True)
    visit = moment.reshape(-1) * max(len(records.who.names), 1) + records.who.codes
    found: dict[str, set[int]] = {}
    for place in np.flatnonzero(coded).tolist():
        if place in records.texts:
            found.setdefault(records.texts[place], set()).add(int(visit[place]))
    fallback = (visits for code, visits in found.items() if code not in (*ABSENCES, *DESIGNED))
    hit: set[int] = set().union(*fallback)
    counts = {code: len(found[code]) for code in sorted(found)}
    return Reasons(_client_rounds(run, moment.reshape(-1), visit, coded), counts, len(hit))


def _client_rounds(run: Run, moment: Ints, visit: Ints, coded: Mask) -> int:
    """Count who was asked: those that left rows, or the merging site's count if that is more.

    A round that left nothing but reason codes counts all clients of the partition.
    """
    records = run.records
    clients = records.who.starts("client/") & (records.round > 0) & ~records.what.starts("test/", "val/")
    asked = (records.what.equals("participants") | records.what.equals("asked")) & records.who.equals(
        "server"
    )
    asked &= np.isfinite(records.number)
    _, first = np.unique(np.where(clients, visit, -1), return_index=True)
    seen = np.bincount(moment[first[clients[first]]], minlength=len(records) + 1).astype(np.float64)
    known, evident = np.zeros_like(seen), np.zeros(len(seen), dtype=bool)
    np.maximum.at(known, moment[asked], records.number[asked])
    evident[moment[asked | (clients & ~coded)]] = True
    everyone = len(np.unique(records.who.codes[records.what.equals("histogram")]))
    blind = np.where((seen > 0) & ~evident, everyone, 0)
    return int(np.maximum(np.maximum(seen, known), blind).sum())


def fallback_sentence(run: Run) -> str | None:
    """Return the warning for a method that was in its fallback in more than 10 % of its client-rounds."""
    share = reasons(run).fallback()
    if share <= FALLBACK_LIMIT:
        return None
    return (
        f"{run.label} was in its fallback in {100 * share:.0f} % of its client-rounds: "
        f"its figures are not evidence for the method."
    )
