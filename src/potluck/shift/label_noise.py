"""Label noise: a share of a client's labels is replaced by another class drawn evenly (symmetric noise)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.shift.members import Chosen, Share, touched
from potluck.table import Table


@dataclass(frozen=True, kw_only=True)
class LabelNoise:
    """Replace each label with probability `rate` by another class, for the last `share` of the clients."""

    rate: Annotated[float, Field(ge=0, le=1)] = 0.2
    classes: Annotated[int, Field(ge=2)] = 10
    share: Share = 1.0
    only: Chosen = ()

    def __call__(self, table: Table, client: int, clients: int, key: Key) -> Table:
        """Return the table with y -> (y + 1..C-1) mod C on the drawn rows."""
        if not touched(client, clients, self.share, self.only):
            return table
        if table.y.is_floating_point():
            raise BadInputError("shifts.label_noise: regression targets have no classes to exchange")
        draw = key.numpy()
        hit = draw.random(len(table)) < self.rate
        step = np.where(hit, draw.integers(1, self.classes, size=len(table)), 0)
        return Table(table.x, (table.y + torch.from_numpy(step)) % self.classes)
