"""The census of labels: what is told, what is refused, what is left out."""

from __future__ import annotations

import math

import pytest
import torch

from potluck.core import Inbox, Sent, Site
from potluck.errors import BadInputError
from potluck.key import Key
from potluck.laws import toy
from potluck.parts.census import Counts, Histograms, LabelCensus, distributions
from potluck.world import World


def site(world: World, classes: int = toy.CLASSES) -> Site:
    return Site("server", world.model, Key.root(0), world.clients, classes)


def test_a_client_tells_its_counts_and_nothing_else(toy_world: World) -> None:
    reply = LabelCensus().local(None, toy_world.client(0, "local", 1, toy.SINGLE_CLASS, {}))
    assert reply.send.counts.tolist() == [0, 12, 0]
    assert not reply.keep
    assert not reply.log


def test_counts_are_collected_and_odd_ones_left_out(toy_world: World) -> None:
    census = LabelCensus()
    told = [
        torch.tensor([1, 2, 3]),
        torch.tensor([1, 2]),
        torch.tensor([1, -2, 3]),
        torch.tensor([1.0, 2.0, 3.0]),
    ]
    answers = [Sent(k, Counts(counts)) for k, counts in enumerate(told)]
    start = census.init(site(toy_world), None).state
    merged = census.merge(start, Inbox(answers, key=Key.root(0), population=range(4)))
    assert list(merged.state.counts) == [0]
    assert merged.notes == dict.fromkeys((1, 2, 3), "bad_message")
    assert merged.log == {"told": 1}
    assert start.counts == {}


def test_distributions_sum_to_one_or_are_unknown() -> None:
    known = Histograms(2, {0: torch.tensor([1, 3]), 2: torch.tensor([0, 0])})
    found = distributions(known, [0, 1, 2])
    assert found[0].tolist() == [0.25, 0.75]
    assert all(math.isnan(value) for value in found[1:].flatten().tolist())


def test_data_without_classes_are_refused(toy_world: World) -> None:
    with pytest.raises(BadInputError, match="no classes"):
        LabelCensus().init(site(toy_world, classes=0), None)


def test_another_number_of_classes_is_refused(toy_world: World) -> None:
    with pytest.raises(BadInputError, match="over 5 classes"):
        LabelCensus(expected=5).init(site(toy_world), None)


@pytest.fixture
def toy_world() -> World:
    from potluck.algorithms.feddisco import feddisco

    return toy.world(feddisco(1))
