"""The colours of methods, safe for colour-blind readers (after Okabe and Ito, 2008), light and dark.

The light set is darkened where the original is too pale on white, the dark set is lightened.
"""

from __future__ import annotations

from typing import NamedTuple

LIGHT = ("#0067a5", "#cc4e00", "#00805c", "#a8417f", "#9a6a00", "#3f8fc4", "#5b5b66", "#7a4fd0")
DARK = ("#58b4f5", "#ff8f52", "#3fd0a4", "#f09ccb", "#f0c04a", "#a5d8ff", "#c3c3cc", "#b99cff")
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 3), (9, 3, 2, 3))
MARKERS = "osD^vPX*"


class Pen(NamedTuple):
    """How one method is drawn; beyond eight the colours come again with another dash, and with hollow markers."""

    colour: str
    dash: tuple[int, ...]
    marker: str
    filled: bool


def pen(place: int) -> Pen:
    """Return the pen of the method at a place of the comparison."""
    turn = place // len(LIGHT)
    return Pen(
        LIGHT[place % len(LIGHT)], DASHES[turn % len(DASHES)], MARKERS[place % len(MARKERS)], turn % 2 == 0
    )
