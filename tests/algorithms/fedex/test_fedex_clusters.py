"""FedEx, clusters: populations and sources are found (V-EX1), empty, late and broken clients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from tests.algorithms.fedex.populations import (
    FIT,
    Population,
    agreement,
    labels_of,
    two_populations,
    two_sources,
)

from potluck.algorithms.fedex import fedex
from potluck.key import Key
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.parts.similarity import cosines, gram
from potluck.parts.warm_up import SimilarityOn, first_layer
from potluck.world import Faults

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers


@pytest.mark.parametrize("kind", ["halves", "relabelled"])
@pytest.mark.parametrize("seed", range(5))
def test_two_populations_are_told_apart(kind: Population, seed: int) -> None:
    assert agreement(two_populations(kind, fedex(1, FIT, clusters=2), seed)) == 1.0


def test_the_first_layer_tells_sources_apart_where_whole_updates_tell_classes_apart() -> None:
    """On average over four seeds: under label skew one warm-up of a small net may miss."""
    for similarity, least, most in (("delta", -0.2, 0.1), ("first_layer", 0.7, 1.0)):
        method = fedex(1, FIT, clusters=2, similarity_on=cast("SimilarityOn", similarity))
        found = float(np.mean([agreement(two_sources(method, seed)) for seed in range(4)]))
        assert least < found <= most, similarity


def test_the_first_layer_is_the_first_weight_and_its_bias() -> None:
    assert first_layer(("a.0.weight", "a.0.bias", "a.3.weight", "b.weight")) == ("a.0.weight", "a.0.bias")
    assert first_layer(("w", "b")) == ("w", "b")


def test_shuffled_rows_carry_no_clusters() -> None:
    """On average: with twenty clients a single agreement of .2 comes up by chance."""
    seeds = [agreement(two_populations("shuffled", fedex(1, FIT, clusters=2), seed)) for seed in range(5)]
    assert np.mean(seeds) < 0.2


def test_the_number_of_populations_is_found_and_other_settings_run() -> None:
    world = two_populations("halves", fedex(1, FIT, clusters="auto"))
    assert agreement(world) == 1.0
    for assign in ("kmeans", "discretize"):
        literal = fedex(1, FIT, clusters=2, similarity_on="weights", affinity_map="raw", assign=assign)
        assert set(labels_of(play(replace(world, algorithm=literal))).values()) == {0, 1}
    shifted = fedex(1, FIT, clusters=2, affinity_map="shift", assign="discretize")
    assert agreement(replace(world, algorithm=shifted)) == 1.0


def test_whole_weights_are_far_more_alike_than_updates() -> None:
    """The published comparison of whole weights: all cosines are near 1, whatever the rows."""
    world = two_populations("halves", fedex(1, FIT, clusters=2))
    start = world.model.init(world.key_of(0) / "init")
    trained = [
        FIT(world.model, start, holder.train, Key.root(k)).params for k, holder in enumerate(world.trainers)
    ]
    names = world.model.learnable
    assert cosines(gram(trained, None, names)).min() > 0.8
    assert cosines(gram(trained, start, names)).min() < 0.3


def test_a_client_without_rows_belongs_to_no_cluster(build: Build, numbers: Numbers) -> None:
    played = numbers.play(build(fedex(2, FIT, clusters=2), (12, 0, 9, 7)))
    assert labels_of(played)[1] == -1
    assert 1 not in numbers.told(played, "weight")
    assert numbers.reasons(played) == {("client/1", "zero_weight")}


def test_a_client_that_the_warm_up_missed_is_sorted_by_its_first_answer(build: Build) -> None:
    only = {k: 0 if k % 2 else 2 for k in range(8)}
    clear = build(fedex(6, FIT, clusters=2), (12,) * 8, only=only)
    faulty = replace(clear, faults=Faults(lost=0.3))
    missed = [k for k in range(8) if faulty.fault(0, 1, k)]
    assert 0 < len(missed) < 7
    played = play(faulty)
    assert set(labels_of(played)) == set(range(8)) - set(missed)
    last = played.steps[-1].states["server"].sorting
    truth = [client % 2 for client in last.labels]
    assert set(missed) & set(last.labels)
    assert adjusted_rand_score(truth, list(last.labels.values())) == 1.0
    notes = {fact.who for fact in played.facts if fact.what == "reason" and fact.value == "sorted"}
    assert notes == {f"client/{client}" for client in set(missed) & set(last.labels)}
    assert not play(clear).steps[-1].states["server"].sorting.centres, "w0 and centres go when all are sorted"


def test_late_clients_are_sorted_by_what_the_clusters_were_made_of(build: Build) -> None:
    only = {k: 0 if k % 2 else 2 for k in range(8)}
    world = build(fedex(6, FIT, clusters=2, similarity_on="first_layer"), (12,) * 8, only=only)
    last = play(replace(world, faults=Faults(lost=0.3))).steps[-1].states["server"].sorting
    assert set(last.labels) == set(range(8))
    assert adjusted_rand_score([client % 2 for client in last.labels], list(last.labels.values())) == 1.0


def test_broken_answers_are_dropped_and_sorted_nowhere(build: Build, numbers: Numbers) -> None:
    world = build(fedex(2, Fit(lr=1e38, batch=4, epochs=3), clusters=2), (12, 0, 9, 7))
    played = numbers.play(world)
    assert ("client/0", "nonfinite_state") in numbers.reasons(played)
    server = played.steps[-1].states["server"]
    assert all(torch.isfinite(leaf).all() for group in server.groups for leaf in group.params.values())
