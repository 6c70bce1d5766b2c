"""Fashion-MNIST, articles of clothing (Xiao, Rasul and Vollgraf, arXiv 1708.07747, 2017): four IDX files."""

from __future__ import annotations

from potluck.data.checksums import differing, digests, notes_on
from potluck.data.dataset import Dataset
from potluck.data.mnist import FILES, read_four
from potluck.data.normalise import Normalise, Scale, scale
from potluck.data.places import Places

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
SCALE = Scale((0.2860,), (0.3530,))


def fashion_mnist(places: Places, normalise: Normalise = "unit") -> Dataset:
    """Load Fashion-MNIST: 60,000 training and 10,000 test images, 1x28x28, 10 classes.

    `normalise`: "unit" is [0, 1], "standard" takes (0.2860, 0.3530), "half" (0.5, 0.5).
    """
    found = places.find("fashion-mnist", FILES)
    four = read_four(found)
    sums = digests(found)
    return Dataset(
        name="fashion-mnist",
        **four._asdict(),
        **scale(normalise, four.x, SCALE)._asdict(),
        classes=10,
        class_names=CLASSES,
        checksums=sums,
        notes=notes_on("fashion-mnist", differing("fashion-mnist", sums)),
    )
