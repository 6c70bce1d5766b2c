"""FedEx: populations are found (V-EX1), one cluster is FedAvg, experts against an oracle, late clients, gates."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from potluck import laws
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.feddisco import LabelDiscrepancy
from potluck.algorithms.fedex import fedex, wire
from potluck.algorithms.scaffold import Variates
from potluck.config import experiment
from potluck.core import Algorithm
from potluck.errors import BadInputError
from potluck.evaluate import facts
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import Played, play
from potluck.learn import Fit
from potluck.metrics import Tally
from potluck.model import Model
from potluck.models.mlp import mlp
from potluck.parts.double_softmax import loss_of
from potluck.parts.experts import Experts
from potluck.parts.gate import Rule
from potluck.parts.panel import shares
from potluck.parts.rate import Rate
from potluck.parts.similarity import cosines, gram
from potluck.parts.warm_up import SimilarityOn, Sorted, first_layer
from potluck.run import run
from potluck.seed import topology_of
from potluck.table import Table
from potluck.world import Faults, World

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle, Weights

Population = Literal["halves", "relabelled", "mistaken", "shuffled"]
FIT = Fit(lr=0.1, batch=10, epochs=2)


def two_populations(kind: Population, algorithm: Algorithm, seed: int = 0) -> World:
    """Return 20 clients: ten see digits 0-4 and ten 5-9, or ten call a digit y and ten call it y + 5 mod 10
    ("mistaken": in training only).

    The clients of both populations alternate, so that client % 2 is the truth.
    """
    pixels, labels = load_digits(return_X_y=True)
    x = torch.from_numpy((pixels / 16).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(labels.astype(np.int64))
    order = torch.from_numpy((Key.root(seed) / "deal").numpy().permutation(len(y)))
    test, pool = Table(x[order[:300]], y[order[:300]]), order[300:]
    parts = [pool[y[pool] < 5], pool[y[pool] >= 5]] if kind == "halves" else [pool[0::2], pool[1::2]]
    holders = []
    for client in range(20):
        rows = parts[client % 2].tensor_split(10)[client // 2]
        odd = client % 2 and kind in ("relabelled", "mistaken")
        told = (y[rows] + 5) % 10 if odd else y[rows]
        checks = y[rows[:20]] if kind == "mistaken" else told[:20]
        train, val = Table(x[rows[20:]], told[20:]), Table(x[rows[:20]], checks)
        holders.append(Holder(train, val, val.take(slice(0, 0))))
    model = Model(partial(mlp, (1, 8, 8), 10, hidden=(32,)), shape=(1, 8, 8), classes=10)
    federation = Federation(holders, {"global": test}, 10, (1, 8, 8))
    return World(federation, model, algorithm, Key.root(seed))


def labels_of(played: Played) -> dict[int, int]:
    """Return the clusters in which the warm-up ended."""
    ends = [step.states["server"] for step in played.steps if step.stage == "warmup"]
    sorting = ends[-1]
    assert isinstance(sorting, Sorted)
    return dict(sorting.labels)


def agreement(world: World) -> float:
    labels = labels_of(play(world))
    return float(adjusted_rand_score([client % 2 for client in labels], list(labels.values())))


@pytest.mark.parametrize("kind", ["halves", "relabelled"])
@pytest.mark.parametrize("seed", range(5))
def test_two_populations_are_told_apart(kind: Population, seed: int) -> None:
    assert agreement(two_populations(kind, fedex(1, FIT, clusters=2), seed)) == 1.0


def two_sources(algorithm: Algorithm, seed: int) -> World:
    """Return 20 clients with two digits each; every other one sees negatives. The source is client % 2."""
    pixels, labels = load_digits(return_X_y=True)
    x = torch.from_numpy((pixels / 16).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(labels.astype(np.int64))
    order = torch.from_numpy((Key.root(seed) / "deal").numpy().permutation(len(y)))
    holders = []
    for client in range(20):
        digit = client // 2
        rows = order[(y[order] == digit) | (y[order] == (digit + 1) % 10)][client % 4 :: 4][:80]
        table = Table(1 - x[rows] if client % 2 else x[rows], y[rows])
        nothing = table.take(slice(0, 0))
        holders.append(Holder(table, nothing, nothing))
    model = Model(partial(mlp, (1, 8, 8), 10, hidden=(32,)), shape=(1, 8, 8), classes=10)
    federation = Federation(holders, {"global": holders[0].train}, 10, (1, 8, 8))
    return World(federation, model, algorithm, Key.root(seed))


def test_the_first_layer_tells_sources_apart_where_whole_updates_tell_classes_apart() -> None:
    """On average over four seeds: under label skew one warm-up of a small net may miss."""
    for similarity, least, most in (("delta", -0.2, 0.1), ("first_layer", 0.7, 1.0)):
        method = fedex(1, FIT, clusters=2, similarity_on=cast("SimilarityOn", similarity))
        found = float(np.mean([agreement(two_sources(method, seed)) for seed in range(4)]))
        assert least < found <= most, similarity


def test_the_first_layer_is_the_first_weight_and_its_bias() -> None:
    assert first_layer(("a.0.weight", "a.0.bias", "a.3.weight", "b.weight")) == ("a.0.weight", "a.0.bias")
    assert first_layer(("w", "b")) == ("w", "b")


def test_late_clients_are_sorted_by_what_the_clusters_were_made_of(build: Build) -> None:
    only = {k: 0 if k % 2 else 2 for k in range(8)}
    world = build(fedex(6, FIT, clusters=2, similarity_on="first_layer"), (12,) * 8, only=only)
    last = play(replace(world, faults=Faults(lost=0.3))).steps[-1].states["server"].sorting
    assert set(last.labels) == set(range(8))
    assert adjusted_rand_score([client % 2 for client in last.labels], list(last.labels.values())) == 1.0


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


def test_broken_answers_are_dropped_and_sorted_nowhere(build: Build, numbers: Numbers) -> None:
    world = build(fedex(2, Fit(lr=1e38, batch=4, epochs=3), clusters=2), (12, 0, 9, 7))
    played = numbers.play(world)
    assert ("client/0", "nonfinite_state") in numbers.reasons(played)
    server = played.steps[-1].states["server"]
    assert all(torch.isfinite(leaf).all() for group in server.groups for leaf in group.params.values())


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


def accuracy(played: Played) -> dict[str, float]:
    tally = played.scores.sites["server", "global"]
    assert tally is not None
    return tally.figures()


SURE = Fit(optimizer="adam", lr=0.005, batch=10, epochs=3)


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


def test_experts_are_handed_to_a_client_once_while_the_gate_learns() -> None:
    world = two_populations("halves", fedex(1, FIT, clusters=2, gate="learned", gate_rounds=2))
    played = play(world)
    down = {
        fact.round: fact.value for fact in played.facts if fact.stage == "gate" and fact.what == "bytes/down"
    }
    size = sum(leaf.nbytes for leaf in world.model.init(Key.root(0)).values())
    gate = 4 * 20 * (2 * 20 + 1)
    assert down == {1: 20 * (2 * size + 2 * 8 + gate), 2: 20 * gate}


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
