"""Figures to bytes: PNG on white, and SVG whose ink follows the reader's light or dark ground."""

from __future__ import annotations

import io

from matplotlib import rc_context
from matplotlib.figure import Figure

from potluck.skew.draw import INK

STYLE = "<style>svg{color:#20242a}@media(prefers-color-scheme:dark){svg{color:#e4e6ea}}</style>"


def svg(figure: Figure, name: str = "potluck") -> str:
    """Return a figure as an SVG element without a header, the same text for the same figure."""
    out = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = out.getvalue()
    body = text[text.index("<svg") :].replace(INK, "currentColor")
    body = body.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)
    return body.replace("'DejaVu Sans'", "system-ui").replace("#ffffff", "none")


def svg_file(figure: Figure, name: str = "potluck") -> str:
    """Return a figure as a file of its own, which chooses its ink by the reader's colour scheme."""
    body = svg(figure, name)
    cut = body.index(">") + 1
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body[:cut]}{STYLE}{body[cut:]}'


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG on white."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, facecolor="white", metadata={"Software": None})
    return out.getvalue()
