"""What FedEx's paper prints (Miles et al., University of Michigan, 2024, tables 1 and 2), read as the page reads it.

Losses are cross-entropies of softmax outputs: floor ln(e + 9) - 1, and 1 - accuracy above it for a sure model. In the
block of four clusters of table 1, one accuracy (52.91 %, printed twice) contradicts its own loss, cluster 0 is "N/A",
and the total of 9.01 % is chance: a failed run, not a target. Two rows of table 2 are labelled "3 Clusters" in the
block of four.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

FLOOR = math.log(math.e + 9) - 1
Row = tuple[float | None, float | None]


class Published(NamedTuple):
    """One table: accuracy (%) and loss of FedAvg and of each cluster, and the total, by number of clusters."""

    fedavg: Row
    experts: Mapping[int, tuple[Row, ...]]
    total: Mapping[int, float]

    def expert(self, many: int, place: int) -> Row:
        """Return one cluster's row, nothing where the paper has none."""
        rows = self.experts.get(many, ())
        return rows[place] if place < len(rows) else (None, None)


PUBLISHED: Mapping[str, Published] = {
    "sc10": Published(
        (97.43, 1.48),
        {
            3: ((71.31, 1.77), (72.11, 1.75), (74.78, 1.72)),
            4: ((None, None), (52.91, 1.93), (52.91, 1.82), (64.12, 1.82)),
        },
        {3: 77.98, 4: 9.01},
    ),
    "sc11": Published(
        (84.72, None),
        {
            3: ((76.33, None), (40.04, None), (52.11, None)),
            4: ((54.52, None), (48.57, None), (45.82, None), (40.17, None)),
        },
        {3: 80.20, 4: 63.88},
    ),
}
