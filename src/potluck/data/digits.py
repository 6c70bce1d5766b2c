"""Handwritten digits of 8x8 pixels (Alpaydin and Kaynak, UCI, 1998), as scikit-learn embeds them.

They have no official test split here, so a fixed fifth of every class is held out as one. Needs no files.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from potluck.data.dataset import Dataset, Rows
from potluck.data.normalise import Normalise, scale
from potluck.data.places import Places
from potluck.key import Key

SHARE = 0.2


def digits(places: Places, normalise: Normalise = "unit") -> Dataset:
    """Load scikit-learn's 1,797 digits, 1x8x8 in [0, 1], 10 classes; 20 % of every class is the test split.

    `normalise`: "unit" is [0, 1], "standard" the pool's own mean and deviation, "half" (0.5, 0.5).
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    x = (np.asarray(pixels, dtype=np.float32) / np.float32(16)).reshape(-1, 1, 8, 8)
    y = np.asarray(labels, dtype=np.int64)
    pool, test = hold_out(y, SHARE, Key.root(0) / "digits" / "test")
    return Dataset(
        name="digits",
        x=x[pool],
        y=y[pool],
        test_x=x[test],
        test_y=y[test],
        **scale(normalise, x[pool])._asdict(),
        classes=10,
        class_names=tuple("0123456789"),
        checksums={"digits": hashlib.sha256(x.tobytes() + y.astype("<i8").tobytes()).hexdigest()},
        notes=("digits: no official test split; a seeded fifth of every class is held out",),
    )


def hold_out(y: npt.NDArray[np.int64], share: float, key: Key) -> tuple[Rows, Rows]:
    """Split rows into a pool and a test part with `share` of every class (rounded), both in file order."""
    shuffled = key.numpy().permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    counts = np.bincount(y)
    rank = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    taken = rank < np.repeat(np.rint(share * counts), counts)
    return np.sort(by_class[~taken]), np.sort(by_class[taken])
