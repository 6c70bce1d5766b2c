"""FedPCL: the check V-PC1, numpy oracles, missing classes, frozen backbones, absent clients, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

from potluck.algorithms.fedpcl import fedpcl, wire
from potluck.config import experiment
from potluck.errors import BadInputError
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws import check, toy
from potluck.laws.engines import Bench, play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.mlp import mlp, softmax
from potluck.parts.contrastive import Prototypes
from potluck.parts.prototypes import contrast, filled, mean_of, nearest
from potluck.table import Table
from potluck.topology import Mesh
from potluck.transport import Inline, Processes
from potluck.tree import Params, same
from potluck.visit import Answer, Call, visit
from potluck.world import Faults, World

Array = NDArray[np.float64]
FIT = Fit(optimizer="adam", lr=0.01, batch=8)
CLASSES, WIDTH = 3, 16


def unit(x: Array) -> Array:
    result: Array = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
    return result


def means(z: Array, y: NDArray[np.int64], classes: int) -> Array:
    """Return class means, zero for classes without rows."""
    return np.stack([z[y == c].mean(axis=0) if (y == c).any() else 0 * z[0] for c in range(classes)])


def info_nce(z: Array, y: NDArray[np.int64], table: Array, tau: float) -> Array:
    """Return -log( e^{z.p_y / tau} / sum over known classes c of e^{z.p_c / tau} )."""
    odds = np.exp(z @ table.T / tau) * table.any(axis=1)
    result: Array = -np.log(odds[np.arange(len(y)), y] / odds.sum(axis=1))
    return result


@given(
    arrays(np.float64, (2, 4, 3), elements=st.floats(0.1, 1)),
    st.sets(st.integers(0, 3), max_size=2),
    st.integers(0, 9),
)
def test_the_contrast_is_its_formula_and_leaves_unknown_classes_out(
    tables: Array, unknown: set[int], seed: int
) -> None:
    tables[:, list(unknown)] = 0
    draw = np.random.default_rng(seed)
    z, y = unit(draw.normal(size=(6, 3))), draw.integers(4, size=6)
    there = ~np.isin(y, list(unknown))
    features = torch.from_numpy(z).requires_grad_()
    loss = contrast(features, torch.from_numpy(y), torch.from_numpy(tables), 0.5)
    expected = np.mean([info_nce(z[there], y[there], table, 0.5) for table in tables], axis=0)
    np.testing.assert_allclose(loss.detach().numpy()[there], expected, atol=1e-9)
    (slope,) = torch.autograd.grad(loss.sum(), [features])
    assert torch.isfinite(slope).all()
    assert not loss[~torch.from_numpy(there)].any()
    assert not slope[~torch.from_numpy(there)].any()


@pytest.mark.parametrize("tables", [torch.zeros(0, 3, 4), torch.zeros(2, 3, 4)])
def test_without_any_prototype_the_contrast_is_zero_and_has_a_gradient(tables: Tensor) -> None:
    z = torch.ones(2, 4, requires_grad=True)
    loss = contrast(z, torch.tensor([0, 2]), tables, 0.07)
    assert not loss.any()
    assert not torch.autograd.grad(loss.sum(), [z])[0].any()


def test_shared_prototypes_are_means_over_those_who_know_and_fill_gaps() -> None:
    tables = torch.tensor([[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.5, 0.5], [0.0, 0.0]]])
    shared = mean_of(tables)
    assert shared.tolist() == [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]
    assert filled(tables, shared)[0].tolist() == [[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]


def test_the_nearest_prototype_wins_and_unknown_classes_come_last() -> None:
    prototypes = torch.tensor([[0.0, 0.9], [0.0, 0.0], [-1.0, 0.0]])
    scores = nearest(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), prototypes, 0.5)
    expected = [[-0.01, -8.0, -2.0], [-1.81, -8.0, -4.0]]
    torch.testing.assert_close(scores, torch.tensor(expected))


def test_messages_hold_prototypes_only_and_prototypes_are_means_of_unit_features() -> None:
    seen: list[tuple[Call, Answer]] = []

    def watched(world: World, call: Call) -> Answer:
        answer = visit(world, call)
        if call.kind == "local":
            seen.append((call, answer))
        return answer

    world = toy.world(fedpcl(2, FIT), participation=1.0)
    played = play(world, Bench(world, around=watched))
    for call, answer in seen:
        assert isinstance(answer.send, Prototypes)
        assert answer.send.rows.shape == (CLASSES, WIDTH)
        assert set(call.view._fields) == {"shared", "each"}
        assert call.view.each.shape[1:] == (CLASSES, WIDTH)
    network = world.model.load(
        {k: v for k, v in played.snapshots[-1][0]["own"].items() if k in world.model.slots}
    )
    train = world.federation.holders[0].train
    with torch.no_grad():
        features = network.eval().get_submodule("body")(train.x).double().numpy()
    expected = means(unit(features), train.y.numpy(), CLASSES)
    found = next(answer.send.rows for call, answer in reversed(seen) if call.client == 0)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_one_round_beats_chance_on_separable_rows() -> None:
    scores = play(toy.world(fedpcl(1, replace(FIT, epochs=3)), participation=1.0, dropout=0.0)).scores.clients
    hits = sum(tally.figures()["accuracy"] * tally.rows for tally in scores.values() if tally.rows)
    assert hits / sum(tally.rows for tally in scores.values()) > 0.6


def test_there_is_no_global_model_to_test() -> None:
    assert play(toy.world(fedpcl(1, FIT))).scores.sites["server", "global"] is None


def test_the_latest_prototypes_of_absent_clients_count() -> None:
    world = toy.world(fedpcl(6, FIT))
    played = play(replace(world, faults=Faults(lost=0.3)))
    for step, memories in zip(played.steps, played.snapshots, strict=True):
        kept = {client: memory["prototypes"] for client, memory in memories.items() if memory}
        told = {client: rows for client, rows in kept.items() if rows.any()}
        assert same(dict(step.states["server"].latest), told)
    assert len(played.steps[-1].states["server"].latest) > 3


def test_in_a_mesh_a_site_knows_its_neighbours_prototypes_only() -> None:
    ring = Mesh({client: frozenset({(client - 1) % 7, (client + 1) % 7}) for client in range(7)})
    played = play(toy.world(fedpcl(2, FIT), participation=1.0), topology=ring)
    assert set(played.steps[-1].states["site/5"].latest) == {4, 5, 6}
    assert set(played.steps[-1].states["site/1"].latest) == {0, 1}
    assert all(np.isfinite(tally.figures()["loss"]) for tally in played.scores.clients.values() if tally.rows)


def test_an_empty_client_is_not_counted() -> None:
    played = play(toy.world(fedpcl(1, FIT), participation=1.0))
    assert set(played.steps[-1].states["server"].latest) == {0, 1, 3, 4, 5, 6}
    single = played.steps[-1].states["server"].latest[toy.SINGLE_CLASS]
    assert single.any(dim=1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [(torch.full((CLASSES, WIDTH), torch.nan), "nonfinite_state"), (torch.zeros(2, WIDTH), "bad_message")],
)
def test_bad_prototypes_are_forgotten_on_both_sides(rows: Tensor, reason: str) -> None:
    def spoilt(world: World, call: Call) -> Answer:
        answer = visit(world, call)
        bad = call.kind == "local" and call.client == 0
        return answer._replace(send=Prototypes(rows)) if bad else answer

    world = toy.world(fedpcl(2, FIT), participation=1.0)
    played = play(world, Bench(world, around=spoilt))
    assert {fact.value for fact in played.facts if fact.what == "reason"} == {reason}
    assert not played.snapshots[-1][0]
    assert 0 not in played.steps[-1].states["server"].latest


def test_without_strength_clients_train_as_if_alone() -> None:
    one = play(toy.world(fedpcl(3, FIT, strength=0.0), participation=1.0))
    world = toy.world(fedpcl(3, FIT, strength=0.0), participation=1.0)
    lonely = replace(world, faults=Faults())
    other = play(lonely, Bench(lonely, around=deaf))
    assert same(one.snapshots[-1][0]["own"], other.snapshots[-1][0]["own"])


def deaf(world: World, call: Call) -> Answer:
    """Visit a client who is shown no prototypes."""
    view = call.view._replace(shared=call.view.shared * 0, each=call.view.each * 0)
    return visit(world, call._replace(view=view))


def test_the_wire_costs_prototypes_only() -> None:
    world = toy.world(fedpcl(2, FIT), participation=1.0)
    down, up = wire(world.model, clients=6)
    facts = {(f.round, f.what): f.value for f in play(world).facts if f.who == "server"}
    assert facts[1, "bytes/down"] == 7 * wire(world.model, clients=0)[0]
    assert (facts[2, "bytes/down"], facts[2, "bytes/up"]) == (7 * down, 7 * up)
    assert up == 4 * CLASSES * WIDTH


@pytest.fixture
def backbone(tmp_path: Path) -> Path:
    """Return a stored model of the toy's architecture, with statistics in its batch norm."""
    params = toy.world(fedpcl(1)).model.init(Key.root(77))
    params["body.2.running_mean"] += 0.3
    save_file(params, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_a_frozen_backbone_stays_as_it_is_and_only_the_projection_is_kept(backbone: Path) -> None:
    world = toy.world(fedpcl(3, FIT, backbone, projection=5), participation=1.0)
    played = play(world)
    memory = played.snapshots[-1][0]
    assert set(memory["own"]) == {"projection.weight", "projection.bias"}
    assert memory["prototypes"].shape == (CLASSES, 5)
    body = toy.world(fedpcl(1)).model.init(Key.root(77))
    body["body.2.running_mean"] += 0.3
    train = world.federation.holders[0].train
    with torch.no_grad():
        features = world.model.load(body).eval().get_submodule("body")(train.x).double().numpy()
    weight, bias = (memory["own"][f"projection.{name}"].double().numpy() for name in ("weight", "bias"))
    expected = means(unit(features @ weight.T + bias), train.y.numpy(), CLASSES)
    np.testing.assert_allclose(memory["prototypes"].numpy(), expected, atol=1e-5)
    notes = [fact.value for fact in played.facts if fact.what == "backbone"]
    assert len(notes) == 1
    assert len(str(notes[0])) == 64


def test_a_frozen_backbone_learns_from_the_second_round_on(backbone: Path) -> None:
    played = play(toy.world(fedpcl(2, FIT, backbone), participation=1.0))
    first, second = (played.snapshots[k][0]["own"]["projection.weight"] for k in (1, 2))
    initial = played.snapshots[1][1]["own"]["projection.weight"]
    assert torch.equal(first, initial)
    assert not torch.equal(second, first)


def test_a_frozen_backbone_obeys_the_laws(backbone: Path) -> None:
    assert check(fedpcl(3, FIT, backbone, projection=8), without={"same_bits_on_every_engine"})
    world = toy.world(fedpcl(2, FIT, backbone))
    assert play(world, Processes(world, 2)).fingerprint == play(world, Inline(world)).fingerprint


def test_backbones_that_do_not_fit_are_refused(backbone: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is not a readable safetensors file"):
        fedpcl(1, FIT, tmp_path / "nothing")
    with pytest.raises(BadInputError, match=r"algorithm\.backbone"):
        experiment({"name": "t", "algorithm": {"name": "fedpcl", "backbone": str(tmp_path / "nothing")}})
    wide = Model(partial(mlp, toy.SHAPE, 3, hidden=(9,)), shape=toy.SHAPE, classes=3)
    with pytest.raises(BadInputError, match=r"'body\.1\.weight' is \(16, 64\), but the model's is \(9, 64\)"):
        play(replace(toy.world(fedpcl(1, FIT, backbone)), model=wide))
    deep = Model(partial(mlp, toy.SHAPE, 3, hidden=(16, 16, 4)), shape=toy.SHAPE, classes=3)
    with pytest.raises(BadInputError, match=r"has no leaf 'body\.\d\.weight'"):
        play(replace(toy.world(fedpcl(1, FIT, backbone)), model=deep))


def test_models_without_body_and_real_targets_are_refused() -> None:
    flat = Model(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), shape=toy.SHAPE, classes=3)
    with pytest.raises(BadInputError, match="fedpcl needs a network"):
        play(replace(toy.world(fedpcl(1, FIT)), model=flat))
    real = Model(partial(softmax, toy.SHAPE, None), shape=toy.SHAPE)
    with pytest.raises(BadInputError, match="fedpcl needs classes"):
        play(replace(toy.world(fedpcl(1, FIT)), model=real))


@pytest.mark.parametrize("option", [{"tau": 0}, {"projection": 0}, {"strength": -1}])
def test_bad_options_are_named(option: dict[str, object]) -> None:
    with pytest.raises(BadInputError, match=rf"algorithm\.{next(iter(option))}"):
        experiment({"name": "t", "algorithm": {"name": "fedpcl", **option}})


def descend(w: Array, x: Array, y: NDArray[np.int64], tables: list[Array], tau: float, lr: float) -> Array:
    """Take one step down the mean contrast of z = Wx / |Wx|, its gradient written out by hand."""
    v = x @ w.T
    z, length = unit(v), np.linalg.norm(v, axis=1, keepdims=True)
    slope = np.zeros_like(z)
    for share, table in tables_with_shares(tables):
        odds = np.exp(z @ table.T / tau) * table.any(axis=1)
        odds /= odds.sum(axis=1, keepdims=True)
        odds[np.arange(len(y)), y] -= 1
        slope += share * odds @ table / tau
    slope = (slope - z * (slope * z).sum(axis=1, keepdims=True)) / length
    result: Array = w - lr * slope.T @ x / len(y)
    return result


def tables_with_shares(tables: list[Array]) -> list[tuple[float, Array]]:
    """The first table is the shared one (L_g); the others are the clients' (L_p, their mean)."""
    return [(1.0, tables[0]), *((1 / (len(tables) - 1), table) for table in tables[1:])]


def test_agrees_with_numpy_on_a_linear_projection(tmp_path: Path) -> None:
    draw = np.random.default_rng(8)
    data = [(draw.normal(size=(n, 4)), np.arange(n) % top) for n, top in ((6, 3), (9, 2))]
    holders = []
    for x, y in data:
        table = Table(torch.from_numpy(x).float(), torch.from_numpy(y))
        holders.append(Holder(table, table.take(slice(0, 0)), table.take(slice(0, 0))))
    model = Model(partial(softmax, (4,), 3), shape=(4,), classes=3)
    save_file(model.init(Key.root(0)), tmp_path / "empty.safetensors")
    stages = fedpcl(3, Fit(lr=0.2, batch="all", steps=2), tmp_path / "empty.safetensors", 5, tau=0.5)
    world = World(Federation(holders, {}, 3, (4,)), model, stages, Key.root(4))
    played = play(world)
    first: Params = world.model_of(0).init(Key.root(4) / "train" / "init")
    start = np.hstack([first["projection.weight"], first["projection.bias"][:, None]]).astype(np.float64)
    weights, tables = [start.copy() for _ in data], [np.zeros((3, 5))]
    padded = [np.hstack([x, np.ones((len(x), 1))]) for x, _ in data]
    for _ in range(3):
        latest = []
        for k, (_, y) in enumerate(data):
            for _ in range(2):
                if tables[0].any():
                    weights[k] = descend(weights[k], padded[k], y, tables, 0.5, 0.2)
            latest.append(means(unit(padded[k] @ weights[k].T), y, 3))
        known = np.sum([table.any(axis=1) for table in latest], axis=0)[:, None]
        shared = np.sum(latest, axis=0) / np.maximum(known, 1)
        tables = [shared, *(np.where(table.any(axis=1, keepdims=True), table, shared) for table in latest)]
    np.testing.assert_allclose(played.steps[-1].states["server"].shared.numpy(), tables[0], atol=2e-5)
