"""The facts of one round, gathered while it is played: what the records are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from potluck.core import Merged, Value
from potluck.tree import leaf_bytes, leaves


class Fact(NamedTuple):
    """One row of the records: in which stage and round, about whom, what, and how much."""

    stage: str
    round: int
    who: str
    what: str
    value: Value


@dataclass
class Tape:
    """The facts of one round while it is played."""

    stage: str
    round: int
    facts: list[Fact] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def note(self, who: str, what: str, value: Value) -> None:
        """Write down one fact."""
        self.facts.append(Fact(self.stage, self.round, who, what, value))

    def add(self, what: str, value: float) -> None:
        """Add to a sum over the round."""
        self.sums[what] = self.sums.get(what, 0) + value

    def count(self, way: str, tree: Any, links: int) -> None:
        """Add the bytes of a tree that crosses some links, all and by the name of its first branch."""
        for path, leaf in leaves(tree):
            size = leaf_bytes(leaf) * links
            self.add(f"bytes/{way}", size)
            self.add(f"bytes/{way}/{path.partition('/')[0] or 'value'}", size)

    def total(self) -> list[Fact]:
        """Write down the sums and return all facts."""
        for what, value in sorted(self.sums.items()):
            self.note("server", what, value)
        return self.facts

    def merged(self, who: str, merged: Merged[Any]) -> None:
        """Write down what a merge says; entries named client/<id>/<what> are about that client."""
        prefix = f"{who}/" if who.startswith("site/") else ""
        for name, value in merged.log.items():
            head, _, what = name.removeprefix("client/").partition("/")
            if name.startswith("client/"):
                self.note(f"client/{head}", prefix + what, value)
            else:
                self.note(who, name, value)
        for client, reason in merged.notes.items():
            self.note(f"client/{client}", f"{prefix}reason", reason)
