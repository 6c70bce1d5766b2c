"""FedRoD: the checks V-RD1 and V-RD2, a numpy oracle, both heads and couplings, newcomers, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedbn import Norms
from potluck.algorithms.fedrod import BalancedSoftmax, fedrod, wire
from potluck.config import experiment
from potluck.errors import BadInputError
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws import check, toy
from potluck.laws.engines import Bench, play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.mlp import softmax
from potluck.parts.heads import Coupling, Head, TwoHeads, balanced_softmax, decoupled
from potluck.table import Table
from potluck.tree import Params, digest
from potluck.visit import Answer, Call, visit
from potluck.world import World

Array = NDArray[np.float64]
FIT = Fit(lr=0.1, batch=8)
HEADS: tuple[Head, ...] = ("linear", "hypernetwork")
COUPLINGS: tuple[Coupling, ...] = ("pfllib", "flbench")


def two_headed(head: Head = "linear", coupling: Coupling = "pfllib") -> TwoHeads:
    """Return a two-headed network whose personal part has been shaken."""
    with Key.root(3).ambient():
        module = TwoHeads(toy.network(0.0, norms=False), toy.SHAPE, 3, head, coupling == "pfllib")
        for leaf in module.personal.parameters():
            nn.init.normal_(leaf, std=0.3)
    return module


def gradients(loss: Tensor, module: nn.Module) -> dict[str, Tensor]:
    names, leaves = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize("head", HEADS)
def test_the_personal_loss_moves_the_personal_part_only(head: Head) -> None:
    module, table, counts = two_headed(head), toy.rows(20, Key.root(0)), torch.tensor([4, 0, 9])
    table = Table(table.x, table.y.clamp(max=1) * 2)
    both = gradients(decoupled(counts, 1.0, "pfllib")(module, table.x, table.y).mean(), module)
    generic = module.head(module.body(table.x))
    alone = gradients(balanced_softmax(generic, table.y, counts).mean(), module)
    for name, leaf in both.items():
        if name.startswith("personal."):
            assert leaf.any()
            assert not alone[name].any()
        else:
            assert torch.equal(leaf, alone[name])


def test_with_the_other_coupling_the_body_feels_both_losses() -> None:
    module, table, counts = two_headed(), toy.rows(20, Key.root(0)), torch.tensor([4, 5, 9])
    both = gradients(decoupled(counts, 1.0, "flbench")(module, table.x, table.y).mean(), module)
    z = module.body(table.x)
    losses = balanced_softmax(module.head(z), table.y, counts)
    losses = losses + functional.cross_entropy(module.personal(z, counts), table.y, reduction="none")
    for name, leaf in gradients(losses.mean(), module).items():
        torch.testing.assert_close(both[name], leaf)


def test_absent_classes_have_no_gradient_and_all_gradients_are_finite() -> None:
    scores = torch.randn(6, 4, generator=Key.root(1).torch()).requires_grad_()
    y = torch.tensor([0, 0, 3, 3, 0, 3])
    loss = balanced_softmax(scores, y, torch.tensor([5, 0, 0, 7]))
    (slope,) = torch.autograd.grad(loss.sum(), [scores])
    assert torch.isfinite(loss).all()
    assert not slope[:, 1:3].any()
    assert slope[:, [0, 3]].all()


@given(st.lists(st.integers(0, 50), min_size=2, max_size=6), st.floats(0.1, 2), st.integers(0, 99))
def test_the_balanced_softmax_is_its_formula(counts: list[int], gamma: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    present = [c for c, count in enumerate(counts) if count]
    y = draw.choice(present, size=7) if present else np.zeros(0, dtype=np.int64)
    scores = draw.normal(size=(len(y), len(counts)))
    lifted = np.array(counts, dtype=np.float64) ** gamma * np.exp(scores)
    expected = -np.log(lifted[np.arange(len(y)), y] / lifted.sum(axis=1)) if len(y) else np.zeros(0)
    found = balanced_softmax(torch.from_numpy(scores), torch.from_numpy(y), torch.tensor(counts), gamma)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)


def test_with_balanced_counts_or_no_gamma_it_is_cross_entropy() -> None:
    scores, y = torch.randn(9, 3, generator=Key.root(2).torch()), torch.arange(9) % 3
    plain = functional.cross_entropy(scores, y, reduction="none")
    torch.testing.assert_close(balanced_softmax(scores, y, torch.tensor([4, 4, 4])), plain)
    assert torch.equal(balanced_softmax(scores, y, torch.tensor([9, 0, 0]), 0.0), plain)


@pytest.mark.parametrize("head", HEADS)
def test_without_balancing_the_generic_model_is_fedavgs_bit_for_bit(head: Head) -> None:
    one = play(toy.world(fedrod(3, FIT, head, gamma=0.0)))
    other = play(toy.world(fedavg(3, FIT)))
    shared: Params = one.steps[-1].states["server"].params
    for name, leaf in other.steps[-1].states["server"].params.items():
        assert torch.equal(shared[name], leaf), name
    assert one.scores.sites["server", "global"] is not None
    assert digest(one.scores.sites["server", "global"].tree()) == digest(
        other.scores.sites["server", "global"].tree() if other.scores.sites["server", "global"] else None
    )


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_every_variant_obeys_the_laws_about_memory_and_newcomers(head: Head, coupling: Coupling) -> None:
    laws = {"same_bits_on_every_engine", "tensors_are_never_pickled", "resuming_changes_nothing"}
    assert check(fedrod(4, FIT, head, coupling), without=laws)


def sent(world: World) -> set[str]:
    """Return the names of all leaves that clients send."""
    names: set[str] = set()

    def watched(world: World, call: Call) -> Answer:
        answer = visit(world, call)
        names.update([] if call.kind == "score" else answer.send.params)
        return answer

    play(world, Bench(world, around=watched))
    return names


def test_the_personal_head_differs_by_client_and_never_travels() -> None:
    world = toy.world(fedrod(2, FIT), participation=1.0)
    memories = play(world).snapshots[-1]
    one, other = (memories[client]["personal"] for client in (0, 1))
    assert set(one) == {"counts", "personal.scores.weight", "personal.scores.bias"}
    assert not torch.equal(one["personal.scores.weight"], other["personal.scores.weight"])
    assert sent(world) == set(world.model.slots)


def test_a_hypernetwork_travels_but_class_counts_do_not() -> None:
    world = toy.world(fedrod(2, FIT, "hypernetwork"), participation=1.0)
    names = sent(world)
    assert {name for name in names if name.startswith("personal.")}
    assert "counts" not in names
    played = play(world)
    for client, memory in played.snapshots[-1].items():
        expected = torch.bincount(world.federation.holders[client].train.y, minlength=3)
        assert torch.equal(memory["personal"]["counts"], expected)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_who_has_not_trained_is_served_by_the_generic_head(head: Head, coupling: Coupling) -> None:
    world = toy.world(fedrod(2, FIT, head, coupling))
    played = play(world)
    shared = played.steps[-1].states["server"].params
    generic = {name: shared[name] for name in world.model.slots}
    never = [
        k
        for k, memory in played.snapshots[-1].items()
        if not memory and len(world.federation.holders[k].test)
    ]
    assert never
    for client, table in [
        (-1, world.federation.tests["global"]),
        *((k, world.holder(k).test) for k in never),
    ]:
        tally = played.scores.sites["server", "global"] if client == -1 else played.scores.clients[client]
        scores = world.model(generic, table.x)
        assert tally is not None
        assert tally.sums["loss"] == pytest.approx(
            float(functional.cross_entropy(scores, table.y)) * len(table)
        )


def test_personalised_scores_help_a_client_with_a_class_of_its_own() -> None:
    world = toy.world(fedrod(8, FIT), participation=1.0)
    own = play(world).scores.clients[toy.SINGLE_CLASS]
    assert own.figures()["accuracy"] == 1.0


def test_the_wire_costs_as_much_as_fedavg() -> None:
    world = toy.world(fedrod(2, FIT))
    down, up = wire(world.model)
    facts = {(f.round, f.what): f.value for f in play(world).facts if f.who == "server"}
    assert (facts[2, "bytes/down"], facts[2, "bytes/up"]) == (3 * down, 3 * up)


def test_given_initial_weights_are_used_and_the_personal_part_is_drawn() -> None:
    world = toy.world(fedrod(1, replace(FIT, epochs=0), "hypernetwork"))
    given = {name: leaf * 0 + 2 for name, leaf in world.model.init(Key.root(9)).items()}
    shared = play(replace(world, initial=given)).steps[-1].states["server"].params
    assert torch.equal(shared["head.bias"], torch.full((3,), 2.0))
    assert shared["personal.maker.0.weight"].any()


def test_goes_with_local_norm_layers() -> None:
    world = toy.world(fedrod(2, FIT, share=Norms()))
    assert sent(world) == set(world.model.slots) - world.model.norms


def test_the_balanced_softmax_is_an_objective_of_its_own() -> None:
    plain = play(toy.world(fedavg(2, FIT)))
    assert play(toy.world(fedavg(2, FIT, objective=BalancedSoftmax(0.0)))).fingerprint == plain.fingerprint
    assert play(toy.world(fedavg(2, FIT, objective=BalancedSoftmax()))).fingerprint != plain.fingerprint


def regression(world: World) -> World:
    model = Model(partial(softmax, toy.SHAPE, None), shape=toy.SHAPE)
    return replace(world, model=model, federation=replace(world.federation, classes=None))


def test_models_without_body_and_head_are_refused_in_one_sentence() -> None:
    flat = Model(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), shape=toy.SHAPE, classes=3)
    with pytest.raises(
        BadInputError, match=r"a module `body`.*and a module `head`.*but Sequential lacks one"
    ):
        play(replace(toy.world(fedrod(1, FIT)), model=flat))


def test_bodies_that_return_images_are_refused() -> None:
    class Picture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Identity(), nn.Flatten()

    with pytest.raises(BadInputError, match="one flat row of features"):
        play(replace(toy.world(fedrod(1, FIT)), model=Model(Picture, shape=toy.SHAPE, classes=3)))


def test_real_targets_are_refused() -> None:
    with pytest.raises(BadInputError, match="fedrod needs classes"):
        play(regression(toy.world(fedrod(1, FIT))))
    with pytest.raises(BadInputError, match="the balanced softmax needs classes"):
        play(regression(toy.world(fedavg(1, FIT, objective=BalancedSoftmax()))))


@pytest.mark.parametrize("option", [{"head": "cubic"}, {"coupling": "none"}, {"gamma": -1}])
def test_bad_options_are_named(option: dict[str, object]) -> None:
    with pytest.raises(BadInputError, match=rf"algorithm\.{next(iter(option))}"):
        experiment({"name": "t", "algorithm": {"name": "fedrod", **option}})


def odds(scores: Array, y: NDArray[np.int64]) -> Array:
    """Return softmax minus one-hot, over the number of rows."""
    out = np.exp(scores - scores.max(axis=1, keepdims=True))
    out /= out.sum(axis=1, keepdims=True)
    out[np.arange(len(y)), y] -= 1
    result: Array = out / len(y)
    return result


def oracle(w: Array, data: list[tuple[Array, NDArray[np.int64]]], lr: float) -> tuple[Array, list[Array]]:
    """Play three rounds of two full-batch steps with linear heads on the inputs; biases are last columns."""
    own = [np.zeros_like(w) for _ in data]
    rows = np.array([len(y) for _, y in data])
    for _ in range(3):
        ends = []
        for k, (x, y) in enumerate(data):
            padded, here = np.hstack([x, np.ones((len(x), 1))]), w.copy()
            lift = np.log(
                np.bincount(y, minlength=3), where=np.bincount(y, minlength=3) > 0, out=np.full(3, -1e30)
            )
            for _ in range(2):
                generic = padded @ here.T
                slope = odds(generic + padded @ own[k].T, y).T @ padded
                here = here - lr * odds(generic + lift, y).T @ padded
                own[k] = own[k] - lr * slope
            ends.append(here)
        w = sum(n * end for n, end in zip(rows / rows.sum(), ends, strict=True))
    return w, own


def test_agrees_with_numpy() -> None:
    draw = np.random.default_rng(8)
    data = [(draw.normal(size=(n, 4)), draw.integers(top, size=n)) for n, top in ((6, 3), (11, 2), (1, 1))]
    holders = []
    for x, y in data:
        table = Table(torch.from_numpy(x).float(), torch.from_numpy(y))
        holders.append(Holder(table, table.take(slice(0, 0)), table.take(slice(0, 0))))
    model = Model(partial(softmax, (4,), 3), shape=(4,), classes=3)
    algorithm = fedrod(3, Fit(lr=0.3, batch="all", steps=2))
    played = play(World(Federation(holders, {}, 3, (4,)), model, algorithm, Key.root(4)))

    def matrix(weight: Tensor, bias: Tensor) -> Array:
        return np.hstack([weight, bias[:, None]]).astype(np.float64)

    first, last = (played.steps[i].states["server"].params for i in (0, -1))
    shared, own = oracle(matrix(first["head.weight"], first["head.bias"]), data, 0.3)
    np.testing.assert_allclose(matrix(last["head.weight"], last["head.bias"]), shared, atol=2e-5)
    for client, expected in enumerate(own):
        kept = played.snapshots[-1][client]["personal"]
        found = matrix(kept["personal.scores.weight"], kept["personal.scores.bias"])
        np.testing.assert_allclose(found, expected, atol=2e-5)
