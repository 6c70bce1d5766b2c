"""FedEx, experts: one cluster is FedAvg, means against an oracle, cohorts, laws, cost, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
import torch
from tests.algorithms.fedex.populations import (
    FIT,
    labels_of,
)

from potluck import laws
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.feddisco import LabelDiscrepancy
from potluck.algorithms.fedex import fedex, wire
from potluck.algorithms.scaffold import Variates
from potluck.config import experiment
from potluck.errors import BadInputError
from potluck.laws import toy
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.parts.rate import Rate
from potluck.run import run
from potluck.seed import topology_of

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle, Weights


@pytest.mark.parametrize("participation", [1.0, 0.4])
def test_one_cluster_from_the_shared_start_is_fedavg(
    build: Build, numbers: Numbers, participation: float
) -> None:
    sizes = (12, 7, 5, 9, 8)
    fit = Fit(lr=0.1, batch=4)
    average = build(fedavg(4, fit), sizes, participation=participation)
    one = build(fedex(4, fit, clusters=1, expert_init="w0"), sizes, participation=participation)
    mean, lone = numbers.play(average), numbers.play(one)
    params, (group,) = mean.steps[-1].states["server"].params, lone.steps[-1].states["server"].groups
    assert all(torch.equal(params[name], group.params[name]) for name in params)
    a, b = (played.scores.sites["server", "global"] for played in (mean, lone))
    assert a is not None
    assert b is not None
    assert a.confusion is not None
    assert b.confusion is not None
    assert torch.equal(a.confusion, b.confusion)
    assert a.figures()["loss"] == pytest.approx(b.figures()["loss"], rel=1e-5)
    assert b.figures()["gate/0/weight/1"] == pytest.approx(1.0)
    assert b.figures()["accuracy_order_std"] == 0


def test_one_client_is_local_training(build: Build, numbers: Numbers) -> None:
    fit = Fit(lr=0.1, batch=4)
    one = numbers.final(build(fedavg(3, fit), (9,)))
    state = numbers.play(build(fedex(3, fit, clusters=1, expert_init="w0"), (9,))).steps[-1].states["server"]
    for name, leaf in one.items():
        assert np.array_equal(leaf, state.groups[0].params[name].numpy())


def test_experts_are_the_means_of_their_clusters(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    """Warm-up and two rounds of full-batch descent, by hand: warm mean, then a mean by rows in each cluster."""
    world = build(
        fedex(2, Fit(lr=0.2, batch="all", epochs=2), clusters=2), (12, 7, 5, 9), only={0: 0, 1: 2, 2: 0, 3: 2}
    )
    tables = numbers.tables(world)
    rows = [len(y) for _, y in tables]

    def trained(w: Weights, client: int) -> Weights:
        return oracle.descend(w, *tables[client], lr=0.2, steps=2)

    w0 = numbers.weights(world.model.init(world.key_of(0) / "init"))
    warm = oracle.mean([trained(w0, k) for k in range(4)], rows)
    played = numbers.play(world)
    assert labels_of(played) == {0: 0, 1: 1, 2: 0, 3: 1}
    for cluster, members in enumerate(((0, 2), (1, 3))):
        expert = warm
        for _ in range(2):
            expert = oracle.mean([trained(expert, k) for k in members], [rows[k] for k in members])
        found = numbers.weights(played.steps[-1].states["server"].groups[cluster].params)
        for name, leaf in expert.items():
            assert found[name] == pytest.approx(leaf, abs=2e-6)


def test_each_cluster_draws_its_own_cohort(build: Build, numbers: Numbers) -> None:
    only = {0: 0, 1: 0, 2: 0, 3: 2, 4: 2, 5: 2, 6: 2}
    world = build(fedex(5, FIT, clusters=2), (12,) * 7, only=only, participation=0.4)
    played = numbers.play(world)
    labels = labels_of(played)
    assert labels == {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 1}
    for number in range(1, 6):
        weights = numbers.told(played, "weight", number)
        chosen = [labels[client] for client in weights]
        assert (chosen.count(0), chosen.count(1)) == (2, 2)
        for cluster in (0, 1):
            assert sum(w for k, w in weights.items() if labels[k] == cluster) == pytest.approx(1)


def test_other_choices_of_averaging_go_with_it() -> None:
    mixed = fedex(
        2,
        FIT,
        clusters=2,
        weigh=LabelDiscrepancy(),
        objective=Variates(),
        server=Rate(0.5),
        bn_buffers="pooled",
    )
    assert [stage.stream for stage in mixed.stages] == ["labels", "warmup", "train"]
    assert "lost_answers_are_survived" in laws.check(mixed)


@pytest.mark.parametrize("gate", ["online", "learned", "frozen"])
def test_the_laws_hold(gate: Literal["online", "learned", "frozen"]) -> None:
    method = fedex(3, Fit(lr=0.05, batch=8), gate=gate, gate_rounds=2, gate_fit=Fit(lr=0.1))
    assert len(laws.check(method)) == len(laws.LAWS)


def test_a_round_crosses_what_the_file_says() -> None:
    world = toy.world(fedex(2, FIT, clusters=2), participation=1.0)
    steps = play(world).steps
    down, up = wire(world.model)
    for step in steps:
        if step.round:
            sums = {fact.what: fact.value for fact in step.facts if fact.who == "server"}
            visited = sum(fact.what == "train/steps" for fact in step.facts)
            assert sums["bytes/down"] == visited * down
            assert sums["bytes/up"] == visited * up


@pytest.mark.parametrize(
    ("algorithm", "sentence"),
    [
        ({"clusters": 9}, "9 clusters need at least as many clients, got 4"),
        ({"clusters": 0}, r"algorithm\.clusters"),
        ({"gate": "learned", "train_on": "train_and_val"}, "the gate learns from the validation rows"),
        ({"objective": {"name": "fedrod"}}, "experts are whole models"),
        ({"similarity_on": "weight"}, r"algorithm\.similarity_on"),
    ],
)
def test_what_cannot_be_is_refused(algorithm: dict[str, object], sentence: str, tmp_path: Path) -> None:
    table = {
        "name": "bad",
        "partition": {"name": "iid", "clients": 4},
        "algorithm": {"name": "fedex", "rounds": 1, **algorithm},
    }
    with pytest.raises(BadInputError, match=sentence):
        run(experiment(table), tmp_path / "out")


def test_targets_without_classes_and_meshes_are_refused(build: Build) -> None:
    world = build(fedex(1, FIT))
    regression = replace(world.federation, classes=None)
    with pytest.raises(BadInputError, match="have no classes"):
        play(replace(world, federation=regression))
    table = {"name": "mesh", "topology": {"name": "ring"}, "algorithm": {"name": "fedex"}}
    ring = experiment(table)
    with pytest.raises(BadInputError, match="fedex does not run on a mesh; its clusters need one place"):
        topology_of(ring, ring.world(0))
