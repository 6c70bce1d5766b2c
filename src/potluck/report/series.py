"""Series out of records: a curve over rounds for every seed, the clients' last scores, the partition.

Rounds of several stages count on, so that a method pays on the axis for what it did before training.
A mesh has one row a site; its curve is the mean over its sites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from potluck.report.read import Run
from potluck.report.records import Floats, Ints, Mask

NO_TESTS = ("local", "test", "train", "val", "bytes")


class Curve(NamedTuple):
    """One quantity over rounds: `values[seed, round]`, NaN where nothing was written."""

    rounds: Ints
    seeds: tuple[int, ...]
    values: Floats

    def present(self) -> Ints:
        """Return how many seeds each round has."""
        return np.asarray(np.isfinite(self.values).sum(axis=0), dtype=np.int64)

    def mean(self) -> Floats:
        """Return the mean over seeds of each round."""
        return np.asarray(np.nansum(self.values, axis=0) / np.maximum(self.present(), 1))

    def std(self) -> Floats:
        """Return the standard deviation over seeds (ddof 1); 0 where only one seed is there."""
        spread = np.where(np.isfinite(self.values), self.values - self.mean(), 0.0)
        return np.asarray(np.sqrt((spread**2).sum(axis=0) / np.maximum(self.present() - 1, 1)))

    def seed(self, seed: int) -> tuple[Ints, Floats]:
        """Return the rounds and values of one seed, without gaps."""
        row = self.values[self.seeds.index(seed)]
        there = np.isfinite(row)
        return self.rounds[there], row[there]


class Partition(NamedTuple):
    """How many rows of each class each client holds: `counts[client, class]`."""

    clients: tuple[int, ...]
    classes: tuple[str, ...]
    counts: Floats


class Shown(NamedTuple):
    """A partition to show: its title, its seed, itself, and the places of the runs that had it."""

    title: str
    seed: int
    partition: Partition
    runs: tuple[int, ...]


def curve(run: Run, what: str, where: Mask | None = None) -> Curve | None:
    """Return a quantity of the merging sites over rounds, or None when no number was written."""
    records = run.records
    mask = records.what.equals(recorded(run, what)) & np.isfinite(records.number)
    mask &= records.merging() if where is None else where
    if not mask.any():
        return None
    ahead = np.array([run.offsets[stage] for stage in records.stage.names], dtype=np.int64)
    rounds, column = np.unique(records.round[mask] + ahead[records.stage.codes[mask]], return_inverse=True)
    seeds, row = np.unique(records.seed[mask], return_inverse=True)
    total = np.zeros((len(seeds), len(rounds)))
    count = np.zeros_like(total)
    np.add.at(total, (row, column), records.number[mask])
    np.add.at(count, (row, column), 1.0)
    values = np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
    return Curve(rounds, tuple(int(seed) for seed in seeds), values)


def recorded(run: Run, what: str) -> str:
    """Return the name a figure was recorded under: where no test is called global, the first test's."""
    names = run.records.what.names
    head, _, tail = what.partition("/")
    if head != "global" or what in names:
        return what
    tests = [
        name for name in names if name.partition("/")[2] == tail and name.partition("/")[0] not in NO_TESTS
    ]
    return tests[0] if tests else what


def site_curves(run: Run, what: str) -> Mapping[str, Curve]:
    """Return one curve for each site of a mesh; empty when there is one server."""
    sites = sorted((name for name in run.records.who.names if name.startswith("site/")), key=number)
    found = {site: curve(run, what, run.records.who.equals(site)) for site in sites}
    return {site: one for site, one in found.items() if one is not None}


def number(who: str) -> int:
    """Return the number in a name such as client/7 (-1 when there is none)."""
    tail = who.rpartition("/")[2]
    return int(tail) if tail.isdigit() else -1


def client_finals(run: Run, what: str = "test/accuracy") -> Mapping[int, tuple[Ints, Floats]]:
    """Return, for each seed, the clients and their values at the last round that has this quantity."""
    records = run.records
    mask = records.what.equals(what) & records.who.starts("client/") & np.isfinite(records.number)
    ahead = np.array([run.offsets[stage] for stage in records.stage.names], dtype=np.int64)
    found: dict[int, tuple[Ints, Floats]] = {}
    for seed in run.seeds:
        mine = np.flatnonzero(mask & (records.seed == seed))
        if not len(mine):
            continue
        rounds = records.round[mine] + ahead[records.stage.codes[mine]]
        last = mine[rounds == rounds.max()]
        clients = np.array([number(records.who.names[code]) for code in records.who.codes[last]])
        order = np.argsort(clients, kind="stable")
        found[seed] = (clients[order], records.number[last][order])
    return found


def client_means(run: Run, what: str, seed: int) -> tuple[Ints, Floats]:
    """Return the clients and the mean over rounds of one of their quantities, for one seed."""
    records = run.records
    mask = records.what.ends(what) & records.who.starts("client/") & np.isfinite(records.number)
    mask &= records.seed == seed
    ids = np.array([number(name) for name in records.who.names], dtype=np.int64)
    clients, place = np.unique(ids[records.who.codes[mask]], return_inverse=True)
    total = np.bincount(place, weights=records.number[mask], minlength=len(clients))
    return clients, total / np.maximum(np.bincount(place, minlength=len(clients)), 1)


def partition(run: Run, seed: int) -> Partition | None:
    """Return the clients' class counts of one seed, or None when they were not recorded."""
    records = run.records
    mask = records.what.equals("histogram") & (records.seed == seed) & records.who.starts("client/")
    rows = {
        number(records.who.names[records.who.codes[place]]): place for place in np.flatnonzero(mask).tolist()
    }
    lists = {client: records.lists[place] for client, place in sorted(rows.items()) if place in records.lists}
    if not lists:
        return None
    width = max(len(counts) for counts in lists.values())
    padded = [np.pad(np.nan_to_num(counts), (0, width - len(counts))) for counts in lists.values()]
    names = run.class_names()
    classes = tuple(names[place] if place < len(names) else str(place) for place in range(width))
    return Partition(tuple(lists), classes, np.stack(padded))


def partitions(runs: Sequence[Run]) -> list[Shown]:
    """Return the different partitions of a comparison, each with the runs that had it."""
    found: list[Shown] = []
    for place, run in enumerate(runs):
        for seed in run.seeds:
            own = partition(run, seed)
            if own is None:
                continue
            known = [
                index for index, one in enumerate(found) if one.seed == seed and _same(one.partition, own)
            ]
            if known:
                old = found[known[0]]
                found[known[0]] = old._replace(runs=(*old.runs, place))
            else:
                found.append(Shown("", seed, own, (place,)))
    return [one._replace(title=_title(one, found, runs)) for one in found]


def _title(shown: Shown, found: Sequence[Shown], runs: Sequence[Run]) -> str:
    """Name the seed, and the runs where not all had the same partition."""
    if sum(one.seed == shown.seed for one in found) == 1:
        return f"seed {shown.seed}"
    more = "" if len(shown.runs) == 1 else f" and {len(shown.runs) - 1} more"
    return f"{runs[shown.runs[0]].label}{more}, seed {shown.seed}"


def _same(one: Partition, other: Partition) -> bool:
    return one.clients == other.clients and np.array_equal(one.counts, other.counts)
