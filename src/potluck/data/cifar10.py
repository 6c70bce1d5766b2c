"""CIFAR-10, small colour images (Krizhevsky, technical report, 2009): the six "python" batches.

The batches are read without unpickling (`batches.py`) and cached as memory-mapped arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from potluck.data.batches import Batch, read_batch
from potluck.data.cache import Arrays, cached_arrays
from potluck.data.checksums import differing, digests, notes_on
from potluck.data.dataset import Dataset, Four
from potluck.data.normalise import Normalise, Scale, scale
from potluck.data.places import Places

FOLDER = "cifar-10-batches-py"
TRAIN = tuple(f"{FOLDER}/data_batch_{number}" for number in range(1, 6))
TEST = f"{FOLDER}/test_batch"
FILES = (*TRAIN, TEST)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SCALE = Scale((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


def cifar10(places: Places, normalise: Normalise = "unit") -> Dataset:
    """Load CIFAR-10: 50,000 training and 10,000 test images, 3x32x32, 10 classes.

    `normalise`: "unit" is [0, 1], "half" (0.5, 0.5), "standard" the pool's figures per channel,
    (0.4914, 0.4822, 0.4465) and (0.2470, 0.2435, 0.2616). Images are neither cropped nor flipped.
    """
    found = places.find("cifar10", FILES)
    sums = digests(found)
    sources = [f"{file}={digest}" for file, digest in sorted(sums.items())]
    four = Four(**cached_arrays("cifar10", sources, lambda: _read(found)))
    return Dataset(
        name="cifar10",
        **four._asdict(),
        **scale(normalise, four.x, SCALE)._asdict(),
        classes=10,
        class_names=CLASSES,
        checksums=sums,
        notes=notes_on("cifar10", differing("cifar10", sums)),
    )


def _read(found: Mapping[str, Path]) -> Arrays:
    pool, test = _together([found[file] for file in TRAIN]), _together([found[TEST]])
    return {"x": pool.x, "y": pool.y, "test_x": test.x, "test_y": test.y}


def _together(paths: Sequence[Path]) -> Batch:
    batches = [read_batch(path) for path in paths]
    return Batch(np.concatenate([b.x for b in batches]), np.concatenate([b.y for b in batches]))
