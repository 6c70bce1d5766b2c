"""The table of figures; `plot` returns one for a notebook, `save` writes all of them as PNG and SVG."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from potluck.errors import BadInputError, unknown
from potluck.report.plot_clients import boxes, partition_figure, weights
from potluck.report.plot_clusters import clusters
from potluck.report.plot_costs import costs
from potluck.report.plot_curves import QUANTITIES, curves, sites
from potluck.report.plot_experts import experts
from potluck.report.plot_graph import graph
from potluck.report.plot_latent import latent
from potluck.report.plot_pictures import pictures
from potluck.report.read import Run, open_runs

Drawn = Callable[[Sequence[Run]], Figure | None]
PLOTS: Mapping[str, Drawn] = {
    **{name: partial(curves, what=name) for name in QUANTITIES},
    "sites": sites,
    "graph": graph,
    "clients": boxes,
    "partition": partition_figure,
    "weights": weights,
    "clusters": clusters,
    "experts": experts,
    "costs": costs,
    "latent": latent,
    "pictures": pictures,
}


def plot(runs: Iterable[Run | Path | str], what: str) -> Figure:
    """Return one figure: a name of `PLOTS`, or anything that servers or sites recorded over rounds."""
    opened = open_runs(runs)
    recorded = sorted({name for run in opened for name in run.records.what.names})
    if what not in PLOTS and what not in recorded:
        raise unknown("figure", what, [*PLOTS, *recorded])
    drawn = PLOTS[what](opened) if what in PLOTS else curves(opened, what)
    if drawn is None:
        raise BadInputError(f"no run recorded what the figure {what!r} shows; choose another figure")
    return drawn


def save(runs: Iterable[Run | Path | str], folder: Path) -> list[Path]:
    """Write every figure that the records allow, as PNG and SVG, and return the files."""
    opened = open_runs(runs)
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for name, draw in PLOTS.items():
        drawn = draw(opened)
        if drawn is not None:
            files += [_write(drawn, folder / f"{name}.png"), _write(drawn, folder / f"{name}.svg")]
    return files


def _write(drawn: Figure, path: Path) -> Path:
    """Write a figure so that equal records give equal bytes."""
    temporary = path.with_name(f".{path.name}.part")
    kind = path.suffix[1:]
    with mpl.rc_context({"svg.hashsalt": "potluck"}):
        drawn.savefig(
            temporary, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": "potluck"}
        )
    os.replace(temporary, path)
    return path
