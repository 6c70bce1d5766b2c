"""The readers of MNIST, Fashion-MNIST, CIFAR-10 and SVHN, on tiny files in their formats."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.io

from potluck.data import DATASETS, Places
from potluck.data.batches import read_batch
from potluck.data.checksums import OFFICIAL, differing
from potluck.errors import BadInputError

Array = npt.NDArray[Any]
WriteNpz = Callable[[Path, dict[str, Array]], None]
WriteMnist = Callable[..., Mapping[str, Array]]
WriteIdx = Callable[[Path, Array], None]
WriteCifar = Callable[..., dict[str, tuple[Array, list[int]]]]
WriteLeaf = Callable[[Path, Mapping[str, tuple[Array, list[int]]]], None]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("below", ["mnist", "."])
def test_mnist_is_read_packed_or_not_in_its_folder_or_above(
    places: Places, folder: Path, write_mnist: WriteMnist, suffix: str, below: str
) -> None:
    arrays = write_mnist(folder / below, suffix=suffix)
    data = DATASETS["mnist"](places)
    assert data.x.dtype == np.uint8
    assert data.shape == (1, 28, 28)
    np.testing.assert_array_equal(data.x[:, 0], arrays["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(data.y, arrays["train-labels-idx1-ubyte"])
    assert data.test_x is not None
    np.testing.assert_array_equal(data.test_x[:, 0], arrays["t10k-images-idx3-ubyte"])
    assert "not the official bytes" in data.notes[0]
    assert dict(data.groups) == {}


def test_mnist_gets_writers_from_qmnist(
    places: Places, folder: Path, write_mnist: WriteMnist, write_idx: WriteIdx
) -> None:
    arrays = write_mnist(folder / "mnist")
    table = np.zeros((20, 8), dtype=np.int32)
    table[:, 0] = arrays["train-labels-idx1-ubyte"]
    table[:, 2] = np.arange(20) // 4 + 2000
    write_idx(folder / "mnist" / "qmnist-train-labels-idx2-int.gz", table)
    data = DATASETS["mnist"](places)
    np.testing.assert_array_equal(data.groups["writer"], table[:, 2])
    assert dict(DATASETS["mnist"](places, writers=False).groups) == {}
    table[3, 0] += 1
    write_idx(folder / "mnist" / "qmnist-train-labels-idx2-int.gz", table)
    with pytest.raises(BadInputError, match="labels are not those of MNIST"):
        DATASETS["mnist"](places)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:-5], "truncated"),
        (lambda raw: raw[:9], "truncated"),
        (lambda raw: b"", "starts with nothing"),
        (lambda raw: b"\0\0\x08\x01" + raw[4:], "not an IDX file with 3"),
        (lambda raw: b"\x89PNG" + raw[4:], "not an IDX file"),
        (lambda raw: raw[:2] + b"\x09" + raw[3:], "unsigned bytes"),
    ],
)
def test_damaged_idx_is_refused_by_name(
    places: Places,
    folder: Path,
    write_mnist: WriteMnist,
    damage: Callable[[bytes], bytes],
    message: str,
) -> None:
    write_mnist(folder / "mnist")
    path = folder / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BadInputError, match=message) as error:
        DATASETS["mnist"](places)
    assert str(path) in str(error.value)


def test_truncated_gz_is_refused(places: Places, folder: Path, write_mnist: WriteMnist) -> None:
    write_mnist(folder / "fashion-mnist", suffix=".gz")
    path = folder / "fashion-mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BadInputError, match="cannot be unpacked"):
        DATASETS["fashion-mnist"](places)


def test_labels_out_of_range_are_refused_with_the_row(
    places: Places, folder: Path, write_mnist: WriteMnist, write_idx: WriteIdx
) -> None:
    write_mnist(folder / "mnist")
    labels = np.zeros(20, dtype=np.uint8)
    labels[7] = 10
    write_idx(folder / "mnist" / "train-labels-idx1-ubyte", labels)
    with pytest.raises(BadInputError, match=r"label of row 7 is 10.*10 classes"):
        DATASETS["mnist"](places)


def test_fewer_labels_than_images_are_refused(
    places: Places, folder: Path, write_mnist: WriteMnist, write_idx: WriteIdx
) -> None:
    write_mnist(folder / "mnist")
    write_idx(folder / "mnist" / "train-labels-idx1-ubyte", np.zeros(19, dtype=np.uint8))
    with pytest.raises(BadInputError, match="20 rows but 19 labels"):
        DATASETS["mnist"](places)


def test_another_sets_files_are_not_taken_for_this_one() -> None:
    with pytest.raises(BadInputError, match="holds mnist"):
        differing("fashion-mnist", OFFICIAL["mnist"])
    assert differing("mnist", OFFICIAL["mnist"]) == ()
    assert differing("mnist", {"train-images-idx3-ubyte": "0"}) == ("train-images-idx3-ubyte",)


@pytest.mark.parametrize("normalise", ["unit", "standard", "half"])
def test_pixels_are_scaled_as_asked(
    places: Places, folder: Path, write_mnist: WriteMnist, normalise: str
) -> None:
    arrays = write_mnist(folder / "mnist")
    raw = arrays["train-images-idx3-ubyte"][:, None] / 255
    wanted = {"unit": raw, "standard": (raw - 0.1307) / 0.3081, "half": (raw - 0.5) / 0.5}[normalise]
    got = DATASETS["mnist"](places, normalise=normalise).table(np.arange(20))
    np.testing.assert_allclose(got.x.numpy(), wanted, atol=1e-6)


def test_cifar10_is_read_and_then_mapped_from_the_cache(
    places: Places, folder: Path, write_cifar: WriteCifar
) -> None:
    made = write_cifar(folder / "cifar10")
    first, second = DATASETS["cifar10"](places), DATASETS["cifar10"](places)
    for data in (first, second):
        assert isinstance(data.x, np.memmap)
        np.testing.assert_array_equal(
            data.x, np.concatenate([made[f"data_batch_{k}"][0] for k in range(1, 6)])
        )
        np.testing.assert_array_equal(data.y, np.tile(np.arange(20) % 10, 5))
        assert data.test_x is not None
        np.testing.assert_array_equal(data.test_x, made["test_batch"][0])
    assert len(first.tests()["global"]) == 20
    assert first.class_names[3] == "cat"


def test_a_changed_source_is_read_again(places: Places, folder: Path, write_cifar: WriteCifar) -> None:
    write_cifar(folder / "cifar10")
    before = DATASETS["cifar10"](places).x[0, 0, 0, 0]
    path = folder / "cifar10" / "cifar-10-batches-py" / "data_batch_1"
    raw = bytearray(path.read_bytes())
    at = raw.index(b"T" + (20 * 3072).to_bytes(4, "little")) + 5
    raw[at] ^= 255
    path.write_bytes(raw)
    assert DATASETS["cifar10"](places).x[0, 0, 0, 0] == before ^ 255


def test_a_batch_is_never_executed(places: Places, folder: Path, write_cifar: WriteCifar) -> None:
    write_cifar(folder / "cifar10")
    mark = folder / "executed"
    path = folder / "cifar10" / "cifar-10-batches-py" / "test_batch"
    path.write_bytes(b"cos\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR.")
    with pytest.raises(BadInputError, match="not a batch of CIFAR-10"):
        DATASETS["cifar10"](places)
    assert not mark.exists()


@pytest.mark.parametrize("damage", [lambda raw: raw[:-4000], lambda raw: b"nonsense", lambda raw: b""])
def test_damaged_batches_are_refused_by_name(
    places: Places, folder: Path, write_cifar: WriteCifar, damage: Callable[[bytes], bytes]
) -> None:
    write_cifar(folder / "cifar10")
    path = folder / "cifar10" / "cifar-10-batches-py" / "data_batch_2"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BadInputError, match=r"data_batch_2: not a batch of CIFAR-10"):
        DATASETS["cifar10"](places)


def write_svhn(folder: Path, **changes: Array) -> Array:
    folder.mkdir(exist_ok=True)
    x = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 12), dtype=np.uint8)
    stored = {"X": x, "y": (np.arange(12) % 10 + 1).reshape(-1, 1).astype(np.uint8)} | changes
    for part in ("train", "test"):
        scipy.io.savemat(folder / f"{part}_32x32.mat", {k: v for k, v in stored.items() if v.size})
    return x


def test_svhn_maps_label_10_to_0_and_turns_the_axes(places: Places, folder: Path, cache: Path) -> None:
    x = write_svhn(folder / "svhn")
    data = DATASETS["svhn"](places)
    np.testing.assert_array_equal(data.y, (np.arange(12) + 1) % 10)
    np.testing.assert_array_equal(data.x, x.transpose(3, 2, 0, 1))
    assert data.notes[0].startswith("SVHN, rebuilt")
    assert len(data.tests()["global"]) == 12
    for plain in (folder / "svhn").iterdir():
        plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    shutil.rmtree(cache)
    np.testing.assert_array_equal(DATASETS["svhn"](places).x, x.transpose(3, 2, 0, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.empty(0)}, "no array 'y'"),
        ({"X": np.empty(0)}, "no array 'X'"),
        ({"y": np.full((12, 1), 11)}, "label of row 0 is 11"),
        ({"y": np.ones((11, 1))}, "for 11 labels"),
        ({"X": np.zeros((28, 28, 3, 12), np.uint8)}, r"not \(32, 32, 3, N\)"),
    ],
)
def test_wrong_mat_files_are_refused(
    places: Places, folder: Path, changes: dict[str, Array], message: str
) -> None:
    write_svhn(folder / "svhn", **changes)
    with pytest.raises(BadInputError, match=message):
        DATASETS["svhn"](places)


@pytest.mark.parametrize("raw", [b"", b"MATLAB 5.0 MAT-file, cut" + b"\0" * 200, b"x" * 500])
def test_files_that_are_not_mat_are_refused(places: Places, folder: Path, raw: bytes) -> None:
    write_svhn(folder / "svhn")
    (folder / "svhn" / "train_32x32.mat").write_bytes(raw)
    with pytest.raises(BadInputError, match=r"train_32x32\.mat: not a readable MATLAB file"):
        DATASETS["svhn"](places)


def test_batches_of_python_3_are_read_too(tmp_path: Path) -> None:
    pixels = bytes(range(256)) * 24
    size = len(pixels).to_bytes(4, "little")
    raw = b"\x80\x03}(C\x06labels](K\x04K\x09eC\x04dataB" + size + pixels + b"u."
    path = tmp_path / "batch"
    path.write_bytes(raw)
    batch = read_batch(path)
    np.testing.assert_array_equal(batch.y, [4, 9])
    np.testing.assert_array_equal(batch.x.ravel(), np.frombuffer(pixels, np.uint8))
