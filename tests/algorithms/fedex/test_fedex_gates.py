"""FedEx, gates: learned against confident, order of the rows, streams, broken experts, the double softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.algorithms.fedex.populations import (
    FIT,
    Population,
    two_populations,
)

from potluck.algorithms.fedex import fedex
from potluck.evaluate import facts
from potluck.key import Key
from potluck.laws.engines import Played, play
from potluck.learn import Fit
from potluck.metrics import Tally
from potluck.parts.double_softmax import loss_of
from potluck.parts.experts import Experts
from potluck.parts.gate import Rule
from potluck.parts.panel import shares

SURE = Fit(optimizer="adam", lr=0.005, batch=10, epochs=3)


def accuracy(played: Played) -> dict[str, float]:
    tally = played.scores.sites["server", "global"]
    assert tally is not None
    return tally.figures()


@pytest.mark.parametrize("kind", ["halves", "mistaken"])
def test_a_gate_that_looks_at_labels_beats_those_that_look_at_confidence(kind: Population) -> None:
    """In "mistaken" one population trains on wrong labels and is sure of them; only validation rows can tell."""
    gates: tuple[Rule | Literal["learned"], ...] = ("online", "mean", "frozen", "oracle", "learned")
    found = {
        gate: accuracy(play(two_populations(kind, fedex(5, SURE, 2, expert_init="w0", gate=gate))))
        for gate in gates
    }
    right = {gate: figures["accuracy"] for gate, figures in found.items()}
    assert right["learned"] > max(right["online"], right["mean"], right["frozen"])
    assert right["oracle"] >= max(right["online"], right["mean"], right["frozen"])
    assert found["learned"]["loss"] < found["mean"]["loss"]
    if kind == "mistaken":
        assert right["learned"] > right["online"] + 0.2


def test_the_order_of_the_test_rows_matters_online_only() -> None:
    world = two_populations("halves", fedex(2, FIT, clusters=2, expert_init="w0", orders=5))
    figures = accuracy(play(world))
    assert figures["accuracy_order_std"] > 0
    frozen = fedex(2, FIT, clusters=2, expert_init="w0", gate="frozen")
    assert accuracy(play(replace(world, algorithm=frozen)))["accuracy_order_std"] == 0


def test_every_expert_is_reported_and_the_weights_over_time() -> None:
    world = two_populations("halves", fedex(2, FIT, clusters=2))
    played = play(world)
    figures = accuracy(played)
    assert {f"expert/{i}/{what}" for i in (0, 1) for what in ("accuracy", "loss")} <= figures.keys()
    for at in (1, 3, 10, 30, 100, 300):
        assert figures[f"gate/0/weight/{at}"] + figures[f"gate/1/weight/{at}"] == pytest.approx(1)
    rows = {fact.what: fact.value for fact in facts(played.scores, "train", 2) if fact.who == "server"}
    assert rows["global/expert/0/accuracy"] == figures["expert/0/accuracy"]
    logged = {fact.who: fact.value for fact in played.facts if fact.what == "coordinates"}
    assert logged.keys() == {f"client/{client}" for client in range(20)}


def test_a_broken_expert_is_left_out_of_the_prediction() -> None:
    world = two_populations("halves", fedex(3, FIT, clusters=2))
    stage, state = world.stage(1), play(world).steps[-1].states["server"]
    broken = {name: leaf * np.nan for name, leaf in state.groups[1].params.items()}
    groups = (state.groups[0], state.groups[1]._replace(params=broken))
    client = world.client(1, "score", 3, -1, {}, scoring=True)
    test = world.federation.tests["global"]
    tally = stage.score(stage.deploy(state._replace(groups=groups), -1), client, test)
    alone = stage.score(stage.deploy(state._replace(groups=groups[:1]), -1), client, test)
    assert tally.figures()["expert/1/nonfinite"] == 1
    assert tally.figures()["accuracy"] == alone.figures()["accuracy"] > 0.3


def test_streams_go_on_where_they_stopped() -> None:
    world = two_populations("halves", fedex(1, FIT, clusters=2))
    stage, state = world.stage(1), play(world).steps[-1].states["server"]
    assert isinstance(stage, Experts)
    client = world.client(1, "score", 1, -1, {}, scoring=True)
    view, x = stage.deploy(state, -1), world.federation.tests["global"].x
    first, weights = stage.stream_predict(view, client, x[:100])
    second, _ = stage.stream_predict(view, client, x[100:], weights)
    assert torch.equal(torch.cat([first, second]), stage.predict(view, client, x))


def test_the_double_softmax_has_a_floor() -> None:
    fit = Fit(optimizer="adam", lr=0.02, batch=10, epochs=5)
    world = two_populations("shuffled", fedex(8, fit, clusters=1, loss_head="double_softmax"))
    figures = accuracy(play(world))
    floor = float(np.log(np.e + 9) - 1)
    assert figures["loss"] > floor > 1.4611
    assert figures["accuracy"] > 0.7
    assert figures["expert/0/loss"] == pytest.approx(floor + 1 - figures["expert/0/accuracy"], abs=0.06)
    sure = torch.eye(10, dtype=torch.float64)
    assert loss_of(sure, torch.arange(10), "double_softmax").mean() == pytest.approx(1.46115, abs=1e-5)
    assert loss_of(sure, torch.arange(10), "logits").mean() == 0


def test_shares_of_silence_are_uniform() -> None:
    given: npt.NDArray[np.float64] = np.array([[0.0, 0.0], [1.0, 3.0]])
    assert shares(given).tolist() == [[0.5, 0.5], [0.25, 0.75]]


def test_an_empty_table_has_an_empty_tally() -> None:
    for gate in ("online", "learned"):
        world = two_populations("halves", fedex(1, FIT, clusters=2, gate=gate, gate_rounds=1))
        played = play(world)
        assert all(isinstance(tally, Tally) and tally.rows == 0 for tally in played.scores.clients.values())


def test_experts_are_handed_to_a_client_once_while_the_gate_learns() -> None:
    world = two_populations("halves", fedex(1, FIT, clusters=2, gate="learned", gate_rounds=2))
    played = play(world)
    down = {
        fact.round: fact.value for fact in played.facts if fact.stage == "gate" and fact.what == "bytes/down"
    }
    size = sum(leaf.nbytes for leaf in world.model.init(Key.root(0)).values())
    gate = 4 * 20 * (2 * 20 + 1)
    assert down == {1: 20 * (2 * size + 2 * 8 + gate), 2: 20 * gate}
