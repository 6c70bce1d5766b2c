"""MNIST, handwritten digits (LeCun, Bottou, Bengio and Haffner, Proc. IEEE 1998): four IDX files.

Writers come from the label files of QMNIST (Yadav and Bottou, NeurIPS 2019): column 2 is NIST's writer, in
the order of MNIST. Writers keep NIST's numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from potluck.data.checksums import differing, digests, notes_on
from potluck.data.dataset import Dataset, Four, Rows
from potluck.data.idx import read_idx, read_images, read_labels
from potluck.data.normalise import Normalise, Scale, scale
from potluck.data.places import Places
from potluck.errors import BadInputError

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
WRITERS = "qmnist-train-labels-idx2-int"
SCALE = Scale((0.1307,), (0.3081,))


def mnist(places: Places, normalise: Normalise = "unit", writers: bool = True) -> Dataset:
    """Load MNIST: 60,000 training and 10,000 test images, 1x28x28, 10 classes.

    `normalise`: "unit" is [0, 1], "standard" takes (0.1307, 0.3081), "half" (0.5, 0.5).
    `writers`: add the group column "writer" if QMNIST's label file lies beside the images.
    """
    found = places.find("mnist", FILES)
    beside = places.look("mnist", (*FILES, WRITERS)) if writers else None
    found = beside or found
    four = read_four(found)
    groups = {"writer": read_writers(beside[WRITERS], four.y)} if beside else {}
    sums = digests(found)
    return Dataset(
        name="mnist",
        **four._asdict(),
        **scale(normalise, four.x, SCALE)._asdict(),
        classes=10,
        class_names=tuple("0123456789"),
        groups=groups,
        checksums=sums,
        notes=notes_on("mnist", differing("mnist", sums)),
    )


def read_four(found: Mapping[str, Path]) -> Four:
    """Read the four files of MNIST or Fashion-MNIST."""
    images, labels, test_images, test_labels = (found[file] for file in FILES)
    return Four(read_images(images), read_labels(labels), read_images(test_images), read_labels(test_labels))


def read_writers(path: Path, y: npt.NDArray[np.int64]) -> Rows:
    """Return the writer of each training image; QMNIST's labels must be those of MNIST."""
    table = read_idx(path, 2).astype(np.int64)
    if len(table) != len(y) or table.shape[1] < 3 or not np.array_equal(table[:, 0], y):
        raise BadInputError(f"{path}: its labels are not those of MNIST's training images; fetch it again")
    return np.ascontiguousarray(table[:, 2])
