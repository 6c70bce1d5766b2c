"""What a partition was, in writing: scheme, parameters, seed, sizes, histogram, digest (spec section 10)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass

import numpy as np

from potluck.data.dataset import Rows
from potluck.federation import Labels, Partition
from potluck.key import Key
from potluck.skew.measure import from_histogram

Json = Mapping[str, object]


def manifest(partition: Partition, labels: Labels, dealt: Sequence[Rows], key: Key) -> Json:
    """Describe dealt rows as a dictionary that JSON can hold; `dropped` counts the rows that nobody got."""
    scheme, parameters = _call(partition)
    counts = histogram(labels, dealt)
    skew = from_histogram(counts)
    held = np.unique(np.concatenate([*dealt, np.empty(0, dtype=np.int64)]))
    return {
        "scheme": scheme,
        "parameters": parameters,
        "stream": str(key),
        "seed": key.path[0],
        "clients": len(dealt),
        "rows": len(labels),
        "dropped": len(labels) - len(held),
        "sizes": [len(rows) for rows in dealt],
        "histogram": counts.tolist(),
        "sha256": digest(dealt),
        "mean_kl": skew.mean_kl,
        "size_cv": skew.size_cv,
        "max_over_mean": skew.max_over_mean,
        "classes_held": skew.classes_held.tolist(),
    }


def histogram(labels: Labels, dealt: Sequence[Rows]) -> Rows:
    """Count rows by client (down) and class (across)."""
    return np.stack([np.bincount(labels.y[rows], minlength=labels.classes) for rows in dealt]).astype(
        np.int64
    )


def digest(dealt: Sequence[Rows]) -> str:
    """Hash which rows went to which client, as `Federation.digest` does."""
    hashed = hashlib.sha256()
    for client, rows in enumerate(dealt):
        hashed.update(f"{client}:{len(rows)};".encode())
        hashed.update(np.ascontiguousarray(rows, dtype="<i8").tobytes())
    return hashed.hexdigest()


def _call(partition: object) -> tuple[str, Json]:
    """Return a partition's name and its arguments."""
    if is_dataclass(partition) and not isinstance(partition, type):
        return type(partition).__name__.lower(), asdict(partition)
    return str(getattr(partition, "__name__", type(partition).__name__)), {}
