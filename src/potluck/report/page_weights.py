"""The page's section on row weights: one histogram a client, where a method weighs rows (FedDisk).

Only counts are in the records. Which rows they are, in positions of the client's training part, is recorded
too; the rows themselves are drawn only where somebody who has them hands them in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from potluck.report.embed import embedded
from potluck.report.markup import details, section, text
from potluck.report.plot_rows import Extremes, extremes
from potluck.report.read import Run
from potluck.report.records import Floats
from potluck.report.series import number

HISTOGRAM, EFFECTIVE, CLIP = "row_weights/histogram", "row_weights/effective", "row_weights/clip"
HIDDEN = "potluck report RUN --rows CLIENT draws the rows that count most and least, where the data are."
SHOWN = "Below: rows of clients, drawn where the data are. Whoever gets this page sees them."
WIDTH, HEIGHT, LEFT, RIGHT, TOP = 16, 10, 66, 60, 16


def row_weights(runs: Sequence[Run], rows: Sequence[Extremes] = ()) -> str:
    """Return the histograms of the row weights and the given rows, or nothing where no method weighs rows."""
    frames = "".join(_frame(place, run) for place, run in enumerate(runs))
    if not frames:
        return ""
    lead = (
        "How many of a client's training rows have which weight, on a logarithmic axis; darker is more. All in the "
        "middle column: plain averaging. Right: the share of its rows that the weights amount to. First seed. "
        + (SHOWN if rows else HIDDEN)
    )
    return section("row-weights", "Weights of the rows", lead, frames, *map(_drawn, rows))


def _drawn(shown: Extremes) -> str:
    words = f"Rows with the highest and the lowest weights, {shown.run}, client {shown.client}"
    return f"<p>{embedded(extremes(shown), words)}</p>"


def histograms(run: Run) -> dict[int, Floats]:
    """Return each client's histogram in the first seed that has any."""
    records = run.records
    places = np.flatnonzero(records.what.equals(HISTOGRAM)).tolist()
    first = min((int(records.seed[place]) for place in places), default=0)
    found = {
        number(records.who.names[records.who.codes[place]]): records.lists[place]
        for place in places
        if records.seed[place] == first and place in records.lists
    }
    return dict(sorted(found.items()))


def _frame(place: int, run: Run) -> str:
    found = histograms(run)
    if not found:
        return ""
    shares, clip = _figures(run, EFFECTIVE), max(_figures(run, CLIP).values(), default=0.0)
    columns = max(len(counts) for counts in found.values())
    wide, high = LEFT + columns * WIDTH + RIGHT, TOP + len(found) * HEIGHT + 4
    ticks = ((0, f"1/{clip:g}"), (columns / 2, "1"), (columns, f"{clip:g}"))
    marks = "".join(
        f'<text x="{LEFT + at * WIDTH:g}" y="{TOP - 5}" text-anchor="middle">{text(label)}</text>'
        for at, label in ticks
    )
    rows = "".join(
        _row(TOP + line * HEIGHT, client, counts, shares.get(client))
        for line, (client, counts) in enumerate(found.items())
    )
    chart = (
        f'<svg class="m{place % 8}" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img" '
        f'aria-label="Histograms of row weights, {text(run.label)}" font-size="8" fill="currentColor">'
        f"{marks}{rows}</svg>"
    )
    return details(run.label, f'<div class="scroll" tabindex="0">{chart}</div>')


def _row(y: int, client: int, counts: Floats, share: float | None) -> str:
    total = max(float(counts.sum()), 1.0)
    cells = "".join(
        f'<rect x="{LEFT + column * WIDTH}" y="{y}" width="{WIDTH - 1}" height="{HEIGHT - 1}" '
        f'style="fill:var(--c)" fill-opacity="{0.15 + 0.85 * count / total:.3f}">'
        f"<title>client {client}: {count:g} rows</title></rect>"
        for column, count in enumerate(counts.tolist())
        if count > 0
    )
    name = f'<text x="{LEFT - 4}" y="{y + HEIGHT - 3}" text-anchor="end">client {client}</text>'
    tail = "" if share is None else f"{100 * share:.0f} %"
    right = LEFT + len(counts) * WIDTH + 4
    return f'{name}{cells}<text x="{right}" y="{y + HEIGHT - 3}">{tail}</text>'


def _figures(run: Run, what: str) -> dict[int, float]:
    records = run.records
    mask = records.what.equals(what) & np.isfinite(records.number)
    places = np.flatnonzero(mask).tolist()
    first = min((int(records.seed[place]) for place in places), default=0)
    return {
        number(records.who.names[records.who.codes[place]]): float(records.number[place])
        for place in places
        if records.seed[place] == first
    }
