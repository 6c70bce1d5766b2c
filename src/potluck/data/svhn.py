"""SVHN, cropped house-number digits (Netzer et al., NIPS workshop 2011): two MATLAB files.

The files store the digit 0 as label 10; here it is class 0. Pixels are turned from (H, W, C, N) into
(N, C, H, W) once and cached as memory-mapped arrays.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from potluck.data.cache import Arrays, cached_arrays
from potluck.data.checksums import content, differing, digests
from potluck.data.dataset import Dataset, Four
from potluck.data.normalise import Normalise, Scale, scale
from potluck.data.places import Places
from potluck.errors import BadInputError

FILES = ("train_32x32.mat", "test_32x32.mat")
SCALE = Scale((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))


def svhn(places: Places, normalise: Normalise = "unit") -> Dataset:
    """Load SVHN's cropped digits: 73,257 training and 26,032 test images, 3x32x32, 10 classes.

    `normalise`: "unit" is [0, 1], "half" (0.5, 0.5), "standard" the pool's figures per channel,
    (0.4377, 0.4438, 0.4728) and (0.1980, 0.2010, 0.1970).
    """
    found = places.find("svhn", FILES)
    sums = digests(found)
    sources = [f"{file}={digest}" for file, digest in sorted(sums.items())]
    four = Four(**cached_arrays("svhn", sources, lambda: _read(found)))
    rebuilt = differing("svhn", sums)
    return Dataset(
        name="svhn",
        **four._asdict(),
        **scale(normalise, four.x, SCALE)._asdict(),
        classes=10,
        class_names=tuple("0123456789"),
        checksums=sums,
        notes=(f"SVHN, rebuilt: not the official bytes: {', '.join(rebuilt)}",) if rebuilt else (),
    )


def _read(found: Mapping[str, Path]) -> Arrays:
    (x, y), (test_x, test_y) = (read_mat(found[file]) for file in FILES)
    return {"x": x, "y": y, "test_x": test_x, "test_y": test_y}


def read_mat(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return images (N, 3, 32, 32) and labels 0 to 9 of one .mat file."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        with tempfile.TemporaryDirectory(prefix="potluck-") as folder:
            plain = path if path.suffix == ".mat" else Path(folder) / path.stem
            if plain != path:
                plain.write_bytes(content(path))
            stored = loadmat(plain)
    except (MatReadError, ValueError, TypeError, OSError, NotImplementedError) as error:
        raise BadInputError(f"{path}: not a readable MATLAB file ({error}); fetch it again") from error
    for key in ("X", "y"):
        if key not in stored:
            raise BadInputError(f"{path}: has no array {key!r}; use the file of cropped digits (format 2)")
    pixels, labels = np.asarray(stored["X"]), np.asarray(stored["y"]).ravel().astype(np.int64)
    if pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3) or pixels.shape[3] != len(labels):
        raise BadInputError(
            f"{path}: X has shape {pixels.shape} for {len(labels)} labels, not (32, 32, 3, N); fetch it again"
        )
    wrong = np.flatnonzero((labels < 0) | (labels > 10))
    if len(wrong):
        row = int(wrong[0])
        raise BadInputError(f"{path}: the label of row {row} is {labels[row]}, not 1 to 10; fetch it again")
    x = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1), dtype=np.uint8)
    return x, np.where(labels == 10, 0, labels)
