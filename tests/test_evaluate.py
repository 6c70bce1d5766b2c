"""Scoring: global tables in parts, clients with what they keep, null where nothing can be said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from potluck import evaluate as scoring
from potluck.algorithms.alone import alone as train_alone
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedbn import fedbn
from potluck.algorithms.pooled import pooled
from potluck.core import Algorithm
from potluck.evaluate import evaluate, facts, local, site_means
from potluck.laws import toy
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.memory import Memories
from potluck.metrics import Tally
from potluck.model import Model
from potluck.models import MODELS
from potluck.rounds import rounds
from potluck.topology import Star
from potluck.transport import Inline, Processes
from potluck.transport.codec import Codec
from potluck.tree import digest
from potluck.world import World

FIT = Fit(lr=0.2, batch=8)


def world(algorithm: Algorithm) -> World:
    return toy.world(algorithm, participation=1.0, dropout=0.0)


@pytest.fixture(scope="module")
def averaged() -> Any:
    return play(world(fedavg(rounds=2, fit=FIT)))


def test_the_site_is_scored_on_the_global_tests_and_clients_on_their_own(averaged: Any) -> None:
    given = world(fedavg(rounds=2, fit=FIT))
    params = averaged.steps[-1].states["server"].params
    table = given.federation.tests["global"]
    hits = int((given.model(params, table.x).argmax(dim=1) == table.y).sum())
    tally = averaged.scores.sites["server", "global"]
    assert tally.rows == 60
    assert int(tally.confusion.diagonal().sum()) == hits
    assert tally.figures()["loss"] == pytest.approx(float(given.model.rows(params, table).mean()), rel=1e-5)
    test = given.federation.holders[5].test
    own = averaged.scores.clients[5]
    assert own.rows == len(test)
    assert own.figures()["loss"] == pytest.approx(float(given.model.rows(params, test).mean()), rel=1e-5)


def test_parts_and_processes_give_the_same_scores(averaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = world(fedavg(rounds=2, fit=FIT))
    monkeypatch.setattr(scoring, "CHUNK", 17)
    memories = Memories(Codec(given.algorithm.messages))
    for transport in (Inline(given), Processes(given, 2)):
        with transport as opened:
            scores = evaluate(given, opened, Star(), memories, averaged.steps[-1])
        one, other = scores.sites["server", "global"], averaged.scores.sites["server", "global"]
        assert one is not None
        assert one.confusion is not None
        assert one.rows == 60
        assert torch.equal(one.confusion, other.confusion)
        assert one.sums["loss"] == pytest.approx(other.sums["loss"], rel=1e-6)


def test_scoring_changes_no_later_bit() -> None:
    given = world(fedbn(rounds=3, fit=FIT))
    plain = play(given)
    memories = Memories(Codec(given.algorithm.messages))
    with Inline(given) as transport:
        for step in rounds(given, transport, Star(), memories):
            for _ in range(2):
                evaluate(given, transport, Star(), memories, step)
    assert digest(dict(step.states)) == digest(dict(plain.steps[-1].states))
    assert digest(memories.tree()) == digest({str(k): v for k, v in plain.snapshots[-1].items() if v})


def test_a_newcomer_that_cannot_be_served_has_no_score() -> None:
    played = play(world(fedbn(rounds=1, fit=FIT)))
    assert played.scores.sites == {("server", "global"): None}
    rows = facts(played.scores, "train", 1)
    assert [(fact.who, fact.what, fact.value) for fact in rows[:2]] == [
        ("server", "global/accuracy", None),
        ("server", "global/loss", None),
    ]
    assert site_means(played.scores) == {"global": {"accuracy": None, "loss": None}}


def test_alone_the_figure_of_the_whole_is_the_mean_over_sites() -> None:
    played = play(world(train_alone(rounds=1, fit=FIT)))
    assert len(played.scores.sites) == 7
    tallies = [tally.figures()["accuracy"] for tally in played.scores.sites.values() if tally]
    mean = site_means(played.scores)["global"]["accuracy"]
    assert mean == pytest.approx(sum(tallies) / 7)
    rows = [fact for fact in facts(played.scores, "train", 1) if fact.what == "global/accuracy"]
    assert {fact.who for fact in rows} == {"server", *(f"site/{k}" for k in range(7))}


def test_pooled_training_is_scored_on_every_clients_rows() -> None:
    played = play(world(pooled(rounds=1, fit=FIT)))
    assert sorted(played.scores.clients) == list(range(7))
    assert [tally.rows for tally in played.scores.clients.values()] == [size // 3 for size in toy.SIZES]


def test_what_is_scored_can_be_chosen(averaged: Any) -> None:
    given = world(fedavg(rounds=2, fit=FIT))
    memories = Memories(Codec(given.algorithm.messages))
    scores = evaluate(given, Inline(given), Star(), memories, averaged.steps[-1], clients=False, tests=[])
    assert scores.sites == {}
    assert scores.clients == {}
    assert facts(scores, "train", 1) == []
    assert site_means(scores) == {}


def test_clients_without_test_rows_do_not_count(averaged: Any) -> None:
    assert averaged.scores.clients[2].rows == 0
    rows = facts(averaged.scores, "train", 2)
    assert "client/2" not in {fact.who for fact in rows}
    summary = local(averaged.scores.clients)["accuracy"]
    figures = {k: t.figures() for k, t in averaged.scores.clients.items() if t.rows}
    weights = {k: averaged.scores.clients[k].rows for k in figures}
    expected = sum(figures[k]["accuracy"] * weights[k] for k in figures) / sum(weights.values())
    assert summary["weighted"] == pytest.approx(expected)
    assert local({0: Tally(0)}) == {}


def test_regression_has_a_loss_and_no_accuracy() -> None:
    holders = [
        replace(
            holder,
            **{
                part: replace(getattr(holder, part), y=getattr(holder, part).y.float())
                for part in ("train", "val", "test")
            },
        )
        for holder in toy.federation().holders
    ]
    table = toy.federation().tests["global"]
    real = replace(
        toy.federation(), holders=holders, classes=None, tests={"global": replace(table, y=table.y.float())}
    )
    model = Model(lambda: MODELS["mlp"](toy.SHAPE, None, hidden=(8,)), shape=toy.SHAPE)
    made = replace(toy.world(fedavg(rounds=3, fit=Fit(lr=0.05)), given=real), model=model)
    played = play(made)
    tally = played.scores.sites["server", "global"]
    assert tally is not None
    assert set(tally.figures()) == {"loss"}
    assert tally.figures()["loss"] < 1.0
