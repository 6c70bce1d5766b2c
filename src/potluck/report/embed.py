"""Figures as pictures inside the page."""

from __future__ import annotations

import base64
import io

from matplotlib.figure import Figure

from potluck.report.markup import text


def embedded(drawn: Figure, words: str) -> str:
    """Return a figure as markup; `words` say what it shows to who cannot see it."""
    held = io.BytesIO()
    drawn.savefig(held, format="png", dpi=110, metadata={"Software": "potluck"})
    picture = base64.b64encode(held.getvalue()).decode()
    return f'<img src="data:image/png;base64,{picture}" alt="{text(words)}" style="max-width: 100%">'
