"""Your own tables: a folder with one .csv a client, or one .csv, perhaps with a column that names the client.

The first line names the columns; all but the label and the client are features. In a folder the file
`test.csv` is the test split. Rows are counted from 0 below the header.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from potluck.data.arrays import Array, from_arrays, natural
from potluck.data.checksums import sha256_of
from potluck.data.dataset import Dataset
from potluck.data.normalise import Normalise
from potluck.data.places import Places
from potluck.errors import BadInputError


class Sheet(NamedTuple):
    """One file: features, labels as text, the client of each row, and whether a column names it."""

    file: Path
    features: tuple[str, ...]
    x: Array
    labels: Array
    owners: Array
    named: bool


def csv_table(
    places: Places,
    path: str,
    label: str = "label",
    client: str | None = None,
    targets: Literal["classes", "numbers"] = "classes",
    classes: int | tuple[str, ...] | None = None,
    normalise: Normalise = "unit",
) -> Dataset:
    """Load your own tables of numbers from .csv files.

    `path`: a folder with one file a client (named for it), or one file. `label`: the column to predict.
    `client`: the column that names the client (default: the column "client", if there is one; one file
    only). `targets`: "classes" or "numbers" (regression). `classes`: their number (labels are 0 to N-1)
    or their names in order; by default the distinct labels in natural order. `normalise`: "standard"
    scales each column by the pool's mean and deviation, "unit" leaves the numbers alone.
    """
    root = places.resolve(path)
    sheets = _sheets(root, label, client)
    by_file = root.is_dir()
    test = sheets.pop("test", None) if by_file else None
    if not sheets:
        raise BadInputError(f"{root}: holds no .csv file of a client; put one there for each")
    pool = list(sheets.values())
    named = pool[0].owners if pool[0].named else None
    names = _class_names([*pool, *([test] if test else [])], classes) if targets == "classes" else ()
    values = [_targets(sheet, names, targets) for sheet in pool]
    return from_arrays(
        [sheet.x for sheet in pool] if by_file else pool[0].x,
        values if by_file else values[0],
        len(names) if targets == "classes" else None,
        list(sheets) if by_file else named,
        test=(test.x, _targets(test, names, targets)) if test else None,
        name=root.stem,
        class_names=names,
        normalise=normalise,
        checksums={sheet.file.name: sha256_of(sheet.file) for sheet in [*pool, *([test] if test else [])]},
    )


def _sheets(root: Path, label: str, client: str | None) -> dict[str, Sheet]:
    """Read one file, or all files of a folder by name; all need the same features in the same order."""
    if not root.is_dir():
        return {root.stem: _read(root, label, client or "client", client is None)}
    if client is not None:
        raise BadInputError(f"{root}: each file of a folder is a client; leave out `client`")
    files = sorted(root.glob("*.csv"), key=lambda file: natural(file.stem))
    sheets = {file.stem: _read(file, label, None, True) for file in files}
    for sheet in sheets.values():
        first = sheets[files[0].stem]
        if sheet.features != first.features:
            raise BadInputError(
                f"{sheet.file}: its features are {', '.join(sheet.features)}, but those of {first.file.name}"
                f" {', '.join(first.features)}; give all files the same columns in the same order"
            )
    return sheets


def _read(file: Path, label: str, client: str | None, optional: bool) -> Sheet:
    try:
        with file.open(newline="", encoding="utf-8-sig") as opened:
            lines = [line for line in csv.reader(opened) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"{file}: not a readable .csv file ({error}); save it as UTF-8 text") from error
    header = [column.strip() for column in lines[0]] if lines else []
    if label not in header:
        raise BadInputError(f"{file}: no label column {label!r} among {', '.join(header)}; set `label`")
    if client not in header and not optional:
        raise BadInputError(f"{file}: no column {client!r} among {', '.join(header)}; set `client`")
    uneven = next((row for row, line in enumerate(lines) if len(line) != len(header)), None)
    if uneven is not None:
        raise BadInputError(
            f"{file}: row {uneven - 1} has {len(lines[uneven])} cells where the header has {len(header)}"
        )
    table = np.array(lines[1:], dtype=np.str_).reshape(-1, len(header))
    table = np.char.strip(table)
    features = [at for at, column in enumerate(header) if column not in (label, client)]
    if not features:
        raise BadInputError(f"{file}: no column besides the label; add features")
    owners = np.repeat(np.asarray(file.stem), len(table))
    if client is not None and client in header:
        owners = table[:, header.index(client)]
    columns = tuple(header[at] for at in features)
    x = _numbers(file, table[:, features], columns, owners)
    return Sheet(file, columns, x, table[:, header.index(label)], owners, client in header)


def _numbers(file: Path, cells: Array, columns: tuple[str, ...], owners: Array) -> Array:
    """Turn text into numbers; the first cell that is none is named with row, column and client."""
    try:
        numbers = cells.astype(np.float64)
    except ValueError:
        numbers = np.array([[_number(cell) for cell in line] for line in cells])
    wrong = np.argwhere(~np.isfinite(numbers))
    if len(wrong):
        row, at = (int(position) for position in wrong[0])
        raise BadInputError(
            f"{file}: row {row} of client {str(owners[row])!r} has {str(cells[row, at])!r} in column"
            f" {columns[at]!r}, which is no finite number; clean or drop it"
        )
    return numbers


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _class_names(sheets: list[Sheet], classes: int | tuple[str, ...] | None) -> tuple[str, ...]:
    if isinstance(classes, tuple):
        return classes
    if classes is not None:
        return tuple(str(number) for number in range(classes))
    for sheet in sheets:
        row = next((row for row, label in enumerate(sheet.labels) if _number(label) % 1 > 0), None)
        if row is not None:
            raise BadInputError(
                f"{sheet.file}: the label of row {row} is {str(sheet.labels[row])!r}, a fraction;"
                ' regress on it with targets = "numbers", or name the classes with `classes`'
            )
    return tuple(sorted(set(np.concatenate([sheet.labels for sheet in sheets]).tolist()), key=natural))


def _targets(sheet: Sheet, names: tuple[str, ...], targets: str) -> Array:
    if targets == "numbers":
        return _numbers(sheet.file, sheet.labels[:, None], ("label",), sheet.owners)[:, 0]
    order = np.argsort(np.asarray(names, dtype=np.str_))
    known = np.asarray(names, dtype=np.str_)[order]
    at = np.minimum(np.searchsorted(known, sheet.labels), max(len(known) - 1, 0))
    wrong = np.flatnonzero(known[at] != sheet.labels) if len(known) else np.arange(len(sheet.labels))
    if len(wrong):
        row = int(wrong[0])
        raise BadInputError(
            f"{sheet.file}: the label of row {row} is {str(sheet.labels[row])!r}, none of the {len(names)}"
            f" classes {', '.join(names[:12])}"
        )
    return order[at].astype(np.int64) if len(known) else np.empty(0, np.int64)
