"""Figure of what an autoencoder makes of images: rows of the test, the same rows decoded again, decoded noise.

Of the first seed of every run, on one grey scale a run. Rows are decoded from their posterior means, noise is drawn
from N(0, I).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from potluck.report.canvas import INK, PALE, figure, plain
from potluck.report.read import Run
from potluck.report.records import Floats

STRIPS = {"original": "test rows", "reconstruction": "reconstructed", "sample": "samples"}
MOST_RUNS = 6
GAP = 2


def pictures(runs: Sequence[Run]) -> Figure | None:
    """Draw three strips of images for every run that wrote them down."""
    shown = [(run.label, found) for run in runs if run.seeds and (found := images(run, run.seeds[0]))]
    if not shown:
        return None
    shown = shown[:MOST_RUNS]
    canvas = figure(7.6, 0.2 + 2.35 * len(shown))
    panels = np.atleast_1d(np.asarray(canvas.subplots(len(shown), 1)))
    for (label, found), area in zip(shown, panels, strict=True):
        title = "Reconstructions and samples" + (f": {plain(label)}" if len(shown) > 1 else "")
        area.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=10)
        _panel(area, found)
    return canvas


def images(run: Run, seed: int) -> Mapping[str, Floats]:
    """Return the strips that a run wrote down, each images x height x width x channels with levels 0 to 1."""
    records = run.records
    there = {
        records.what.names[records.what.codes[place]].removeprefix("picture/"): values
        for place, values in records.lists.items()
        if records.seed[place] == seed
        and records.what.names[records.what.codes[place]].startswith("picture/")
    }
    if "shape" not in there:
        return {}
    shape = tuple(int(size) for size in there["shape"])
    strips = {name: there[name].reshape(shape) for name in STRIPS if name in there}
    return {name: np.moveaxis(strip, 1, -1) / 255 for name, strip in strips.items()}


def montage(strips: Sequence[Floats]) -> Floats:
    """Return one picture: a strip of images below the other, white between them."""
    count, height, width, channels = strips[0].shape
    size = (len(strips) * (height + GAP) - GAP, count * (width + GAP) - GAP, channels)
    out = np.ones(size)
    for row, strip in enumerate(strips):
        for column, image in enumerate(strip):
            top, left = row * (height + GAP), column * (width + GAP)
            out[top : top + height, left : left + width] = image
    return out[..., 0] if channels == 1 else out


def _panel(area: Axes, found: Mapping[str, Floats]) -> None:
    height = next(iter(found.values())).shape[1]
    area.imshow(montage(list(found.values())), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    area.set_xticks([])
    middles = [row * (height + GAP) + (height - 1) / 2 for row in range(len(found))]
    area.set_yticks(middles, [STRIPS[name] for name in found])
    area.tick_params(colors=PALE, labelsize=9, length=0, pad=5)
    for side in area.spines.values():
        side.set_visible(False)
