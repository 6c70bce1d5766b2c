"""Your own pictures: one folder a client, inside it one folder a label with .png or .jpg files.

The folder `test` (with folders of labels inside) is the test split. Decoded pictures are cached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from potluck.data.arrays import from_arrays, natural, sha256
from potluck.data.cache import Arrays, cached_arrays
from potluck.data.dataset import Dataset
from potluck.data.normalise import Normalise
from potluck.data.pictures import Colour, Picture, decode, stamps, walk
from potluck.data.places import Places
from potluck.errors import BadInputError

TEST = "test"


def images(
    places: Places,
    path: str,
    size: Annotated[int, Field(ge=1, le=4096)] | None = None,
    colour: Colour = "rgb",
    classes: tuple[str, ...] | None = None,
    normalise: Normalise = "unit",
) -> Dataset:
    """Load your own pictures from `path/client/label/*.png` (or .jpg, .jpeg).

    `size`: resize all to a square of so many pixels (needed unless all are alike). `colour`: "rgb" or "grey".
    `classes`: the labels in order; by default all names of label folders in natural order.
    """
    root = places.resolve(path)
    pictures = walk(root)
    if not any(picture.owner != TEST for picture in pictures):
        raise BadInputError(
            f"{root}: holds no pictures as client/label/picture.png (or .jpg); arrange them so"
        )
    names = classes or tuple(sorted({picture.label for picture in pictures}, key=natural))
    number = {name: position for position, name in enumerate(names)}
    for picture in pictures:
        if picture.label not in number:
            raise BadInputError(f"{picture.path.parent}: no class {picture.label!r} among {', '.join(names)}")
    y = np.array([number[picture.label] for picture in pictures], dtype=np.int64)
    owners = np.array([picture.owner for picture in pictures])
    key = [*stamps(root, pictures), colour, str(size)]
    kept = cached_arrays("images", key, lambda: _read(pictures, colour, size))
    x, test = kept["x"], owners == TEST
    return from_arrays(
        x[~test] if test.any() else x,
        y[~test],
        len(names),
        owners[~test],
        test=(x[test], y[test]) if test.any() else None,
        name=Path(path).name,
        class_names=names,
        normalise=normalise,
        checksums={"pixels": bytes(kept["digest"]).hex()},
    )


def _read(pictures: list[Picture], colour: Colour, size: int | None) -> Arrays:
    x = decode(pictures, colour, size)
    return {"x": x, "digest": np.frombuffer(bytes.fromhex(sha256(x)), dtype=np.uint8)}
