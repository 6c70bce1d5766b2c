"""Rows whose distribution is known exactly, for checks with an answer: two populations that differ in their inputs.

* "gaussians": x ~ N(-shift/2, I) in one population and N(+shift/2, I) in the other, along every axis equally; the
  density ratio of the mixture to the first is (1 + exp(s.x)) / 2 with s = shift / sqrt(width) in every coordinate.
* "bernoulli": independent bits, with probabilities 1/2 -+ shift/4.
* "ising": bits in a chain whose neighbours agree with probability 1/2 + shift/4 in one population and disagree in the
  other: the same single-bit frequencies, another joint distribution (Ising, Zeitschrift für Physik 1925).

The label is the same rule everywhere (p(y|x) does not differ): whether the first coordinate exceeds the second.
The group column "population" says which population a row is from.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from potluck.data.dataset import Dataset
from potluck.data.places import Places
from potluck.key import Key

Kind = Literal["gaussians", "bernoulli", "ising"]
Floats = npt.NDArray[np.float64]


def synthetic(
    places: Places,
    kind: Kind = "gaussians",
    rows: Annotated[int, Field(ge=4)] = 2000,
    width: Annotated[int, Field(ge=2)] = 8,
    shift: Annotated[float, Field(ge=0, lt=2)] = 1.0,
    draw: Annotated[int, Field(ge=0)] = 0,
) -> Dataset:
    """Draw two populations with known distributions, half of the rows each; a tenth as many rows are the test split.

    `draw` numbers the sample: it is part of the data, not of a run's seed.
    """
    key = Key.root(draw) / "synthetic" / kind
    x, population = _pool(kind, rows, width, shift, key / "pool")
    test_x, _ = _pool(kind, max(rows // 10, 2), width, shift, key / "test")
    hashed = hashlib.sha256(x.tobytes()).hexdigest()
    return Dataset(
        name="synthetic",
        x=x,
        y=_label(x),
        classes=2,
        test_x=test_x,
        test_y=_label(test_x),
        groups={"population": population},
        group_names={"population": ("first", "second")},
        checksums={kind: hashed},
        notes=(f"synthetic rows: {kind}, width {width}, shift {shift}",),
    )


def _pool(
    kind: Kind, rows: int, width: int, shift: float, key: Key
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Draw rows in a seeded order of populations."""
    random = key.numpy()
    population = random.permutation(np.arange(rows) % 2)
    sign = (2 * population - 1)[:, None].astype(np.float64)
    if kind == "gaussians":
        x = random.normal(size=(rows, width)) + sign * shift / (2 * np.sqrt(width))
    elif kind == "bernoulli":
        x = (random.random((rows, width)) < 0.5 + sign * shift / 4).astype(np.float64)
    else:
        x = _chain(random.random((rows, width)), 0.5 - sign * shift / 4)
    return x.astype(np.float32), population.astype(np.int64)


def _chain(uniform: Floats, agree: Floats) -> Floats:
    """Turn uniform numbers into chains: the first bit is fair, each next one agrees with its neighbour by chance."""
    flips = (uniform[:, 1:] >= agree).astype(np.int64)
    first = (uniform[:, :1] < 0.5).astype(np.int64)
    return (np.cumsum(np.concatenate([first, flips], axis=1), axis=1) % 2).astype(np.float64)


def _label(x: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    return (x[:, 0] > x[:, 1]).astype(np.int64)
