"""Partitions: who holds which rows. `PARTITIONS` is the table of names that a configuration may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from potluck.federation import Partition
from potluck.partition.blocks import Blocks
from potluck.partition.by_group import ByGroup
from potluck.partition.degenerate import Degenerate
from potluck.partition.dirichlet import Dirichlet
from potluck.partition.grouped import Group, Grouped
from potluck.partition.iid import Iid
from potluck.partition.niid1 import Niid1
from potluck.partition.niid2 import Niid2
from potluck.partition.quantity import Quantity
from potluck.partition.shards import Shards

PARTITIONS: Mapping[str, Callable[..., Partition]] = MappingProxyType(
    {
        "blocks": Blocks,
        "by_group": ByGroup,
        "degenerate": Degenerate,
        "dirichlet": Dirichlet,
        "grouped": Grouped,
        "iid": Iid,
        "natural": ByGroup,
        "niid1": Niid1,
        "niid2": Niid2,
        "quantity": Quantity,
        "shards": Shards,
    }
)

__all__ = [
    "PARTITIONS",
    "Blocks",
    "ByGroup",
    "Degenerate",
    "Dirichlet",
    "Group",
    "Grouped",
    "Iid",
    "Niid1",
    "Niid2",
    "Quantity",
    "Shards",
]
