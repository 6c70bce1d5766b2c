"""Figure of experts behind a gate: its weights along the test rows, and how well each expert and each gate does.

FedEx (Miles et al., University of Michigan, 2024, tables 1 and 2) reports every expert and all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.report.canvas import INK, PALE, dashed, dress, figure, titled
from potluck.report.palette import pen
from potluck.report.read import Run
from potluck.report.series import recorded

MOST = 4
GATES = ("online", "frozen", "mean", "learned", "oracle")


class Panel(NamedTuple):
    """The last figures of one seed: accuracy by expert and by gate, and the weight of each expert by rows seen."""

    experts: Mapping[int, float]
    gates: Mapping[str, float]
    weights: Mapping[int, Mapping[int, float]]


def experts(runs: Sequence[Run]) -> Figure | None:
    """Draw up to four runs that have experts: weights above, accuracies below; the first seed, the global test."""
    found = [(run, one) for run in runs if (one := panel(run, run.seeds[0] if run.seeds else 0))]
    if not found:
        return None
    found = found[:MOST]
    canvas = figure(1.2 + 4.4 * len(found), 7.0)
    areas = np.asarray(canvas.subplots(2, len(found), squeeze=False))
    for column, (run, one) in enumerate(found):
        _weights(areas[0, column], run.label, one)
        _accuracies(areas[1, column], one)
    return canvas


def panel(run: Run, seed: int) -> Panel | None:
    """Return what a seed's records last said about experts, or None when there are none."""
    test = recorded(run, "global/accuracy").removesuffix("accuracy")
    records = run.records
    mask = records.merging() & (records.seed == seed) & np.isfinite(records.number)
    mask &= records.what.starts(f"{test}expert/", f"{test}gate/")
    by_expert: dict[int, float] = {}
    by_gate: dict[str, float] = {}
    by_rows: dict[int, dict[int, float]] = {}
    for place in np.flatnonzero(mask).tolist():
        parts = records.what.names[records.what.codes[place]].removeprefix(test).split("/")
        value = float(records.number[place])
        match parts:
            case ["expert", expert, "accuracy"]:
                by_expert[int(expert)] = value
            case ["gate", rule, "accuracy"]:
                by_gate[rule] = value
            case ["gate", expert, "weight", rows]:
                by_rows.setdefault(int(expert), {})[int(rows)] = value
    return Panel(by_expert, by_gate, by_rows) if by_expert else None


def _weights(area: Axes, label: str, one: Panel) -> None:
    dress(area, titled("The online gate's weights", label), "test rows seen", "mean weight over classes")
    for expert, weights in sorted(one.weights.items()):
        style = pen(expert)
        rows = sorted(weights)
        area.plot(
            rows,
            [weights[row] for row in rows],
            color=style.colour,
            linestyle=dashed(style),
            marker=style.marker,
            ms=4,
            lw=2,
            label=f"expert {expert}",
        )
    if one.weights:
        area.set_xscale("log")
        area.set_ylim(bottom=0)
        area.legend(frameon=False, fontsize=8, labelcolor=INK, loc="lower left", ncols=2)


def _accuracies(area: Axes, one: Panel) -> None:
    """Draw a bar for each expert in its cluster's colour, and one for each gate."""
    dress(area, "Accuracy of each expert, and of each gate", "", "accuracy (%)")
    names = [f"expert {expert}" for expert in sorted(one.experts)]
    values = [one.experts[expert] for expert in sorted(one.experts)]
    colours = [pen(expert).colour for expert in sorted(one.experts)]
    for gate in (gate for gate in GATES if gate in one.gates):
        names.append(gate)
        values.append(one.gates[gate])
        colours.append(PALE)
    bars = area.bar(range(len(names)), [100 * value for value in values], width=0.7, color=colours)
    area.bar_label(bars, fmt="%.1f", fontsize=8, color=INK, padding=2)
    area.set_xticks(range(len(names)), names, rotation=45, ha="right")
    area.set_ylim(0, 108)
