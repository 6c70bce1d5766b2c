"""Folders of pictures: `owner/label/picture.png`, decoded with Pillow to channel-first bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from potluck.errors import BadInputError

Colour = Literal["rgb", "grey"]
SUFFIXES = {".png", ".jpg", ".jpeg"}


class Picture(NamedTuple):
    """One file and the two folders it lies in."""

    owner: str
    label: str
    path: Path


def walk(root: Path) -> list[Picture]:
    """Return all pictures two folders below the root, in a fixed order."""
    files = [path for path in root.glob("*/*/*") if path.suffix.lower() in SUFFIXES]
    pictures = [Picture(path.parent.parent.name, path.parent.name, path) for path in files]
    return sorted(pictures, key=lambda picture: (picture.owner, picture.label, picture.path.name))


def stamps(root: Path, pictures: Sequence[Picture]) -> list[str]:
    """Name the present state of every picture: where it is, its size and its time of change."""
    states = [(picture.path, picture.path.stat()) for picture in pictures]
    return [str(root.resolve()), *(f"{path}|{at.st_size}|{at.st_mtime_ns}" for path, at in states)]


def decode(pictures: Sequence[Picture], colour: Colour, size: int | None) -> npt.NDArray[np.uint8]:
    """Return pictures (N, C, H, W), resized (bilinear, antialiased) to a square if `size` is given."""
    first = _decode(pictures[0].path, colour, size)
    out = np.empty((len(pictures), *first.shape), dtype=np.uint8)
    for row, picture in enumerate(pictures):
        pixels = _decode(picture.path, colour, size)
        if pixels.shape != first.shape:
            height, width = pixels.shape[1:]
            raise BadInputError(
                f"{picture.path}: is {width}x{height}, but {pictures[0].path} is"
                f" {first.shape[2]}x{first.shape[1]}; give a `size` to which all are resized"
            )
        out[row] = pixels
    return out


def _decode(path: Path, colour: Colour, size: int | None) -> npt.NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            plain = image.convert("L" if colour == "grey" else "RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadInputError(f"{path}: cannot be decoded ({error}); replace or delete it") from error
    if size is not None and plain.size != (size, size):
        plain = plain.resize((size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(plain, dtype=np.uint8)
    return pixels[None] if colour == "grey" else np.ascontiguousarray(pixels.transpose(2, 0, 1))
