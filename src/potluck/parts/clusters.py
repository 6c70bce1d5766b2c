"""Spectral clustering of a few hundred clients by their affinities (Ng, Jordan and Weiss, NeurIPS 2001).

The leading eigenvectors of D^-1/2 A D^-1/2, rows scaled to length one, go to k-means; or to scikit-learn's
discretisation (Yu and Shi, 2003), which FedEx's published code uses and which may leave a cluster empty. The number
of clusters may be read off the largest gap between eigenvalues (von Luxburg, 2007). Clusters are numbered by their
first client, so that renumbering is all that k-means' arbitrary labels could change.
"""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans, spectral_clustering
from sklearn.exceptions import ConvergenceWarning

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Assign = Literal["kmeans", "discretize"]
EmptyPolicy = Literal["reduce", "split"]
RESTARTS = 20
SEEDS = 2**32
FEWEST, MOST = 2, 8


class Spectrum(NamedTuple):
    """Eigenvalues of the normalised Laplacian, ascending, and their eigenvectors as columns."""

    values: Floats
    vectors: Floats


class Clusters(NamedTuple):
    """A cluster from 0 per client, the plane of the first two informative eigenvectors, and how many there are."""

    labels: Ints
    plane: Floats
    many: int


def clusters(
    affinity: Floats, wanted: int | Literal["auto"], assign: Assign, empty: EmptyPolicy, seed: int
) -> Clusters:
    """Cut clients into clusters, at most as many as there are clients."""
    found = spectrum(affinity)
    count = eigengap(found.values) if wanted == "auto" else min(wanted, len(affinity))
    points = rows_to_one(found.vectors[:, :count])
    if count < 2:
        labels = np.zeros(len(affinity), dtype=np.int64)
    elif assign == "kmeans" or count == len(affinity):
        labels = _kmeans(points, count, seed % SEEDS)
    else:
        labels = _discretised(affinity, count, seed % SEEDS)
    if empty == "split":
        labels = filled(labels, points, count)
    labels = by_first(labels)
    return Clusters(labels, plane(found.vectors), int(labels.max(initial=0)) + 1)


def spectrum(affinity: Floats) -> Spectrum:
    """Decompose the normalised Laplacian I - D^-1/2 A D^-1/2; a client's likeness to itself keeps degrees positive."""
    scale = 1.0 / np.sqrt(affinity.sum(axis=1))
    values, vectors = np.linalg.eigh(np.eye(len(affinity)) - scale[:, None] * affinity * scale[None, :])
    return Spectrum(values, vectors)


def rows_to_one(points: Floats) -> Floats:
    """Scale every row to length one; a row of zeros stays."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(np.divide(points, length, out=np.zeros_like(points), where=length > 0))


def eigengap(values: Floats) -> int:
    """Return the number of clusters, 2 to 8, behind which the eigenvalues jump the most."""
    most = min(MOST, len(values) - 1)
    if most < FEWEST:
        return 1
    gaps = np.diff(values)[FEWEST - 1 : most]
    return FEWEST + int(gaps.argmax())


def plane(vectors: Floats) -> Floats:
    """Return two coordinates per client: the second and third eigenvectors, each with its largest entry positive."""
    shown = np.zeros((len(vectors), 2))
    there = vectors[:, 1:3]
    if there.size:
        largest = there[np.abs(there).argmax(axis=0), np.arange(there.shape[1])]
        shown[:, : there.shape[1]] = there * np.where(largest < 0, -1.0, 1.0)
    return shown


def by_first(labels: Ints) -> Ints:
    """Number the clusters from 0 in the order of their first members, without gaps."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], dtype=np.int64)


def filled(labels: Ints, points: Floats, count: int) -> Ints:
    """Give every empty cluster the member of the largest cluster that is farthest from its centre."""
    labels = labels.copy()
    for cluster in np.setdiff1d(np.arange(count), labels):
        largest = int(np.bincount(labels, minlength=count).argmax())
        members = np.flatnonzero(labels == largest)
        away = np.linalg.norm(points[members] - points[members].mean(axis=0), axis=1)
        labels[members[int(away.argmax())]] = cluster
    return labels


def _kmeans(points: Floats, count: int, seed: int) -> Ints:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer distinct points than clusters: handled here
        fitted = KMeans(count, n_init=RESTARTS, random_state=seed).fit(points)
    return np.asarray(fitted.labels_, dtype=np.int64)


def _discretised(affinity: Floats, count: int, seed: int) -> Ints:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        labels = spectral_clustering(
            affinity, n_clusters=count, assign_labels="discretize", random_state=seed
        )
    return np.asarray(labels, dtype=np.int64)
