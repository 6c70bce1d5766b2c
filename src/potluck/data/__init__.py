"""Data: the well-known sets, your own files, and arrays in memory. `DATASETS` is the table of loaders."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from potluck.data.adapters import from_hugging_face, from_torch
from potluck.data.arrays import from_arrays
from potluck.data.cifar10 import cifar10
from potluck.data.csv_table import csv_table
from potluck.data.dataset import Dataset
from potluck.data.digits import digits
from potluck.data.fashion_mnist import fashion_mnist
from potluck.data.femnist import femnist
from potluck.data.images import images
from potluck.data.mnist import mnist
from potluck.data.mnist_cifar import mnist_cifar
from potluck.data.npz import npz
from potluck.data.places import Places
from potluck.data.svhn import svhn
from potluck.data.synthetic import synthetic
from potluck.data.xray import xray

DATASETS: Mapping[str, Callable[..., Dataset]] = {
    "cifar10": cifar10,
    "csv": csv_table,
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "femnist": femnist,
    "images": images,
    "mnist": mnist,
    "mnist-cifar": mnist_cifar,
    "npz": npz,
    "svhn": svhn,
    "synthetic": synthetic,
    "xray": xray,
}

__all__ = ["DATASETS", "Dataset", "Places", "from_arrays", "from_hugging_face", "from_torch"]
