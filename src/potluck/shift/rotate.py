"""Feature skew by rotation: groups of clients see quarter-turned images (IFCA, Ghosh et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.table import Table


@dataclass(frozen=True, kw_only=True)
class Rotate:
    """Turn the images of client k by (k mod `turns`) quarter turns: as many populations as `turns`."""

    turns: Annotated[int, Field(ge=2, le=4)] = 4

    def __call__(self, table: Table, client: int, clients: int, key: Key) -> Table:
        """Return the turned table; rows and labels keep their order."""
        if table.x.ndim < 3:
            raise BadInputError("shifts.rotate: only images can be turned, and these inputs are not")
        if table.x.shape[-1] != table.x.shape[-2]:
            raise BadInputError("shifts.rotate: only square images can be turned by a quarter")
        turns = client % self.turns
        return Table(torch.rot90(table.x, turns, (-2, -1)).contiguous(), table.y) if turns else table
