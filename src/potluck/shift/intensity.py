"""Feature skew by intensity: every client's device (scanner, camera) scales and offsets what it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from potluck.key import Key
from potluck.table import Table


@dataclass(frozen=True, kw_only=True)
class Intensity:
    """Replace x by s x + o, with s ~ U(1 - contrast, 1 + contrast) and o ~ U(-bright, bright)."""

    contrast: Annotated[float, Field(ge=0, lt=1)] = 0.5
    bright: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.2

    def __call__(self, table: Table, client: int, clients: int, key: Key) -> Table:
        """Return the table as this client's device shows it: one scale and one offset a client."""
        draw = key.numpy()
        scale = float(draw.uniform(1 - self.contrast, 1 + self.contrast))
        return Table(table.x * scale + float(draw.uniform(-self.bright, self.bright)), table.y)
