"""Read label histograms, clients down and classes across, from a CSV or JSON file.

CSV: one line a client; a first line of class names and a first column of client names are optional. JSON: a
list of lists, or a table of tables `{"client": {"class": count}}`, or `{"counts": [...], "classes":
[...]}`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from potluck.errors import BadInputError
from potluck.skew.measure import Skew, from_histogram

Lines = list[list[float]]


def read_histogram(file: Path) -> Skew:
    """Measure the histograms of a file; the suffix .json or .csv says which kind it is."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file}: cannot be read as text ({error.__class__.__name__})") from error
    counts, names = _from_json(file, text) if file.suffix.lower() == ".json" else _from_csv(file, text)
    if not counts:
        raise BadInputError(f"{file}: holds no counts")
    wide = len(counts[0])
    for line, values in enumerate(counts):
        if len(values) != wide:
            raise BadInputError(f"{file}: client {line} has {len(values)} classes, but client 0 has {wide}")
    try:
        return from_histogram(counts, file.stem, names if len(names) == wide else ())
    except BadInputError as error:
        raise BadInputError(f"{file}: {error}") from error


def _from_csv(file: Path, text: str) -> tuple[Lines, tuple[str, ...]]:
    lines = [line for line in csv.reader(text.splitlines()) if any(cell.strip() for cell in line)]
    corner = bool(lines) and lines[0][0].strip().lower() in ("", "client", "clients")
    header = corner or (bool(lines) and not all(_is_number(cell) for cell in lines[0][1:] or lines[0]))
    body = lines[1:] if header else lines
    named = bool(body) and (corner or not all(_is_number(line[0]) for line in body))
    first = 1 if named else 0
    counts = [[_number(file, number, cell) for cell in line[first:]] for number, line in enumerate(body)]
    return counts, tuple(cell.strip() for cell in lines[0][first:]) if header else ()


def _from_json(file: Path, text: str) -> tuple[Lines, tuple[str, ...]]:
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInputError(f"{file}: is not valid JSON: {error}") from error
    names: tuple[str, ...] = ()
    if isinstance(found, Mapping) and "counts" in found:
        listed = found.get("classes", ())
        names = tuple(str(name) for name in listed) if isinstance(listed, Sequence) else ()
        found = found["counts"]
    if isinstance(found, Mapping):
        tables = list(found.values())
        if not all(isinstance(table, Mapping) for table in tables):
            raise BadInputError(f'{file}: give {{"client": {{"class": count}}}} or a list of lists')
        names = tuple(dict.fromkeys(str(name) for table in tables for name in table))
        found = [[table.get(name, 0) for name in names] for table in tables]
    if not isinstance(found, list) or not all(isinstance(line, list) for line in found):
        raise BadInputError(f'{file}: give {{"client": {{"class": count}}}} or a list of lists')
    return [[_number(file, number, cell) for cell in line] for number, line in enumerate(found)], names


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(file: Path, client: int, cell: object) -> float:
    if isinstance(cell, str | int | float) and not isinstance(cell, bool) and _is_number(str(cell)):
        return float(cell)
    raise BadInputError(f"{file}: client {client}: {cell!r} is not a count")
