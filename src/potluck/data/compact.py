"""Reader of compact .npz files: one row an image, with labels and group columns beside it."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from potluck.data.dataset import check_labels
from potluck.errors import BadInputError


def read_arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    """Return all arrays of an .npz file; objects are refused."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise BadInputError(
            f"{file}: not a readable .npz of plain arrays ({error}); make it again"
        ) from error


def read_compact(
    file: Path, keys: Sequence[str], shape: tuple[int, int], classes: int
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file of byte images, checked: the keys, the shape, the labels, equal lengths."""
    stored = read_arrays(file)
    for key in keys:
        if key not in stored:
            raise BadInputError(f"{file}: has no array {key!r}; make the file again")
    images = stored["images"]
    if images.dtype != np.uint8 or images.shape[1:] != shape:
        raise BadInputError(
            f"{file}: images are {images.dtype} of shape {images.shape[1:]}, not bytes of {shape}"
        )
    for key in keys:
        if not key.endswith("_names") and len(stored[key]) != len(images):
            raise BadInputError(f"{file}: {len(images)} images but {len(stored[key])} entries in {key!r}")
    check_labels(str(file), stored["labels"], classes)
    return stored
