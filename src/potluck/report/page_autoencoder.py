"""The page's section on an autoencoder: what it makes of images, and where it places the clients' rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from potluck.report.embed import embedded
from potluck.report.markup import Cell, Head, section, table, text
from potluck.report.plot_latent import latent, stage_of
from potluck.report.plot_pictures import pictures
from potluck.report.read import Run
from potluck.report.records import Floats
from potluck.report.series import number

LEAD = (
    "Rows of the test, the same rows decoded from their posterior means, and images decoded from N(0, I), on one grey "
    "scale; then the latent codes of the clients' rows against circles that hold 50, 90 and 99 % of N(0, I). "
    "First seed. A dimension whose divergence from N(0, 1) is below 0.01 nats carries nothing: it has collapsed."
)


def autoencoders(runs: Sequence[Run]) -> str:
    """Return the section, or nothing when no run has an autoencoder."""
    drawn = [
        embedded(figure, words)
        for figure, words in (
            (pictures(runs), "Images of the test, their reconstructions, and samples, for every method"),
            (latent(runs), "Scatter plot of the clients' latent codes against circles of the normal"),
        )
        if figure is not None
    ]
    return section("autoencoder", "Autoencoder", LEAD, *drawn, _divergences(runs)) if drawn else ""


def divergences(run: Run, seed: int) -> tuple[str, Floats] | None:
    """Return the stage that looked first, and its divergences by latent dimension: mean over its clients."""
    records, stage = run.records, stage_of(run)
    mine = records.who.starts("client/") & (records.seed == seed) & records.what.equals("kl")
    places = np.flatnonzero(mine & records.stage.equals(stage)).tolist() if stage else []
    found = {number(records.who.names[records.who.codes[place]]): records.lists[place] for place in places}
    return (stage, np.mean(list(found.values()), axis=0)) if stage and found else None


def _divergences(runs: Sequence[Run]) -> str:
    """Return the table of the monitor of collapse."""
    heads = [
        Head("Method", kind="words", first="up"),
        Head("Encoder of stage", kind="words", first="up"),
        Head("Divergence of each dimension", "nats, mean over the clients", kind="words"),
        Head("Collapsed", "dimensions below 0.01 nats"),
    ]
    rows = []
    for run in runs:
        found = divergences(run, run.seeds[0]) if run.seeds else None
        if found is None:
            continue
        stage, kl = found
        words = ", ".join(f"{one:.3f}" for one in kl[:8]) + (", ..." if len(kl) > 8 else "")
        gone = int((kl < 0.01).sum())
        rows.append(
            [Cell(text(run.label)), Cell(text(stage)), Cell(words), Cell(f"{gone} of {len(kl)}", str(gone))]
        )
    return table(heads, rows, "Divergence of the latent dimensions") if rows else ""
