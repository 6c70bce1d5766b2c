"""The real sets, as documented. They lie under $POTLUCK_DATA."""

from __future__ import annotations

import time

import numpy as np
import pytest

from potluck.data import DATASETS, Dataset, Places
from potluck.data.checksums import OFFICIAL

pytestmark = pytest.mark.realdata
COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def sizes(data: Dataset) -> tuple[int, int]:
    return len(data.y), 0 if data.test_y is None else len(data.test_y)


@pytest.mark.parametrize(
    ("name", "wanted", "shape"),
    [
        ("mnist", (60_000, 10_000), (1, 28, 28)),
        ("fashion-mnist", (60_000, 10_000), (1, 28, 28)),
        ("cifar10", (50_000, 10_000), (3, 32, 32)),
        ("svhn", (73_257, 26_032), (3, 32, 32)),
        ("mnist-cifar", (70_000, 11_667), (1, 28, 28)),
    ],
)
def test_official_sizes(real: Places, name: str, wanted: tuple[int, int], shape: tuple[int, ...]) -> None:
    data = DATASETS[name](real)
    assert sizes(data) == wanted
    assert data.shape == shape
    assert data.x.dtype == np.uint8
    assert sorted(set(data.y.tolist())) == list(range(10))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_official_bytes(real: Places, name: str) -> None:
    data = DATASETS[name](real)
    assert dict(data.checksums).items() <= dict(OFFICIAL[name]).items()
    assert data.notes == ()


def test_mnist_has_the_known_classes_and_writers(real: Places) -> None:
    data = DATASETS["mnist"](real)
    np.testing.assert_array_equal(np.bincount(data.y), COUNTS)
    assert len(np.unique(data.groups["writer"])) == 539


def test_published_scales_are_those_of_the_pools(real: Places) -> None:
    from potluck.data.normalise import measured

    for name in ("mnist", "fashion-mnist", "cifar10", "svhn"):
        data = DATASETS[name](real, normalise="standard")
        mean, std = measured(data.x)
        np.testing.assert_allclose(data.mean, mean, atol=1e-4)
        np.testing.assert_allclose(data.std, std, atol=1e-4)


def test_svhn_says_if_it_is_rebuilt(real: Places) -> None:
    data = DATASETS["svhn"](real)
    genuine = dict(data.checksums) == dict(OFFICIAL["svhn"])
    assert genuine != any("SVHN, rebuilt" in note for note in data.notes)
    np.testing.assert_array_equal(np.bincount(data.y)[[0, 1]], [4948, 13861])


def test_femnist_by_writer(real: Places) -> None:
    whole, split = DATASETS["femnist"](real, test="none"), DATASETS["femnist"](real)
    assert len(whole.y) == 45_958
    assert sum(sizes(split)) == 45_958
    assert len(np.unique(whole.y)) == 62
    assert len(np.unique(whole.groups["writer"])) == len(whole.group_names["writer"]) == 300
    assert np.median(whole.x[:, 0, 0, 0]) == 255
    chosen = DATASETS["femnist"](real, test="none", writers=100)
    assert len(np.unique(chosen.groups["writer"])) == 100
    assert not any("incomplete" in note for note in chosen.notes)


def test_xray_by_source(real: Places) -> None:
    data = DATASETS["xray"](real)
    assert data.group_names["source"] == ("kermany", "rsna", "nih")
    np.testing.assert_array_equal(np.bincount(data.groups["source"]), [5_856, 14_863, 1_000])
    assert set(data.y[data.groups["source"] == 2].tolist()) == {0, 1}
    held = DATASETS["xray"](real, holdout=0.2)
    assert sum(sizes(held)) == 21_719


def test_mnist_cifar_is_balanced(real: Places) -> None:
    data = DATASETS["mnist-cifar"](real)
    np.testing.assert_array_equal(np.bincount(data.y[data.groups["source"] == 1]), [1000] * 10)
    tests = {name: len(y) for name, (_, y) in data.more_tests.items()}
    assert tests == {"mnist": 10_000, "cifar": 10_000}
    swapped = DATASETS["mnist-cifar"](real, cifar_source="test")
    np.testing.assert_array_equal(np.bincount(swapped.groups["source"]), [60_000, 10_000])


@pytest.mark.parametrize("name", ["cifar10", "svhn"])
def test_cached_sets_load_within_two_seconds(real: Places, name: str) -> None:
    DATASETS[name](real)
    began = time.perf_counter()
    data = DATASETS[name](real)
    assert time.perf_counter() - began < 2
    assert isinstance(data.x, np.memmap)
