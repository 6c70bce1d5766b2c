"""What the page's script draws, as one JSON object: curves, clients' scores, partitions, weights, sites."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from potluck.report.plot_curves import QUANTITIES
from potluck.report.read import Run
from potluck.report.records import JSON, Floats
from potluck.report.series import Curve, client_finals, client_means, curve, partitions, site_curves

SCORES = {
    "accuracy": ("Accuracy", 100),
    "loss": ("Loss", 1),
    "accuracy_macro": ("Macro accuracy", 100),
    "f1_macro": ("F1, macro", 100),
    "precision_macro": ("Precision, macro", 100),
    "recall_macro": ("Recall, macro", 100),
}
LOCAL = {
    "weighted": "Clients, weighted by rows",
    "mean": "Clients, mean",
    "min": "Worst client",
    "q1": "Clients, lower quartile",
    "median": "Clients, median",
    "q3": "Clients, upper quartile",
    "max": "Best client",
    "std": "Clients, standard deviation",
}
APART = ("effective_clients", "consensus")
DETAILS = ("bytes/up/", "bytes/down/", *APART)
MOST_LOGS = 40


def payload(runs: Sequence[Run]) -> str:
    """Return the page's data as JSON that is safe inside a script element."""
    clients = sorted(
        {client for run in runs for own, _ in client_finals(run).values() for client in own.tolist()}
    )
    data: dict[str, JSON] = {
        "labels": [run.label for run in runs],
        "metrics": [_metric(runs, what) for what in _whats(runs)],
        "apart": {what: _metric(runs, what) for what in APART if any(curve(run, what) for run in runs)},
        "boxes": [_box(run) for run in runs],
        "clients": len(clients),
        "partitions": _partitions(runs),
        "weights": [_weights(run) for run in runs],
        "sites": [_sites(run) for run in runs],
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for unsafe in "<>&\u2028\u2029":
        text = text.replace(unsafe, f"\\u{ord(unsafe):04x}")
    return text


def _whats(runs: Sequence[Run]) -> list[str]:
    """Return what can be drawn over rounds: the scores first, then the clients, then whatever was logged."""
    names: dict[str, None] = {}
    for run in runs:
        records = run.records
        there = records.merging() & np.isfinite(records.number)
        names |= dict.fromkeys(
            records.what.names[code] for code in np.unique(records.what.codes[there]).tolist()
        )
    known = [name for name in names if _rank(name)[0] < 3 and name not in APART]
    logs = [name for name in names if _rank(name)[0] == 3 and not name.startswith(DETAILS)]
    return sorted(known, key=_rank) + sorted(logs)[:MOST_LOGS]


def _rank(what: str) -> tuple[int, int, str]:
    head, _, tail = what.rpartition("/")
    if what.startswith("local/") and tail == "accuracy":
        name = head.removeprefix("local/")
        return (1, list(LOCAL).index(name) if name in LOCAL else 99, what)
    if head and not head.startswith(("local", "bytes", "test", "val")) and tail in SCORES:
        return (0 if head == "global" else 2, list(SCORES).index(tail), what)
    return (3, 0, what)


def _metric(runs: Sequence[Run], what: str) -> dict[str, JSON]:
    group, _, _ = _rank(what)
    head, _, tail = what.rpartition("/")
    title, factor, up = what, 1.0, what
    if what in QUANTITIES:
        title, factor, up = QUANTITIES[what].title, QUANTITIES[what].factor, QUANTITIES[what].up
    elif group in (0, 2):
        title, factor = SCORES[tail]
        title += "" if group == 0 else f" on {head}"
        up = title + (" (%)" if factor == 100 else "")
    elif group == 1:
        title, factor = LOCAL.get(head.removeprefix("local/"), what), 100
        up = "accuracy (%)"
    groups = ("Global test set", "Clients' own test sets", "Other test sets", "Logged by the methods")
    return {
        "what": what,
        "title": title,
        "group": groups[group],
        "factor": factor,
        "up": up,
        "series": [_series(curve(run, what)) for run in runs],
    }


def _series(found: Curve | None) -> dict[str, JSON] | None:
    if found is None:
        return None
    return {
        "x": found.rounds.tolist(),
        "mean": numbers(found.mean()),
        "std": numbers(found.std()),
        "seeds": {str(seed): numbers(row) for seed, row in zip(found.seeds, found.values, strict=True)},
    }


def numbers(values: Floats) -> list[JSON]:
    """Return floats with six significant digits, None where there is none."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _box(run: Run) -> dict[str, JSON] | None:
    found = client_finals(run)
    if not found:
        return None
    pooled = np.concatenate([values for _, values in found.values()])
    return {
        "quartiles": numbers(np.quantile(pooled, [0.0, 0.25, 0.5, 0.75, 1.0])),
        "seeds": [[seed, own.tolist(), numbers(values)] for seed, (own, values) in found.items()],
    }


def _partitions(runs: Sequence[Run]) -> list[JSON]:
    return [
        {
            "title": shown.title,
            "seed": str(shown.seed),
            "runs": list(shown.runs),
            "clients": list(shown.partition.clients),
            "classes": list(shown.partition.classes),
            "counts": [[int(count) for count in row] for row in shown.partition.counts.tolist()],
        }
        for shown in partitions(runs)
    ]


def _weights(run: Run) -> dict[str, JSON]:
    found = {seed: client_means(run, "weight", seed) for seed in run.seeds}
    return {
        str(seed): {str(client): value for client, value in zip(own.tolist(), numbers(means), strict=True)}
        for seed, (own, means) in found.items()
        if len(own)
    }


def _sites(run: Run) -> list[JSON]:
    return [
        {"label": site, "x": own.rounds.tolist(), "mean": numbers(own.mean())}
        for site, own in site_curves(run, "global/accuracy").items()
    ]
