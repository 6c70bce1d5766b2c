"""MNIST with CIFAR-10 as noise, the pool of FedEx's noise experiment (spec SC-11 and A-3.12).

10,000 images of CIFAR-10, equally many of each class, are turned into 1x28x28: luminance by ITU-R BT.601
(0.299, 0.587, 0.114 in 16-bit fixed point, as Pillow has it), then the mean over areas (32 to 28 pixels)
or the central 28x28 pixels. All of it is whole-number arithmetic, so it is the same everywhere. The paper
says neither which images nor how; these are our choices.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from potluck.data.cifar10 import cifar10
from potluck.data.dataset import Dataset, Rows
from potluck.data.mnist import mnist
from potluck.data.normalise import Normalise, scale
from potluck.data.places import Places
from potluck.errors import BadInputError
from potluck.key import Key

Pixels = npt.NDArray[np.uint8]
POOL = 10_000
MIXTURE = 1_667  # as 10,000 are to 60,000: CIFAR's share of the mixed test
BLOCK = 2_000


def mnist_cifar(
    places: Places,
    normalise: Normalise = "unit",
    fit: Literal["resize", "crop"] = "resize",
    cifar_source: Literal["train", "test"] = "train",
) -> Dataset:
    """Load MNIST's training images and 10,000 grey CIFAR-10 images; group column "source" (0 mnist, 1 cifar).

    Tests: "global" (10,000 MNIST and 1,667 CIFAR images), "mnist" and "cifar" (10,000 each).
    `fit`: how 32x32 becomes 28x28. `cifar_source`: the split that the 10,000 are drawn from; the CIFAR test
    images come from the other. `normalise`: "standard" takes the pool's own mean and deviation.
    """
    digits, colour = mnist(places, writers=False), cifar10(places)
    if digits.test_x is None or digits.test_y is None or colour.test_x is None or colour.test_y is None:
        raise BadInputError("data 'mnist-cifar': needs the test splits of both sets")
    train, test = (colour.x, colour.y), (colour.test_x, colour.test_y)
    (pool_x, pool_y), (rest_x, rest_y) = (train, test) if cifar_source == "train" else (test, train)
    key = Key.root(0) / "mnist-cifar"
    drawn, shown = balanced(pool_y, POOL, key / "pool"), balanced(rest_y, POOL, key / "test")
    grey, grey_test = as_mnist(pool_x, drawn, fit), as_mnist(rest_x, shown, fit)
    mixed = balanced(rest_y[shown], MIXTURE, key / "mixture")
    x = np.concatenate([digits.x, grey])
    return Dataset(
        name="mnist-cifar",
        x=x,
        y=np.concatenate([digits.y, pool_y[drawn]]),
        test_x=np.concatenate([digits.test_x, grey_test[mixed]]),
        test_y=np.concatenate([digits.test_y, rest_y[shown][mixed]]),
        more_tests={"mnist": (digits.test_x, digits.test_y), "cifar": (grey_test, rest_y[shown])},
        **scale(normalise, x)._asdict(),
        classes=10,
        class_names=tuple(f"{a} or {b}" for a, b in zip(digits.class_names, colour.class_names, strict=True)),
        groups={"source": np.repeat(np.array([0, 1]), [len(digits.y), len(drawn)])},
        group_names={"source": ("mnist", "cifar")},
        checksums={**digits.checksums, **colour.checksums},
        notes=(*digits.notes, *colour.notes, f"CIFAR-10 as 1x28x28: luminance, {fit}, from {cifar_source}"),
    )


def balanced(y: npt.NDArray[Any], rows: int, key: Key) -> Rows:
    """Draw rows without replacement, equally many of each class, in order.

    The remainder goes to the first classes; a class with too few rows gives all that it has.
    """
    counts = np.bincount(y, minlength=1)
    shuffled = key.numpy().permutation(len(y))
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    rank = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    quota = rows // len(counts) + (np.arange(len(counts)) < rows % len(counts))
    return np.sort(by_class[rank < np.repeat(quota, counts)])


def as_mnist(x: npt.NDArray[Any], rows: Rows, fit: Literal["resize", "crop"]) -> Pixels:
    """Turn the named colour images (3, 32, 32) into grey ones (1, 28, 28)."""
    out = np.empty((len(rows), 1, 28, 28), dtype=np.uint8)
    for start in range(0, len(rows), BLOCK):
        part = luminance(x[rows[start : start + BLOCK]])
        out[start : start + BLOCK, 0] = part[:, 2:30, 2:30] if fit == "crop" else shrink(part)
    return out


def luminance(x: Pixels) -> Pixels:
    """Return 0.299 R + 0.587 G + 0.114 B, rounded, of images (N, 3, H, W)."""
    red, green, blue = (x[:, channel].astype(np.uint32) for channel in range(3))
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16).astype(np.uint8)


def shrink(x: Pixels) -> Pixels:
    """Return the mean over areas of images (N, 32, 32) as (N, 28, 28), halves rounded up.

    An output pixel covers 8/7 input pixels a side, so that every weight is a whole number of 64ths.
    """
    edges, starts = np.arange(29) * 8, np.arange(32) * 7
    low = np.maximum(edges[:-1, None], starts[None])
    high = np.minimum(edges[1:, None], starts[None] + 7)
    weights = np.maximum(high - low, 0).astype(np.float32)
    # all sums stay below 2**24, so float32 is exact
    sums: npt.NDArray[np.float32] = weights @ x.astype(np.float32) @ weights.T
    return ((sums.astype(np.int64) + 32) >> 6).astype(np.uint8)
