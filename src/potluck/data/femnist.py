"""FEMNIST, handwritten characters by writer (Cohen et al., EMNIST, 2017; Caldas et al., LEAF, 2018).

Read from LEAF's JSON folders or from the compact `femnist.npz` (images, labels, writer, is_test,
writer_names and, optionally, writer_truncated). Pixels keep LEAF's polarity: the background is 1.0, the
ink is dark. Labels are LEAF's: digits, capitals, small letters.
"""

from __future__ import annotations

import string
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from potluck.data.arrays import sha256
from potluck.data.cache import Arrays, cached_arrays, stamp
from potluck.data.checksums import md5_of_content
from potluck.data.compact import read_compact
from potluck.data.dataset import Dataset, Rows
from potluck.data.leaf import read_leaf
from potluck.data.normalise import Normalise, scale
from potluck.data.places import Places
from potluck.errors import BadInputError

COMPACT = "femnist.npz"
CLASSES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)
HOW = (
    "make the folders train/ and test/ with LEAF's scripts and put them into {name}/ of one of these folders"
)
POLARITY = "FEMNIST keeps LEAF's polarity: background 1.0"


def femnist(
    places: Places,
    normalise: Normalise = "unit",
    test: Literal["leaf", "none"] = "leaf",
    writers: Annotated[int, Field(ge=1)] | None = None,
) -> Dataset:
    """Load FEMNIST: 1x28x28, 62 classes, group column "writer".

    `test`: "leaf" makes LEAF's test rows the test split, "none" leaves them in the pool. `writers`: keep
    only so many writers, those with the most images that are known to be complete. `normalise`: "unit" is
    [0, 1], "standard" the pool's own mean and deviation, "half" (0.5, 0.5).
    """
    kept, checksums = _find(places)
    chosen = _largest(kept, writers)
    rows = np.flatnonzero(np.isin(kept["writer"], chosen))
    held = kept["is_test"][rows].astype(bool) & (test == "leaf")
    pool, tested = rows[~held], rows[held]
    number = np.zeros(len(kept["names"]), dtype=np.int64)
    number[chosen] = np.arange(len(chosen))
    x = kept["images"][pool][:, None]
    return Dataset(
        name="femnist",
        x=x,
        y=kept["labels"][pool].astype(np.int64),
        test_x=kept["images"][tested][:, None] if len(tested) else None,
        test_y=kept["labels"][tested].astype(np.int64) if len(tested) else None,
        **scale(normalise, x)._asdict(),
        classes=62,
        class_names=CLASSES,
        groups={"writer": number[kept["writer"][pool]]},
        group_names={"writer": tuple(str(name) for name in kept["names"][chosen])},
        checksums=checksums,
        notes=_notes(kept, chosen),
    )


def _find(places: Places) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays of the first form that lies somewhere, and their checksums."""
    folder = locate(places)
    if folder is None:
        raise places.missing("femnist", [COMPACT, "train/*.json", "test/*.json"], HOW)
    file = folder / COMPACT
    if file.is_file():
        return _compact(file), {COMPACT: md5_of_content(file)}
    files = sorted(folder.glob("train/*.json")), sorted(folder.glob("test/*.json"))
    sources = [stamp(file) for part in files for file in part]
    kept = cached_arrays("femnist", sources, partial(_leaf, *files))
    return kept, {"pixels": sha256(kept["images"], kept["labels"])}


def locate(places: Places) -> Path | None:
    """Return the folder that holds FEMNIST, in either form."""
    for folder in places.candidates("femnist"):
        if (folder / COMPACT).is_file() or any(folder.glob("train/*.json")):
            return folder
    return None


def _compact(file: Path) -> Arrays:
    stored = read_compact(file, ("images", "labels", "writer", "is_test", "writer_names"), (28, 28), 62)
    names = stored["writer_names"].astype(np.str_)
    if len(stored["writer"]) and stored["writer"].max() >= len(names):
        raise BadInputError(f"{file}: writer {stored['writer'].max()} has no name; make the file again")
    truncated = stored.get("writer_truncated", np.zeros(len(names), dtype=bool))
    return {**stored, "writer": stored["writer"].astype(np.int64), "names": names, "truncated": truncated}


def _leaf(train: list[Path], test: list[Path]) -> Arrays:
    """Bring LEAF's two folders into the form of the compact file."""
    pool, held = read_leaf(train), read_leaf(test)
    names, writer = np.unique(np.concatenate([pool.users, held.users]), return_inverse=True)
    return {
        "images": np.concatenate([pool.images, held.images]),
        "labels": np.concatenate([pool.labels, held.labels]),
        "writer": writer.reshape(-1).astype(np.int64),
        "is_test": np.repeat([False, True], [len(pool.labels), len(held.labels)]),
        "names": names,
        "truncated": np.zeros(len(names), dtype=bool),
    }


def _largest(kept: Arrays, writers: int | None) -> Rows:
    """Return the writers to keep, ascending: all, or the complete ones with the most images."""
    if writers is None:
        return np.arange(len(kept["names"]))
    complete = np.flatnonzero(~np.asarray(kept["truncated"], dtype=bool))
    if writers > len(complete):
        raise BadInputError(f"data.writers: {writers} asked for, but only {len(complete)} are complete")
    sizes = np.bincount(kept["writer"], minlength=len(kept["names"]))[complete]
    return np.sort(complete[np.argsort(-sizes, kind="stable")[:writers]])


def _notes(kept: Arrays, chosen: Rows) -> tuple[str, ...]:
    cut = int(np.asarray(kept["truncated"], dtype=bool)[chosen].sum())
    size = f"FEMNIST: {len(chosen)} of {len(kept['names'])} writers" + (
        f", {cut} of them incomplete" if cut else ""
    )
    return (POLARITY, size)
