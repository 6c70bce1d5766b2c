"""The official MD5 digests of well-known data files, taken of their unpacked content, and how to check them.

A file packed again by somebody else (as Debian does with Fashion-MNIST) differs, its content does not.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from potluck.data.cache import remembered
from potluck.errors import BadInputError

OFFICIAL: Mapping[str, Mapping[str, str]] = {
    "mnist": {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        "qmnist-train-labels-idx2-int": "1d43300e7f41ddcbf7fd006cbe865af9",
        "qmnist-test-labels-idx2-int": "5e00709fb0090091f3afc51d204ad83c",
    },
    "fashion-mnist": {
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    "cifar10": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
    },
    "svhn": {
        "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    },
}


def pieces(path: Path, packed: bool, size: int = 1 << 20) -> Iterator[bytes]:
    """Yield the content of a file, unpacked if it is packed; a damaged file is the user's to replace."""
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            while piece := file.read(size):
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInputError(f"{path}: cannot be unpacked ({error}); delete it and fetch it again") from error


def content(path: Path) -> bytes:
    """Return the unpacked content of a file."""
    return b"".join(pieces(path, path.suffix == ".gz"))


def digest_of(path: Path, kind: str, packed: bool) -> str:
    """Return a digest ("md5", "sha256") of a file's unpacked content, in hexadecimal digits."""
    hashed = hashlib.new(kind, usedforsecurity=False)
    for piece in pieces(path, packed):
        hashed.update(piece)
    return hashed.hexdigest()


def md5_of_content(path: Path) -> str:
    """Return the MD5 of a file's unpacked content, computed once for each state of the file."""
    return remembered(path, "md5", lambda at: digest_of(at, "md5", at.suffix == ".gz"))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's unpacked content, computed once for each state of the file."""
    return remembered(path, "sha256", lambda at: digest_of(at, "sha256", at.suffix == ".gz"))


def digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the MD5 of each file's content by its name without folders."""
    return {Path(name).name: md5_of_content(path) for name, path in files.items()}


def differing(name: str, found: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files that are not the official ones; refuse another set's files of the same name."""
    official = OFFICIAL.get(name, {})
    wrong = tuple(file for file, digest in found.items() if file in official and digest != official[file])
    for other, theirs in OFFICIAL.items():
        for file in wrong:
            if theirs.get(file) == found[file]:
                raise BadInputError(
                    f"data {name!r}: the file {file} found for it holds {other};"
                    " put each set into a folder of its own name"
                )
    return wrong


def notes_on(name: str, wrong: tuple[str, ...]) -> tuple[str, ...]:
    """Say which files differ from the official ones."""
    return (f"{name}: not the official bytes: {', '.join(wrong)}",) if wrong else ()
