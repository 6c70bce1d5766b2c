"""Tables and sentences about stored runs of FedDisco with a beta-VAE; all figures are read from the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from blocks import markdown
from numpy.typing import NDArray
from vae_published import BASELINE, Comparison

from potluck.report import Run
from potluck.report.series import curve, number
from potluck.report.statistics import finals, paired, summarise

Floats = NDArray[np.float64]
SETTLED = 10
UNBIASED = 0


def last_stage(run: Run) -> str:
    """Return the stage that a run ends with."""
    return [stage for stage in run.records.stage.names if stage not in ("partition", "topology")][-1]


def total_rounds(run: Run) -> int:
    """Return the rounds of all stages."""
    return sum(int(run.records.rounds_of(stage).max()) for stage in run.records.stage.names)


def course(run: Run, what: str) -> tuple[Floats, Floats]:
    """Return the rounds of the last stage, counted from 1, and one row of values for each seed."""
    found = curve(run, what)
    if found is None:
        return np.zeros(0), np.zeros((len(run.seeds), 0))
    rounds = found.rounds - run.offsets[last_stage(run)]
    return rounds[rounds > 0].astype(np.float64), found.values[:, rounds > 0]


def effective(run: Run) -> float:
    """Return the mean effective number of clients in the last stage."""
    return float(np.nanmean(course(run, "effective_clients")[1]))


def megabytes(run: Run) -> str:
    """Return the bytes of one seed, both ways and all stages."""
    crossed = [summarise(list(finals(run, way).values())).mean or 0.0 for way in ("bytes_up", "bytes_down")]
    return f"{sum(crossed) / 1e6:,.0f} MB"


def spread(values: Floats, digits: int = 2) -> str:
    """Return mean and standard deviation over seeds."""
    one = summarise(values.tolist())
    if one.mean is None:
        return "-"
    return f"{one.mean:.{digits}f}" + ("" if one.std is None else f" ± {one.std:.{digits}f}")


def at(run: Run, round: int) -> Floats:
    """Return the loss of each seed after a round of the last stage."""
    rounds, values = course(run, "global/loss")
    return np.asarray(values[:, rounds == round].ravel(), dtype=np.float64)


def ends(run: Run) -> tuple[int, int]:
    """Return the first and the last evaluated round of the last stage."""
    rounds, _ = course(run, "global/loss")
    return int(rounds.min()), int(rounds.max())


def loss_table(runs: Sequence[Run], one: Comparison) -> str:
    """Return losses beside the published ones, what they are to the baseline, weights and cost."""
    first, last = ends(runs[0])
    heads = [
        "method",
        f"round {first}",
        "published",
        f"round {last}",
        "published",
        "to the baseline",
        "published",
    ]
    heads += ["effective clients", "rounds in all", "bytes in all"]
    base = runs[0]
    rows = []
    for run in runs:
        cells = [run.label]
        for round in (first, last):
            cells += [spread(at(run, round)), _published(one, round, run.label)]
        cells += [f"{change(run, base, last):+.2f} %" if run is not base else "", _told(one, last, run.label)]
        rows.append([*cells, f"{effective(run):.2f}", str(total_rounds(run)), megabytes(run)])
    return markdown(heads, rows)


def change(run: Run, base: Run, round: int) -> float:
    """Return how far the mean loss lies above the baseline's, in percent."""
    return float(100 * (at(run, round).mean() / at(base, round).mean() - 1))


def _published(one: Comparison, round: int, label: str) -> str:
    found = one.published.get(round, {}).get(label)
    return "-" if found is None else f"{found:.2f}"


def claimed(one: Comparison, round: int, label: str) -> float | None:
    """Return how far the published loss lies above the published baseline, in percent."""
    told = one.published.get(round, {})
    return (
        100 * (told[label] / told[BASELINE] - 1) if label in told and label not in (BASELINE, "a 0") else None
    )


def _told(one: Comparison, round: int, label: str) -> str:
    found = claimed(one, round, label)
    return "" if label == BASELINE else "-" if found is None else f"{found:+.2f} %"


def reading(runs: Sequence[Run], one: Comparison) -> str:
    """Say whether the directions are the published ones, how far the losses are apart, and what noise there is."""
    first, last = ends(runs[0])
    lines = [
        *_directions(runs, one, last),
        *_far(runs, one, last),
        *_noise(runs, last),
        *_best(runs, first, last),
    ]
    if "niid2" in one.title.lower().replace("-", ""):
        lines += _nearest(runs)
    return "\n".join(f"- {line}" for line in lines)


def _directions(runs: Sequence[Run], one: Comparison, last: int) -> list[str]:
    pairs = [(run.label, change(run, runs[0], last), claimed(one, last, run.label)) for run in runs[1:]]
    known = [(label, ours, told) for label, ours, told in pairs if told is not None]
    if not known:
        return []
    same = [label for label, ours, told in known if ours * told > 0]
    other = [label for label, ours, told in known if ours * told <= 0]
    ends_in = f"after round {last}: the published direction with {', '.join(same) or 'none'}"
    return [f"Against the baseline {ends_in}; the opposite with {', '.join(other) or 'none'}."]


def _far(runs: Sequence[Run], one: Comparison, last: int) -> list[str]:
    told = one.published.get(last, {})
    gaps = [100 * (at(run, last).mean() / told[run.label] - 1) for run in runs if run.label in told]
    if not gaps:
        return []
    return [
        f"Losses after round {last} lie {min(gaps):+.2f} % to {max(gaps):+.2f} % from the published ones."
    ]


def _noise(runs: Sequence[Run], last: int) -> list[str]:
    again = [run for run in runs if run.label == "a 0"]
    if not again:
        return []
    return [
        f"Noise: `a 0` is the baseline from other initial weights, and ends {change(again[0], runs[0], last):+.2f} % "
        "from it. A smaller difference means nothing."
    ]


def _best(runs: Sequence[Run], first: int, last: int) -> list[str]:
    strong = [run for run in runs if run.label == "a 0.9"]
    settled = [round for round in range(max(first, SETTLED), last + 1) if len(at(runs[0], round))]
    if not strong or not settled:
        return []
    found = {round: change(strong[0], runs[0], round) for round in settled}
    best = min(found, key=found.__getitem__)
    return [
        f"With a 0.9 the largest gain from round {settled[0]} on is {-found[best]:.2f} %, at round {best}; "
        f"after round {first} it is {-change(strong[0], runs[0], first):.2f} %."
    ]


def discrepancies(run: Run) -> Mapping[int, Mapping[int, float]]:
    """Return each client's distance from the prior, by seed."""
    records = run.records
    mine = records.stage.equals("latent") & records.who.starts("client/") & records.what.equals("discrepancy")
    out: dict[int, dict[int, float]] = {}
    for place in np.flatnonzero(mine).tolist():
        client = number(records.who.names[records.who.codes[place]])
        out.setdefault(int(records.seed[place]), {})[client] = float(records.number[place])
    return out


def _nearest(runs: Sequence[Run]) -> list[str]:
    found = discrepancies(runs[-1])
    if not found:
        return []
    nearest = sum(min(each, key=each.__getitem__) == UNBIASED for each in found.values())
    own = ", ".join(f"{each[UNBIASED]:.3f}" for each in found.values())
    others = [far for each in found.values() for client, far in each.items() if client != UNBIASED]
    return [
        f"The unbiased client is nearest to the prior in {nearest} of {len(found)} seeds: d = {own}; the others "
        f"{min(others):.3f} to {max(others):.3f}."
    ]


def accuracy_table(runs: Sequence[Run]) -> str:
    """Return what a classifier gains by each method, and what that costs."""
    heads = [
        "method",
        "accuracy",
        "minus FedAvg",
        "effective clients",
        "rounds in all",
        "bytes in all",
        "time",
    ]
    base = finals(runs[0], "accuracy")
    rows = []
    for run in runs:
        own = finals(run, "accuracy")
        gap = paired(own, base)
        words = ""
        if run is not runs[0] and gap.mean is not None:
            reach = (
                ""
                if gap.low is None or gap.high is None
                else f" [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
            )
            words = f"{100 * gap.mean:+.2f}{reach}"
        minutes = (summarise(list(finals(run, "seconds").values())).mean or 0.0) / 60
        accuracies = 100 * np.array(list(own.values()))
        cells = [run.label, spread(accuracies), words, f"{effective(run):.2f}", str(total_rounds(run))]
        rows.append([*cells, megabytes(run), f"{minutes:.1f} min"])
    return markdown(heads, rows)


def pick(runs: Sequence[Run]) -> str:
    """Say which method a user would take: the fewest bytes among those not clearly below the best."""
    scores = {run.label: finals(run, "accuracy") for run in runs}
    best = max(scores, key=lambda label: float(np.mean(list(scores[label].values()))))
    level = [run for run in runs if not paired(scores[best], scores[run.label]).verdict.startswith("higher")]
    if len(runs[0].seeds) < 2:
        return f"Highest accuracy: {best}. One seed: no verdict."
    cheap = min(
        level, key=lambda run: sum(sum(finals(run, way).values()) for way in ("bytes_up", "bytes_down"))
    )
    names = ", ".join(run.label for run in level)
    return (
        f"Highest mean accuracy: **{best}**. Not clearly below it (the 95 % interval of the difference holds 0): "
        f"{names}. Of these **{cheap.label}** moves the fewest bytes: that is the one to take."
    )
