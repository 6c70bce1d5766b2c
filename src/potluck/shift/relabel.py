"""Concept shift: some clients mean something else by a label, y -> (y + by) mod C (spec SC-16).

Inputs and label counts per client stay what they were up to the renaming; no single model can serve both
groups, which is what clustered methods (FedEx; IFCA, Ghosh et al., NeurIPS 2020) are made for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from potluck.errors import BadInputError
from potluck.key import Key
from potluck.shift.members import Chosen, Share, touched
from potluck.table import Table


@dataclass(frozen=True, kw_only=True)
class Relabel:
    """Rename the labels of a group of clients, y -> (y + by) mod classes; by default of the second half."""

    by: int = 5
    classes: Annotated[int, Field(ge=1)] = 10
    share: Share = 0.5
    only: Chosen = ()

    def __call__(self, table: Table, client: int, clients: int, key: Key) -> Table:
        """Return the table with renamed labels, or as it is."""
        if not touched(client, clients, self.share, self.only):
            return table
        if table.y.is_floating_point():
            raise BadInputError("shifts.relabel: regression targets have no classes to rename")
        if len(table) and int(table.y.max()) >= self.classes:
            raise BadInputError(
                f"shifts.relabel.classes: client {client} has label {int(table.y.max())}, but classes is "
                f"{self.classes}; set it to the number of classes"
            )
        return Table(table.x, (table.y + self.by) % self.classes)
