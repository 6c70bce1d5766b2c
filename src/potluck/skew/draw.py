"""Pictures of skew: who holds which classes, how far from the whole, how many rows, how noisy.

Drawn on `matplotlib.figure.Figure` directly, without a backend or global state. Colours are Okabe and Ito's
(2008), which colour-blind readers can tell apart; shades are cividis. Text and axes are drawn in `INK`,
which a page replaces by its own text colour, so that the pictures read on light and on dark ground.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from potluck.federation import Federation
from potluck.skew.feature import Features, sample
from potluck.skew.measure import Floats, Skew

INK = "#20242a"
BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, RED = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#b8a600", "#56b4e9", "#d55e00",
)  # fmt: skip
GROUPS = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, RED)

BUBBLES = 160
BARS = 150
WIDE = 9.0
SHOWN_CLIENTS = 10
SHOWN_ROWS = 12
NEGLIGIBLE = 0.15
"""The scale of the noise reaches at least this share of the inputs' own deviation, so that traces look like traces."""


def figures(skew: Skew, federation: Federation | None = None) -> Mapping[str, Figure]:
    """Return every picture that the measures allow, by name."""
    out = {"classes": classes(skew), "divergence": divergence(skew), "sizes": sizes(skew)}
    if skew.features is not None:
        out["inputs"] = inputs(skew.features)
    if federation is not None and len(federation.shape) in (2, 3):
        out["samples"] = samples(federation)
    return out


def classes(skew: Skew) -> Figure:
    """Draw rows by client and class: bubbles whose area is the count, or shades where clients are many."""
    few, one = skew.counts.size <= BUBBLES, "tenth of the targets" if skew.real else "class"
    height = min(6.0, max(2.2, 0.9 + 0.26 * skew.classes))
    figure, axes = _canvas(height)
    if few:
        client, label = np.nonzero(skew.counts)
        count = skew.counts[client, label]
        cell = min(WIDE * 60 / skew.clients, height * 60 / skew.classes)
        area = np.maximum(count / count.max() * (0.95 * cell) ** 2, 6.0)
        axes.scatter(client, label, s=area, color=BLUE, alpha=0.85, linewidths=0)
        axes.set_ylim(skew.classes - 0.4, -0.6)
        axes.grid(color=INK, alpha=0.08)
        axes.set_title(
            f"rows by client and {one} (largest bubble: {int(count.max())})", loc="left", color=INK
        )
    else:
        shares = skew.counts / np.maximum(skew.rows, 1)[:, None]
        shades = axes.imshow(shares.T, aspect="auto", cmap="cividis", interpolation="nearest", vmin=0)
        bar = figure.colorbar(shades, ax=axes, pad=0.01)
        bar.ax.tick_params(colors=INK)
        bar.outline.set_visible(False)
        axes.set_title(f"share of each {one} within each client", loc="left", color=INK)
    if skew.class_names and skew.classes <= 20:
        axes.set_yticks(range(skew.classes), skew.class_names)
    axes.set_ylabel("target" if skew.real else "class", color=INK)
    _client_axis(axes, skew.clients)
    return figure


def divergence(skew: Skew) -> Figure:
    """Draw KL and Jensen-Shannon to the whole for every client, with the KL that chance alone gives."""
    figure, axes = _canvas(2.7)
    if skew.clients <= BARS:
        place = np.arange(skew.clients)
        axes.bar(place - 0.2, skew.kl, 0.4, color=BLUE, label="KL")
        axes.bar(place + 0.2, skew.js, 0.4, color=ORANGE, label="Jensen-Shannon")
        axes.plot(place, skew.floor, "_", color=RED, markersize=5, markeredgewidth=1.6, label="KL by chance")
        _client_axis(axes, skew.clients)
    else:
        for values, colour, name in ((skew.kl, BLUE, "KL"), (skew.js, ORANGE, "Jensen-Shannon")):
            _sorted(axes, values, colour, name)
        axes.axhline(skew.mean_floor, color=RED, linewidth=1.4, label="KL by chance, mean")
    axes.set_ylim(0, max(0.02, 1.08 * float(np.nanmax([skew.kl, skew.js]))))
    axes.set_ylabel("nats", color=INK)
    axes.set_title(
        f"distance of a client's {'targets' if skew.real else 'classes'} from all rows together",
        loc="left",
        color=INK,
    )
    _legend(axes)
    return figure


def sizes(skew: Skew) -> Figure:
    """Draw rows by client with their mean."""
    figure, axes = _canvas(2.5)
    if skew.clients <= BARS:
        axes.bar(np.arange(skew.clients), skew.rows, 0.75, color=GREEN)
        _client_axis(axes, skew.clients)
    else:
        _sorted(axes, skew.rows.astype(np.float64), GREEN, "rows")
    axes.axhline(float(skew.rows.mean()), color=RED, linewidth=1.2, label=f"mean {skew.rows.mean():.0f}")
    axes.set_ylim(0, 1.08 * float(skew.rows.max()))
    axes.set_ylabel("rows", color=INK)
    axes.set_title(f"size of the clients (CV {skew.size_cv:.2f})", loc="left", color=INK)
    _legend(axes)
    return figure


def inputs(measured: Features) -> Figure:
    """Draw noise and shift of the inputs by client; colours are the groups that were found."""
    figure = Figure(figsize=(WIDE, 3.9), layout="constrained", facecolor="none")
    upper, lower = figure.subplots(2, 1, sharex=True)
    grouped = measured.groups.any()
    colours = [GROUPS[(int(group) - 1) % len(GROUPS)] if group else "#8a8f98" for group in measured.groups]
    title = "noise of the inputs (standard deviation)"
    for axes, values, least, name in (
        (upper, measured.noise, NEGLIGIBLE * measured.spread, title),
        (
            lower,
            np.maximum(measured.shift, 0),
            0.05,
            "shift of the class means (in variances within a class)",
        ),
    ):
        _plain(axes)
        if len(values) <= BARS:
            axes.bar(np.arange(len(values)), values, 0.75, color=colours if grouped else BLUE)
        else:
            _sorted(axes, values, BLUE, name)
        axes.set_ylim(0, max(1.1 * float(np.nanmax(values)), least))
        axes.set_title(name, loc="left", color=INK)
    if len(measured.noise) <= BARS:
        _client_axis(lower, len(measured.noise))
    if grouped:
        for group in np.unique(measured.groups[measured.groups > 0]):
            upper.bar([0], [0], color=GROUPS[(int(group) - 1) % len(GROUPS)], label=f"group {group}")
        _legend(upper)
    return figure


def samples(federation: Federation) -> Figure:
    """Draw the first images of up to ten clients, evenly chosen, a line a client."""
    chosen = np.unique(np.linspace(0, len(federation) - 1, min(SHOWN_CLIENTS, len(federation))).astype(int))
    tables = [sample(federation.holders[client], SHOWN_ROWS) for client in chosen]
    pixels = [_viewable(np.asarray(table.x.numpy(), dtype=np.float64)) for table in tables]
    filled = [part.ravel() for part in pixels if part.size]
    low, high = np.percentile(np.concatenate(filled), [0.5, 99.5]) if filled else (0.0, 1.0)
    tall, wide = federation.shape[-2] + 2, federation.shape[-1] + 2
    board = np.zeros((tall * len(chosen), wide * SHOWN_ROWS, 4))
    for line, part in enumerate(pixels):
        for place, picture in enumerate(np.clip((part - low) / max(high - low, 1e-9), 0, 1)):
            spot = board[line * tall + 1 : (line + 1) * tall - 1, place * wide + 1 : (place + 1) * wide - 1]
            spot[..., :3], spot[..., 3] = picture, 1.0
    figure, axes = _canvas(0.5 + WIDE * 0.85 * board.shape[0] / board.shape[1])
    axes.imshow(board, interpolation="none")
    axes.set_yticks(tall * (np.arange(len(chosen)) + 0.5), [str(client) for client in chosen])
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_ylabel("client", color=INK)
    axes.set_title("what the inputs look like, client by client", loc="left", color=INK)
    return figure


def _viewable(pictures: Floats) -> Floats:
    """Return images as rows x height x width x 3 colours; other numbers of channels are averaged to grey."""
    if pictures.ndim == 3:
        pictures = pictures[:, None]
    if pictures.shape[1] != 3:
        pictures = np.repeat(pictures.mean(axis=1, keepdims=True), 3, axis=1)
    return pictures.transpose(0, 2, 3, 1)


def _canvas(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDE, height), layout="constrained", facecolor="none")
    axes = figure.subplots()
    _plain(axes)
    return figure, axes


def _plain(axes: Axes) -> None:
    """Leave of the frame what carries a scale, in ink."""
    axes.set_facecolor("none")
    axes.tick_params(colors=INK, length=3)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
        spine.set_alpha(0.4)


def _client_axis(axes: Axes, clients: int) -> None:
    axes.set_xlim(-0.6, clients - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=20, integer=True, min_n_ticks=1))
    axes.set_xlabel("client", color=INK)


def _sorted(axes: Axes, values: Floats, colour: str, name: str) -> None:
    """Draw a curve of sorted values where bars would be too many."""
    ordered = np.sort(values[np.isfinite(values)])
    axes.fill_between(np.arange(len(ordered)), ordered, color=colour, alpha=0.35, linewidth=0)
    axes.plot(np.arange(len(ordered)), ordered, color=colour, label=name)
    axes.set_xlabel("clients, sorted", color=INK)


def _legend(axes: Axes) -> None:
    axes.legend(
        frameon=False, labelcolor=INK, loc="upper right", ncols=4, bbox_to_anchor=(1, 1.18), fontsize=9
    )
