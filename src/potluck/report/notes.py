"""What a reader must know before believing a figure: few seeds, fallbacks, unequal data, open runs."""

from __future__ import annotations

from collections.abc import Sequence

from potluck.report.read import Run
from potluck.report.statistics import ENOUGH_SEEDS, fallback_sentence, finals


def notes(runs: Sequence[Run]) -> list[str]:
    """Return the notes on a comparison, the gravest first."""
    found = [sentence for sentence in map(fallback_sentence, runs) if sentence]
    found += [
        f"{run.label} has not finished: its last figures are those of its last record." for run in _open(runs)
    ]
    found += _differing(runs)
    fewest = min((len(run.seeds) for run in runs), default=0)
    if len(runs) > 1 and fewest < ENOUGH_SEEDS:
        count = f"{fewest} seed" + ("" if fewest == 1 else "s")
        found.append(f"With {count} every difference is at most indicative; six or more allow a verdict.")
    if any(finals(run, "accuracy") for run in runs):
        without = [run.label for run in runs if not finals(run, "accuracy")]
        if without:
            names = "; ".join(without)
            found.append(
                f"No global accuracy for {names}: there is no one model to test; see the clients' figures."
            )
    return [*found, *_said(runs)]


def _said(runs: Sequence[Run]) -> list[str]:
    """Return what the runs say of themselves, and which of them say it where not all do."""
    said: dict[str, list[str]] = {}
    for run in runs:
        for note in dict.fromkeys((*run.remarks(), *run.notes())):
            said.setdefault(note, []).append(run.label)
    return [
        note if len(labels) == len(runs) else f"{'; '.join(labels)}: {note}" for note, labels in said.items()
    ]


def _open(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if not run.finished]


def _differing(runs: Sequence[Run]) -> list[str]:
    """Compare what must be equal between runs for their differences to mean anything."""
    first, found = runs[0], []
    apart = [run.label for run in runs if not run.shares_partition(first)]
    if apart:
        found.append(f"Not on the partition of {first.label}, so not paired with it: {'; '.join(apart)}.")
    seeds = [run.label for run in runs if run.seeds != first.seeds]
    if seeds:
        found.append(
            f"Not with the seeds of {first.label}; only common seeds are paired: {'; '.join(seeds)}."
        )
    for run in runs[1:]:
        versions, others = run.mapping("versions"), first.mapping("versions")
        unequal = sorted(name for name in set(versions) & set(others) if versions[name] != others[name])
        if unequal:
            names = ", ".join(unequal)
            found.append(f"{run.label} and {first.label} ran with different versions of {names}.")
    return found
