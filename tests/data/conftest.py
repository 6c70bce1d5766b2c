"""Writers of tiny files in the official formats, an empty cache for every test, and the real data if there."""

from __future__ import annotations

import gzip
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from potluck.data import Places

Array = npt.NDArray[Any]
REAL = os.environ.get("POTLUCK_DATA")
CODES = {"u1": 0x08, "i4": 0x0C}


@pytest.fixture(scope="session")
def real_cache() -> Iterator[Path]:
    """Give all tests on real data one cache, deleted afterwards: it is large."""
    with tempfile.TemporaryDirectory(prefix="potluck-") as made:
        yield Path(made)


@pytest.fixture(autouse=True)
def cache(
    request: pytest.FixtureRequest, tmp_path: Path, real_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Give every test a cache of its own and no $POTLUCK_DATA."""
    home = real_cache if request.node.get_closest_marker("realdata") else tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.delenv("POTLUCK_DATA", raising=False)
    return home / "potluck"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder for data."""
    made = tmp_path / "data"
    made.mkdir()
    return made


@pytest.fixture
def places(folder: Path) -> Places:
    """Return the places to search: that folder, then the cache."""
    return Places.usual([folder])


@pytest.fixture
def real() -> Places:
    """Return where the real data are."""
    if REAL is None:
        pytest.skip("set POTLUCK_DATA to the folder with the real data sets")
    return Places.usual(REAL.split(os.pathsep))


def idx(array: Array) -> bytes:
    """Encode an array as IDX."""
    big = array.astype(array.dtype.newbyteorder(">"))
    code = CODES[array.dtype.str[1:]]
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape) + big.tobytes()


@pytest.fixture
def write_idx() -> Callable[[Path, Array], None]:
    """Return a writer of IDX files, packed if the name ends in .gz."""

    def write(path: Path, array: Array) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(idx(array)) if path.suffix == ".gz" else idx(array))

    return write


@pytest.fixture
def write_mnist(write_idx: Callable[[Path, Array], None]) -> Callable[..., Mapping[str, Array]]:
    """Return a writer of the four files of MNIST; `rows` training and half as many test images."""

    def write(target: Path, rows: int = 20, suffix: str = "") -> Mapping[str, Array]:
        random = np.random.default_rng(rows)
        arrays = {
            "train-images-idx3-ubyte": random.integers(0, 256, (rows, 28, 28), dtype=np.uint8),
            "train-labels-idx1-ubyte": np.arange(rows, dtype=np.uint8) % 10,
            "t10k-images-idx3-ubyte": random.integers(0, 256, (rows // 2, 28, 28), dtype=np.uint8),
            "t10k-labels-idx1-ubyte": np.arange(rows // 2, dtype=np.uint8) % 10,
        }
        for name, array in arrays.items():
            write_idx(target / (name + suffix), array)
        return arrays

    return write


def batch(x: Array, y: list[int]) -> bytes:
    """Encode a CIFAR batch as Python 2 pickled it (protocol 2)."""
    labels = b"".join(b"K" + bytes([label]) for label in y)
    pixels = x.astype(np.uint8).tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n" + b"T" + struct.pack("<I", len(pixels)) + pixels + b"\x86R"
    )
    name = b"U\x0bbatch_labelU\x15training batch 1 of 5"
    files = b"U\x09filenames](" + b"U\x05a.png" * len(y) + b"e"
    return b"\x80\x02}q\x01(" + name + b"U\x06labels](" + labels + b"eU\x04data" + array + files + b"u."


@pytest.fixture
def write_cifar() -> Callable[..., dict[str, tuple[Array, list[int]]]]:
    """Return a writer of the six batches of CIFAR-10, `rows` images each."""

    def write(target: Path, rows: int = 20) -> dict[str, tuple[Array, list[int]]]:
        out = target / "cifar-10-batches-py"
        out.mkdir(parents=True)
        made = {}
        for number, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
            random = np.random.default_rng(number)
            x = random.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8)
            y = [int(label) for label in np.arange(rows) % 10]
            (out / name).write_bytes(batch(x, y))
            made[name] = (x, y)
        return made

    return write


@pytest.fixture
def write_leaf() -> Callable[[Path, Mapping[str, tuple[Array, list[int]]]], None]:
    """Return a writer of one LEAF JSON file: users with images in [0, 1] (N, 784) and labels."""

    def write(path: Path, users: Mapping[str, tuple[Array, list[int]]]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = {name: {"x": x.tolist(), "y": y} for name, (x, y) in users.items()}
        counts = [len(y) for _, y in users.values()]
        path.write_text(json.dumps({"users": list(users), "num_samples": counts, "user_data": rows}))

    return write


@pytest.fixture
def write_picture() -> Callable[..., None]:
    """Return a writer of one picture of one colour."""

    def write(path: Path, colour: tuple[int, int, int] | int = 7, size: tuple[int, int] = (4, 4)) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L" if isinstance(colour, int) else "RGB", size, colour).save(path)

    return write


@pytest.fixture
def write_npz() -> Callable[[Path, dict[str, Array]], None]:
    """Return a writer of .npz files."""

    def write(path: Path, arrays: dict[str, Array]) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)

    return write
