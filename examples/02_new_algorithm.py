"""A new algorithm in one file: weigh each client by how many classes it holds.

A weighing has a client half (`measure`: numbers that ride with the update) and a merge half (`raw`). It goes with any
objective and any server step, and the laws try it on every engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import potluck as pl
from potluck import laws
from potluck.core import Client
from potluck.roles import Told, Weigh
from potluck.tree import Params


@dataclass(frozen=True)
class ByClasses(Weigh):
    """Weigh a client by the number of classes among its rows, to the power `sharpness` (an example, 2026)."""

    sharpness: float = 1.0

    def measure(self, model: pl.Model, given: Params, trained: Params, client: Client) -> Mapping[str, float]:
        """Count the classes at the client; only this number leaves it."""
        return {"classes": float((client.train.counts(client.classes) > 0).sum())}

    def raw(self, told: Sequence[Told], past: Any, population: Sequence[int]) -> Sequence[float]:
        """Return the counts to the power; the aggregation contract normalises them."""
        return [answer.values["classes"] ** self.sharpness for answer in told]


def main() -> None:
    """Try the laws, then compare."""
    fit = pl.Fit(lr=0.1, batch=16)
    mine = pl.fedavg(rounds=4, fit=fit, weigh=ByClasses(sharpness=2.0))
    print(f"{len(laws.check(mine))} laws hold")
    result = pl.compare(
        data="digits",
        partition={"name": "dirichlet", "beta": 0.2, "clients": 8},
        algorithms={
            "by rows": pl.fedavg(rounds=10, fit=fit),
            "by classes": pl.fedavg(rounds=10, fit=fit, weigh=ByClasses()),
        },
    )
    result.show()


if __name__ == "__main__":
    main()
