"""What the runs of `experiments/fedep-sc7.toml` say about the claims of the FedEP thesis (Guan, 2024).

Final accuracy is that of the last round (of a ring the mean over its nodes). As one client may spoil a last round for
all methods, late accuracy, the mean of the last five rounds, is compared too. Unrest is by how much accuracy falls from
one round to the next in the second half of training, on average (a rise is no fall): small means stable. The target is
95 % of the best accuracy of FedAvg with the same optimiser and topology (its mean curve); a method is faster if it
reaches it in fewer rounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from potluck.report.read import Run, open_runs
from potluck.report.records import Floats
from potluck.report.series import curve, site_curves
from potluck.report.statistics import Difference, Summary, paired, summarise

ACCURACY = "global/accuracy"
SHARE = 0.95
LATE = 5


class Block(NamedTuple):
    """Runs that differ in the weights alone: where they ran, their FedAvg, and FedEP's variants by label."""

    where: str
    base: str
    variants: Mapping[str, str]


TEXT, LISTING, INVERSE = "FedEP, text", "FedEP, listing", "FedEP, inverse"
BLOCKS = (
    Block(
        "star, SGD",
        "star fedavg",
        {"star fedep text": TEXT, "star fedep listing": LISTING, "star fedep inverse": INVERSE},
    ),
    Block("star, Adam", "star fedavg adam", {"star fedep text adam": TEXT}),
    Block(
        "ring, SGD",
        "ring fedavg",
        {"ring fedep text": TEXT, "ring fedep listing": LISTING, "ring fedep inverse": INVERSE},
    ),
    Block("ring, Adam", "ring fedavg adam", {"ring fedep text adam": TEXT}),
)
RIVALS = (
    *((block.where, block.base, block.variants) for block in BLOCKS),
    ("star, SGD, against SCAFFOLD", "star scaffold", BLOCKS[0].variants),
)


class Outcome(NamedTuple):
    """One method in one setting; `last` is the final accuracy by seed."""

    accuracy: Summary
    late: Summary
    apart: Summary
    rounds_to: Summary
    unrest: Summary
    last: Mapping[int, float]


class Setting(NamedTuple):
    """One setting, the seeds that all its methods have, its scale in words, and the outcomes by label."""

    name: str
    title: str
    seeds: tuple[int, ...]
    rounds: str
    data: str
    outcomes: Mapping[str, Outcome]

    def gaps(self, label: str, base: str) -> dict[int, float]:
        """Return accuracy minus that of the base, by seed."""
        if label not in self.outcomes or base not in self.outcomes:
            return {}
        own, other = self.outcomes[label].last, self.outcomes[base].last
        return {seed: own[seed] - other[seed] for seed in own if seed in other}


class Verdict(NamedTuple):
    """In how many settings a variant does better than its rival, by mean over seeds, and how often clearly.

    `difference` is the mean over settings of these means, with an interval that takes the settings for the sample.
    """

    variant: str
    where: str
    settings: int
    higher: int
    higher_late: int
    clearly_higher: int
    clearly_lower: int
    difference: Difference
    steadier: int
    faster: int


def read(name: str, paths: Sequence[Path]) -> Setting:
    """Read the runs of one setting."""
    opened = {run.label: run for run in open_runs(paths)}
    even, skewed, _, beta = name.split("-")
    seeds = set.intersection(*(set(run.seeds) for run in opened.values()))
    curves = [(run, curve(run, ACCURACY)) for run in opened.values()]
    rounds = {int(own.rounds[-1]) - run.offsets["train"] for run, own in curves if own is not None}
    manifest = json.loads((paths[0] / "manifest.json").read_text(encoding="utf-8"))
    rows = next(iter(manifest["partition"].values()))["rows"]
    return Setting(
        name,
        f"{even} even clients (beta 50), {skewed} skewed (beta {beta})",
        tuple(sorted(seeds)),
        " to ".join(map(str, sorted({min(rounds), max(rounds)}))),
        f"{', '.join(manifest['datasets'])}, {rows}",
        {label: outcome(run, opened) for label, run in opened.items()},
    )


def outcome(run: Run, opened: Mapping[str, Run]) -> Outcome:
    """Return what one method reached."""
    own = curve(run, ACCURACY)
    if own is None:
        raise SystemExit(f"{run.label}: no accuracy was recorded")
    curves = {seed: own.seed(seed)[1] for seed in own.seeds}
    goal = target(run.label, opened)
    firsts = [reached(values, goal) for values in curves.values()]
    return Outcome(
        summarise([float(values[-1]) for values in curves.values()]),
        summarise([float(values[-LATE:].mean()) for values in curves.values()]),
        summarise(between(run)),
        summarise(firsts),
        summarise([unrest(values) for values in curves.values()]),
        {seed: float(values[-1]) for seed, values in curves.items()},
    )


def unrest(values: Floats) -> float:
    """Return the mean fall from one round to the next in the second half of training."""
    steps = np.diff(values[max(len(values) // 2 - 1, 0) :])
    return float(np.maximum(-steps, 0.0).mean()) if len(steps) else 0.0


def target(label: str, opened: Mapping[str, Run]) -> float:
    """Return 95 % of the best mean accuracy of the FedAvg that a method is compared with."""
    bases = [block.base for block in BLOCKS if label in (block.base, *block.variants)] or [BLOCKS[0].base]
    base = curve(opened[bases[0]], ACCURACY) if bases[0] in opened else None
    return float("inf") if base is None else SHARE * float(base.mean().max())


def reached(values: Floats, goal: float) -> float | None:
    """Return the first training round that reaches the goal."""
    there = np.flatnonzero(values >= goal)
    return float(there[0]) + 1 if len(there) else None


def between(run: Run) -> list[float]:
    """Return how far the best and the worst node are apart after the last round, by seed; nothing with a server."""
    found = site_curves(run, ACCURACY)
    return [
        float(np.ptp([own.seed(seed)[1][-1] for own in found.values()]))
        for seed in run.seeds
        if len(found) > 1
    ]


def verdicts(settings: Sequence[Setting]) -> list[Verdict]:
    """Compare every variant with its FedAvg (and with SCAFFOLD) in all settings that have both."""
    found = []
    for where, base, variants in RIVALS:
        for label, variant in variants.items():
            there = [one for one in settings if one.gaps(label, base)]
            if there:
                found.append(verdict(there, label, base, variant, where))
    return found


def verdict(there: Sequence[Setting], label: str, base: str, variant: str, where: str) -> Verdict:
    """Count the settings in which one variant beats one rival."""
    means = [float(np.mean(list(one.gaps(label, base).values()))) for one in there]
    pairs = [(one.outcomes[label], one.outcomes[base]) for one in there]
    clear = [paired(own.last, rival.last) for own, rival in pairs]
    return Verdict(
        variant,
        where,
        len(there),
        sum(mean > 0 for mean in means),
        sum((own.late.mean or 0) > (rival.late.mean or 0) for own, rival in pairs),
        sum(gap.low is not None and gap.low > 0 for gap in clear),
        sum(gap.high is not None and gap.high < 0 for gap in clear),
        paired(dict(enumerate(means)), dict.fromkeys(range(len(means)), 0.0)),
        sum((own.unrest.mean or 0) < (rival.unrest.mean or 0) for own, rival in pairs),
        sum(sooner(own.rounds_to, rival.rounds_to, len(own.last)) for own, rival in pairs),
    )


def sooner(own: Summary, rival: Summary, seeds: int) -> bool:
    """Tell whether a method reaches the target in fewer rounds; it must do so with every seed."""
    if own.mean is None or own.seeds < seeds:
        return False
    return rival.mean is None or rival.seeds < seeds or own.mean < rival.mean


def as_fedavg(settings: Sequence[Setting]) -> tuple[int, int]:
    """Count where the listing differs from its FedAvg by less than FedAvg does from seed to seed, and all that tell."""
    within = [
        abs(float(np.mean(list(gaps.values())))) < std
        for one in settings
        for block in BLOCKS
        for label, variant in block.variants.items()
        if variant == LISTING and (gaps := one.gaps(label, block.base))
        if (std := one.outcomes[block.base].accuracy.std) is not None
    ]
    return sum(within), len(within)
