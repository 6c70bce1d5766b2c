"""Chest X-rays of several sources, 32x32 grey, normal or not (as in FedDisk's experiments, spec section 4).

Read from folders `source/label/picture.png` (.jpg) or from the compact `xray32.npz` (images, labels, source,
source_names, patient). Known sources: Kermany et al. (Cell, 2018; paediatric), RSNA (as in the COVID-19
Radiography collection), and NIH (Wang et al., CVPR 2017). RSNA and NIH have one institution behind them.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from potluck.data.arrays import sha256
from potluck.data.cache import Arrays, cached_arrays
from potluck.data.checksums import md5_of_content
from potluck.data.compact import read_compact
from potluck.data.dataset import Dataset, Rows
from potluck.data.normalise import Normalise, scale
from potluck.data.pictures import Picture, decode, stamps, walk
from potluck.data.places import Places
from potluck.errors import BadInputError
from potluck.key import Key

COMPACT = "xray32.npz"
NORMAL = {"normal", "no_finding", "no finding", "0"}
HOW = "no package has them: put folders source/label/*.png into {name}/ of one of these folders"


def xray(
    places: Places,
    normalise: Normalise = "unit",
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> Dataset:
    """Load chest X-rays: 1x32x32, classes normal and abnormal, group columns "source" and "patient".

    `holdout`: share of each source's patients whose images become the test split (seeded; 0: no test split).
    `normalise`: "unit" is [0, 1], "standard" the pool's own mean and deviation, "half" (0.5, 0.5).
    """
    kept, checksums = _find(places)
    source, patient = kept["source"].astype(np.int64), kept["patient"].astype(np.int64)
    names = tuple(str(name) for name in kept["source_names"].astype(np.str_))
    held = np.isin(patient, _patients(source, patient, holdout))
    x, y = kept["images"][:, None], kept["labels"].astype(np.int64)
    stood_in = "nih" in names and "shenzhen" not in names
    return Dataset(
        name="xray",
        x=x[~held],
        y=y[~held],
        test_x=x[held] if held.any() else None,
        test_y=y[held] if held.any() else None,
        **scale(normalise, x[~held])._asdict(),
        classes=2,
        class_names=("normal", "abnormal"),
        groups={"source": source[~held], "patient": patient[~held]},
        group_names={"source": names},
        checksums=checksums,
        notes=("X-ray: nih stands in for the Shenzhen set as the third source",) if stood_in else (),
    )


def _find(places: Places) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays of the first form that lies somewhere, and their checksums."""
    folder = locate(places)
    if folder is None:
        raise places.missing("xray", [COMPACT, "source/label/*.png"], HOW)
    file = folder / COMPACT
    if file.is_file():
        keys = ("images", "labels", "source", "source_names", "patient")
        return read_compact(file, keys, (32, 32), 2), {COMPACT: md5_of_content(file)}
    pictures = walk(folder)
    kept = cached_arrays("xray", stamps(folder, pictures), partial(_tree, folder, pictures))
    return kept, {"pixels": sha256(kept["images"], kept["labels"])}


def locate(places: Places) -> Path | None:
    """Return the folder that holds the X-rays, in either form; a tree of pictures must lie in xray/."""
    for folder in places.candidates("xray"):
        if (folder / COMPACT).is_file() or (folder.name == "xray" and walk(folder)):
            return folder
    return None


def _tree(folder: Path, pictures: list[Picture]) -> Arrays:
    """Decode a tree of folders into the form of the compact file."""
    owners = np.array([picture.owner for picture in pictures])
    normal = np.array([picture.label.lower() in NORMAL for picture in pictures])
    names, source = np.unique(owners, return_inverse=True)
    for position, name in enumerate(names):
        if not normal[source == position].any():
            raise BadInputError(f"{folder / str(name)}: has no folder named normal; rename the healthy one")
    _, patient = np.unique([f"{p.owner}/{_patient(p.path.stem)}" for p in pictures], return_inverse=True)
    return {
        "images": decode(pictures, "grey", 32)[:, 0],
        "labels": (~normal).astype(np.int64),
        "source": source.reshape(-1).astype(np.int64),
        "source_names": names,
        "patient": patient.reshape(-1).astype(np.int64),
    }


def _patient(stem: str) -> str:
    """Return the patient in a file name: the part before the first "_" if it has a digit, else all."""
    before = stem.split("_", 1)[0]
    return before if re.search(r"\d", before) else stem


def _patients(source: Rows, patient: Rows, share: float) -> Rows:
    """Draw the patients to hold out, the same share of every source's."""
    drawn = [np.empty(0, dtype=np.int64)]
    for number in np.unique(source):
        own = np.unique(patient[source == number])
        order = (Key.root(0) / "xray" / "test" / int(number)).numpy().permutation(len(own))
        drawn.append(own[order[: round(share * len(own))]])
    return np.concatenate(drawn)
