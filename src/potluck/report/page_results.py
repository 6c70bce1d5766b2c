"""The page's sections of figures: summary cards, curves, the sortable table, clients, cost, reason codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from potluck.report.markup import Cell, Head, bar, details, section, table, text
from potluck.report.plot_graph import picture
from potluck.report.read import Run
from potluck.report.series import client_finals, curve, partitions, site_curves
from potluck.report.statistics import Summary, finals, reasons, summarise, totals
from potluck.report.tables import (
    HEADINGS,
    MISSING,
    Heading,
    Line,
    best_of,
    cell,
    differences,
    metric_of,
    target_of,
    written,
)
from potluck.report.tables import table as lines_of

MINUS = "\u2212"
BY_STAGE = ("bytes/up", "bytes/down", "bytes/flood", "bytes/handover")
LEGEND = '<ul class="legend" aria-label="Methods, to be switched on and off"></ul>'


def cards(runs: Sequence[Run]) -> str:
    """Return the few figures that a reader looks for first."""
    metric = metric_of(runs)
    lines = [line for line in lines_of(runs) if getattr(line, metric).mean is not None]
    facts: list[tuple[str, str]] = []
    if lines:
        facts.append(_best(lines, metric))
    facts.append((str(len(runs)), "method" if len(runs) == 1 else "methods"))
    seeds = sorted({seed for run in runs for seed in run.seeds})
    facts.append((str(len(seeds)), "seed" if len(seeds) == 1 else "seeds"))
    shown = partitions(runs)
    if shown:
        own = shown[0].partition
        rows = f"{int(own.counts.sum()):,}".replace(",", " ")
        facts.append((str(len(own.clients)), f"clients with {rows} rows of {len(own.classes)} classes"))
    rounds = max(
        (sum(run.records.rounds_of(s).max() for s in run.offsets) for run in runs if len(run.records)),
        default=0,
    )
    facts.append((str(int(rounds)), "rounds at most, stages before training included"))
    items = "".join(f"<li><b>{text(value)}</b><span>{text(name)}</span></li>" for value, name in facts)
    return f'<ul class="cards">{items}</ul>'


def _best(lines: Sequence[Line], metric: str) -> tuple[str, str]:
    """Return the best final figure, and in words what it is and whose."""
    kind, unit, pick = ("number", "", min) if metric == "loss" else ("percent", " %", max)
    best = pick(lines, key=lambda line: float(getattr(line, metric).mean))
    where = "on the clients' own test sets" if metric == "local_accuracy" else "on the global test set"
    what = "lowest final loss" if metric == "loss" else "best final accuracy"
    summary: Summary = getattr(best, metric)
    spread = "" if summary.std is None else f"± {written(summary.std, kind)}, "
    return f"{written(summary.mean or 0.0, kind)}{unit}", f"{spread}{what} {where}: {best.method}"


def curves(runs: Sequence[Run]) -> str:
    """Return the frame of the interactive curves, or nothing when no site recorded a number."""
    if not any((run.records.merging() & np.isfinite(run.records.number)).any() for run in runs):
        return ""
    tools = (
        '<div class="tools"><label>Show <select id="metric"></select></label>'
        '<label><input type="checkbox" id="each-seed" checked> every seed</label></div>'
    )
    lead = (
        "Thick: mean over seeds. Band: one standard deviation. Thin: every seed. "
        "Point, touch or use the arrow keys to read off; click a name to switch a method off."
    )
    chart = '<div class="chart" id="curves"></div><p class="pale small" id="without" role="status"></p>'
    return section("over-rounds", "Over the rounds", lead, tools, LEGEND, chart)


def comparison(runs: Sequence[Run]) -> str:
    """Return the sortable table and the paired differences."""
    lines = lines_of(runs)
    shown = [heading for heading in HEADINGS if any(getattr(line, heading.field).seeds for line in lines)]
    heads = [Head("Method", kind="words", first="up"), Head("Seeds", "how many seeds were run")]
    heads += [Head(one.title, one.meaning, first="up" if one.best == "low" else "down") for one in shown]
    best = {one.field: best_of(lines, one) for one in shown}
    rows = [
        [Cell(text(line.method)), Cell(str(line.seeds), str(line.seeds))]
        + [_figure(line, one, line.method in best[one.field]) for one in shown]
        for line in lines
    ]
    target = target_of(runs)
    percent = "Accuracies and F1 in %, mean" if any(one.kind == "percent" for one in shown) else "Mean"
    lead = f"{percent} ± standard deviation over seeds; the best of each column in bold."
    if target is not None:
        lead += f" Rounds: the first evaluated round with at least {100 * target:.2f} %, 95 % of the best."
    return section(
        "comparison", "Comparison", lead, table(heads, rows, "Comparison of methods", True), _paired(runs)
    )


def _figure(line: Line, heading: Heading, best: bool) -> Cell:
    summary: Summary = getattr(line, heading.field)
    if summary.mean is None:
        return Cell(MISSING, "")
    kind = "best" if best else ""
    spread = "" if summary.std is None or heading.kind == "bytes" else written(summary.std, heading.kind)
    tail = f'<span class="std">± {text(spread)}</span>' if spread else ""
    return Cell(f"{text(written(summary.mean, heading.kind))}{tail}", repr(summary.mean), kind)


def _paired(runs: Sequence[Run]) -> str:
    metric = metric_of(runs)
    found = differences(runs, metric)
    if not found:
        return ""
    what, factor = ("Loss", 1) if metric == "loss" else ("Accuracy", 100)
    rows = []
    for method, _, gap in found:
        low, high = signed(gap.low, factor), signed(gap.high, factor)
        interval = MISSING if gap.low is None else f"{low} to {high}"
        cells = [Cell(text(method)), Cell(signed(gap.mean, factor)), Cell(interval), Cell(str(gap.seeds))]
        rows.append([*cells, Cell(text(gap.verdict), kind="words")])
    heads = [
        Head("Method"),
        Head("Difference"),
        Head("95 % interval"),
        Head("Common seeds"),
        Head("Verdict", kind="words"),
    ]
    unit = "" if metric == "loss" else ", in percentage points"
    title = f"{what} minus that of {found[0][1]}{unit}, over common seeds"
    return f"<h3>{text(title)}</h3>" + table(heads, rows, title)


def signed(value: float | None, factor: float = 100) -> str:
    """Return a difference with its sign, in percentage points unless another factor is given."""
    return MISSING if value is None else f"{factor * value:+.2f}".replace("-", MINUS)


def clients(runs: Sequence[Run]) -> str:
    """Return the frames of the box plots and of the partition."""
    parts = []
    if any(client_finals(run) for run in runs):
        lead = (
            "Every client of every seed is a dot, at the last evaluated round. Box: quartiles. "
            "Line: smallest to largest. Ring: the worst client."
        )
        parts.append(
            section("clients", "Accuracy of the clients", lead, '<div class="chart" id="boxes"></div>')
        )
    if partitions(runs):
        select = '<div class="tools"><label>Partition of <select id="which-partition"></select></label></div>'
        lead = "Rows of each class at each client; below, its mean weight in the rounds it took part in."
        inside = '<div class="tracks" id="tracks" tabindex="0" role="region" aria-label="Partition"></div>'
        frame = f'<div class="chart">{inside}</div>'
        parts.append(section("partition", "Who holds what", lead, select, frame))
    return "".join(parts)


def dynamics(runs: Sequence[Run]) -> str:
    """Return the frames of effective clients, consensus and the sites of a mesh."""
    parts = []
    if any(curve(run, "effective_clients") for run in runs):
        lead = "One over the sum of squared weights: how many equal clients the aggregation amounts to."
        parts.append(
            section("effective", "Effective number of clients", lead, LEGEND, _chart("effective_clients"))
        )
    if any(curve(run, "consensus") for run in runs):
        lead = "Mean distance of the sites' models from their mean: zero when all agree."
        parts.append(section("mesh", "Distance from consensus", lead, LEGEND, _chart("consensus")))
    meshes = [(place, run) for place, run in enumerate(runs) if site_curves(run, "global/accuracy")]
    frames = "".join(
        f'<div><h3>{text(run.label)}</h3><div class="chart" id="sites-{place}"></div></div>'
        for place, run in meshes
    )
    if meshes:
        lead = "One line a site, mean over seeds, on the global test set."
        parts.append(section("sites", "Accuracy of each site", lead, f'<div class="bars">{frames}</div>'))
    drawn = picture(runs)
    if drawn:
        lead = "Who merges with whom (first seed, first round), coloured by the last accuracy of each peer."
        parts.append(section("graph", "The graph", lead, f'<div class="chart">{drawn}</div>'))
    return "".join(parts)


def _chart(what: str) -> str:
    return f'<div class="chart" id="chart-{what}"></div>'


def costs(runs: Sequence[Run]) -> str:
    """Return bars of bytes and seconds."""
    panels = ""
    for metric, title, kind in (
        ("bytes_up", "Sent up", "bytes"),
        ("bytes_down", "Sent down", "bytes"),
        ("seconds", "Time", "seconds"),
    ):
        means = [summarise(list(finals(run, metric).values())) for run in runs]
        most = max((one.mean for one in means if one.mean is not None), default=0.0)
        if most > 0:
            bars = "".join(
                bar(place, run.label, cell(one, kind), (one.mean or 0.0) / most)
                for place, (run, one) in enumerate(zip(runs, means, strict=True))
            )
            panels += f"<div><h3>{title}</h3>{bars}</div>"
    if not panels:
        return ""
    lead = "Mean over seeds of all rounds of one seed, stages before training included."
    return section("cost", "What it cost", lead, f'<div class="bars">{panels}</div>', _crossed(runs))


def _crossed(runs: Sequence[Run]) -> str:
    """Return what crossed the wire by stage and kind, in bytes of one seed, when it was recorded."""
    kinds = dict.fromkeys(
        (stage, kind)
        for run in runs
        for stage in run.records.stage.names
        for kind in ("bytes/down", "bytes/up", *sorted(run.records.what.names))
        if kind.startswith(BY_STAGE) and totals(run, kind, stage)
    )
    if not kinds:
        return ""
    stages = list(dict.fromkeys(stage for stage, _ in kinds))
    heads = [Head("What crossed", kind="words", first="up"), *(Head(run.label) for run in runs)]
    rows = [
        [
            Cell(text(f"{stage}: {kind.removeprefix('bytes/')}")),
            *(_bytes_of(run, kind, stage) for run in runs),
        ]
        for stage, kind in sorted(kinds, key=lambda pair: stages.index(pair[0]))
    ]
    return details(
        "What crossed the wire", table(heads, rows, "Bytes by stage and kind, mean over seeds", True)
    )


def _bytes_of(run: Run, kind: str, stage: str) -> Cell:
    mean = summarise(list(totals(run, kind, stage).values())).mean
    return Cell(MISSING, "") if mean is None else Cell(text(written(mean, "bytes")), repr(mean))


def reason_codes(runs: Sequence[Run]) -> str:
    """Return the share of client-rounds by reason code."""
    found = [(place, run, reasons(run)) for place, run in enumerate(runs)]
    if not any(one.client_rounds for _, _, one in found):
        return ""
    panels = ""
    for place, run, one in found:
        bars = "".join(
            bar(
                place,
                code,
                f"{100 * one.share(code):.1f} % ({count} of {one.client_rounds})",
                one.share(code),
            )
            for code, count in one.counts.items()
        )
        panels += f"<div><h3>{text(run.label)}</h3>{bars}</div>" if bars else ""
    clean = [run.label for _, run, one in found if not one.counts]
    none = f'<p class="pale">None for {text("; ".join(clean))}.</p>' if clean else ""
    panels = f'<div class="bars">{panels}</div>' if panels else ""
    lead = "How often a client's answer did not count as the method means it, and why."
    return section("reasons", "Reason codes", lead, panels, none)
