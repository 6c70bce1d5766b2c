"""The rows of a run as columns: `seed, stage, round, who, what, value`, one numpy array each.

Text columns are stored as codes into a short list of names, in the order of first appearance, so that a
selection is a comparison of integers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from potluck.errors import BadInputError

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | float | int | bool | None"
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
FIELDS = ("seed", "stage", "round", "who", "what", "value")


@dataclass(frozen=True)
class Column:
    """A column of text: codes into names."""

    codes: Ints
    names: tuple[str, ...]

    def equals(self, name: str) -> Mask:
        """Return the rows that hold exactly this name."""
        code = self.names.index(name) if name in self.names else -1
        return np.asarray(self.codes == code)

    def ends(self, name: str) -> Mask:
        """Return the rows that hold this name, or a path that ends with it (site/3/weight)."""
        fits = np.array([one == name or one.endswith(f"/{name}") for one in self.names], dtype=bool)
        return fits[self.codes] if self.names else np.zeros(len(self.codes), dtype=bool)

    def starts(self, *prefixes: str) -> Mask:
        """Return the rows whose name starts with one of the prefixes."""
        fits = np.array([name.startswith(prefixes) for name in self.names], dtype=bool)
        return fits[self.codes] if self.names else np.zeros(len(self.codes), dtype=bool)


@dataclass(frozen=True)
class Records:
    """All rows of a run; `number` is NaN where the value is no number."""

    seed: Ints
    stage: Column
    round: Ints
    who: Column
    what: Column
    number: Floats
    texts: Mapping[int, str]
    lists: Mapping[int, Floats]

    def __len__(self) -> int:
        return len(self.seed)

    def rounds_of(self, stage: str) -> Ints:
        """Return the rounds of a stage's rows."""
        return self.round[self.stage.equals(stage)]

    def merging(self) -> Mask:
        """Return the rows that a server or a site of a mesh wrote."""
        return self.who.equals("server") | self.who.starts("site/", "server/", "hub")


def parse(text: str, source: Path) -> Records:
    """Return the columns of JSON lines; a cut-off last line is left out, another broken line is an error."""
    lines = text.split("\n")
    tail = lines.pop()
    rows = _decode(lines, source)
    if tail.strip():
        rows = [*rows, *_unfinished(tail)]
    try:
        columns = {field: [row[field] for row in rows] for field in FIELDS}
    except (KeyError, TypeError):
        raise _first_fault(rows, lines, source) from None
    values = columns["value"]
    return Records(
        seed=_integers(columns["seed"], rows, lines, source),
        stage=_coded(columns["stage"], rows, lines, source),
        round=_integers(columns["round"], rows, lines, source),
        who=_coded(columns["who"], rows, lines, source),
        what=_coded(columns["what"], rows, lines, source),
        number=np.array([value if _numeric(value) else np.nan for value in values], dtype=np.float64),
        texts={place: value for place, value in enumerate(values) if isinstance(value, str)},
        lists={place: _vector(value) for place, value in enumerate(values) if isinstance(value, list)},
    )


def _decode(lines: Sequence[str], source: Path) -> list[dict[str, JSON]]:
    """Parse all lines in one call, which is several times faster than one call a line."""
    full = [line for line in lines if line.strip()]
    try:
        rows: list[dict[str, JSON]] = json.loads("[" + ",".join(full) + "]")
    except json.JSONDecodeError:
        raise _broken_line(lines, source) from None
    if len(rows) != len(full):
        raise _broken_line(lines, source)
    return rows


def _unfinished(tail: str) -> list[dict[str, JSON]]:
    try:
        row = json.loads(tail)
    except json.JSONDecodeError:
        return []
    return [row]


def _broken_line(lines: Sequence[str], source: Path) -> BadInputError:
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip():
                json.loads(line)
        except json.JSONDecodeError as error:
            return BadInputError(
                f"{source}, line {number}: not a JSON row ({error.msg}); the file is damaged"
            )
    return BadInputError(f"{source}: the lines are not one JSON row each; the file is damaged")


def _first_fault(rows: Sequence[JSON], lines: Sequence[str], source: Path) -> BadInputError:
    """Find the first row that is not a complete row of records."""
    numbers = [number for number, line in enumerate(lines, start=1) if line.strip()] + [len(lines) + 1]
    for number, row in zip(numbers, rows, strict=False):
        if not isinstance(row, dict):
            return BadInputError(f"{source}, line {number}: not a JSON object; the file is damaged")
        missing = [field for field in FIELDS if field not in row]
        if missing:
            return BadInputError(
                f"{source}, line {number}: the row lacks {', '.join(missing)}; the file is damaged"
            )
        wrong = [field for field in ("seed", "round") if type(row[field]) is not int]
        wrong += [field for field in ("stage", "who", "what") if not isinstance(row[field], str)]
        if wrong:
            return BadInputError(
                f"{source}, line {number}: {wrong[0]} has the wrong type; the file is damaged"
            )
    return BadInputError(f"{source}: a row is not as expected; the file is damaged")


def _integers(values: Sequence[JSON], rows: Sequence[JSON], lines: Sequence[str], source: Path) -> Ints:
    if set(map(type, values)) - {int}:
        raise _first_fault(rows, lines, source)
    return np.array(values, dtype=np.int64)


def _coded(values: Sequence[JSON], rows: Sequence[JSON], lines: Sequence[str], source: Path) -> Column:
    if set(map(type, values)) - {str}:
        raise _first_fault(rows, lines, source)
    table: dict[str, int] = {}
    codes = np.array([table.setdefault(str(value), len(table)) for value in values], dtype=np.int64)
    return Column(codes, tuple(table))


def _numeric(value: JSON) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _vector(values: Sequence[JSON]) -> Floats:
    return np.array([value if _numeric(value) else np.nan for value in values], dtype=np.float64)
