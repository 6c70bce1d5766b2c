"""FedBN: the checks V-BN1 to V-BN3, a numpy oracle, newcomers, wire, and weights."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn

from potluck import report
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedbn import NO_NORMS, Norms, calibrated, fedbn, wire
from potluck.config import experiment
from potluck.core import Algorithm
from potluck.errors import BadInputError
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import Bench, Played, play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.network import Network
from potluck.roles import Uniform
from potluck.run import run
from potluck.table import Table
from potluck.tree import same
from potluck.visit import Answer, Call, visit
from potluck.world import World

Array = NDArray[np.float64]
FIT = Fit(lr=0.05, batch=8)


class Misnamed(nn.Module):
    """A network whose norm layer is called `norm1` and whose `bn1` is none."""

    def __init__(self) -> None:
        super().__init__()
        self.bn1, self.norm1, self.head = nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm1(self.bn1(x.flatten(1))).relu())
        return out


def crossed(world: World) -> tuple[Played, set[str]]:
    """Play, and return also the names of all leaves that travelled, down or up."""
    names: set[str] = set()

    def watched(world: World, call: Call) -> Answer:
        answer = visit(world, call)
        names.update(call.view.params, *([] if call.kind == "score" else [answer.send.params]))
        return answer

    return play(world, Bench(world, around=watched)), names


def misnamed(algorithm: Algorithm) -> World:
    return replace(toy.world(algorithm, participation=1.0), model=Model(Misnamed, shape=toy.SHAPE, classes=3))


def test_norm_layers_never_travel_whatever_their_names() -> None:
    world = misnamed(fedbn(2, FIT))
    played, names = crossed(world)
    assert world.model.norms == {name for name in world.model.slots if name.startswith("norm1.")}
    assert names == set(world.model.slots) - world.model.norms
    one, other = (played.snapshots[-1][client]["personal"] for client in (0, 1))
    assert set(one) == world.model.norms
    for name in ("norm1.weight", "norm1.bias", "norm1.running_mean", "norm1.running_var"):
        assert not torch.equal(one[name], other[name])


@pytest.mark.parametrize("layer", [nn.GroupNorm(2, 8), nn.LayerNorm(8)])
def test_all_kinds_of_norm_layers_stay(layer: nn.Module) -> None:
    def factory() -> nn.Module:
        return Network(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), layer), nn.Linear(8, 3))

    world = replace(toy.world(fedbn(1, FIT)), model=Model(factory, shape=toy.SHAPE, classes=3))
    _, names = crossed(world)
    assert names == {"body.1.weight", "body.1.bias", "head.weight", "head.bias"}


def test_without_norm_layers_it_is_fedavg_and_says_so() -> None:
    one = play(toy.world(fedbn(3, FIT), norms=False))
    other = play(toy.world(fedavg(3, FIT), norms=False))
    assert one.fingerprint == other.fingerprint
    assert [(fact.round, fact.value) for fact in one.facts if fact.what == "note"] == [(0, NO_NORMS)]
    assert all(tally is not None for tally in one.scores.sites.values())
    assert not [fact for fact in play(toy.world(fedbn(1, FIT))).facts if fact.what == "note"]


def test_the_first_visit_starts_from_the_initial_norm_layers() -> None:
    played = play(toy.world(fedbn(1, replace(FIT, epochs=0)), participation=1.0))
    for memory in played.snapshots[-1].values():
        assert torch.equal(memory["personal"]["body.2.running_var"], torch.ones(16))


def test_given_initial_weights_reach_the_norm_layers() -> None:
    world = toy.world(fedbn(1, replace(FIT, epochs=0)), participation=1.0)
    given = {name: torch.full_like(leaf, 2) for name, leaf in world.model.init(Key.root(9)).items()}
    played = play(replace(world, initial=given))
    assert torch.equal(played.snapshots[-1][0]["personal"]["body.2.running_var"], torch.full((16,), 2.0))
    assert torch.equal(played.steps[-1].states["server"].params["head.bias"], torch.full((3,), 2.0))


def test_newcomers_are_not_served_unless_calibrated_for() -> None:
    assert play(toy.world(fedbn(3, FIT))).scores.sites["server", "global"] is None
    served = play(toy.world(fedbn(3, FIT, newcomer="calibrate"))).scores.sites["server", "global"]
    assert served is not None
    assert served.rows == 60


def test_calibration_is_for_those_without_norm_layers_only() -> None:
    plain, calibrating = play(toy.world(fedbn(1, FIT))), play(toy.world(fedbn(1, FIT, newcomer="calibrate")))
    same_bits = {
        client: same(tally.tree(), calibrating.scores.clients[client].tree())
        for client, tally in plain.scores.clients.items()
        if tally.rows
    }
    trained = {client for client, memory in plain.snapshots[-1].items() if memory}
    assert trained
    assert {client for client, equal in same_bits.items() if equal} == trained - {2}


def test_calibration_normalises_with_the_rows_themselves() -> None:
    model = Model(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)), shape=(4,), classes=4)
    params = model.init(Key.root(0))
    x = torch.randn(50, 4, generator=Key.root(1).torch()) * 3 + 5
    rows = x.double().numpy()
    expected = (rows - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + 1e-5)
    np.testing.assert_allclose(calibrated(model, params, x).numpy(), expected, atol=1e-5)
    torch.testing.assert_close(calibrated(model, params, x[:1]), model(params, x[:1]))


def test_the_wire_leaves_norm_layers_out() -> None:
    world = toy.world(fedbn(2, FIT))
    down, up = wire(world.model)
    assert down == 4 * (64 * 16 + 16 + 16 * 3 + 3)
    facts = {(f.round, f.what): f.value for f in play(world).facts if f.who == "server"}
    assert (facts[2, "bytes/down"], facts[2, "bytes/up"]) == (3 * down, 3 * up)


def test_clients_may_weigh_alike() -> None:
    played = play(toy.world(fedbn(1, FIT, weigh=Uniform()), participation=1.0))
    weights = {fact.who: fact.value for fact in played.facts if fact.what == "weight"}
    assert weights.pop("client/2") == 0
    assert set(weights) == {f"client/{k}" for k in (0, 1, 3, 4, 5, 6)}
    assert all(weight == pytest.approx(1 / 6) for weight in weights.values())


def test_an_unknown_way_to_welcome_newcomers_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"algorithm\.newcomer"):
        experiment({"name": "t", "algorithm": {"name": "fedbn", "newcomer": "guess"}})


def test_the_share_goes_with_other_methods() -> None:
    played = play(toy.world(fedavg(2, FIT, share=Norms())))
    assert played.fingerprint == play(toy.world(fedbn(2, FIT))).fingerprint


class Normed(nn.Module):
    """Softmax regression on normalised inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.scale(x))
        return out


def oracle(
    start: dict[str, Array], data: list[tuple[Array, NDArray[np.int64]]], lr: float
) -> dict[str, Array]:
    """Play three rounds of two full-batch steps; scale and shift stay, the head is averaged by rows."""
    w, b = start["head.weight"], start["head.bias"]
    own = [(start["scale.weight"].copy(), start["scale.bias"].copy()) for _ in data]
    for _ in range(3):
        ends = []
        for k, (x, y) in enumerate(data):
            unit = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
            (gamma, beta), here, bias = own[k], w.copy(), b.copy()
            for _ in range(2):
                h = unit * gamma + beta
                odds = np.exp(h @ here.T + bias)
                odds /= odds.sum(axis=1, keepdims=True)
                odds[np.arange(len(y)), y] -= 1
                odds /= len(y)
                back = odds @ here
                gamma, beta = gamma - lr * (back * unit).sum(axis=0), beta - lr * back.sum(axis=0)
                here, bias = here - lr * odds.T @ h, bias - lr * odds.sum(axis=0)
            own[k] = (gamma, beta)
            ends.append((here, bias))
        shares = np.array([len(y) for _, y in data]) / sum(len(y) for _, y in data)
        w = sum(s * end[0] for s, end in zip(shares, ends, strict=True))
        b = sum(s * end[1] for s, end in zip(shares, ends, strict=True))
    return {"head.weight": w, "head.bias": b, "scale.weight": own[0][0], "scale.bias": own[0][1]}


def test_agrees_with_numpy() -> None:
    draw = np.random.default_rng(2)
    data = [
        (draw.normal(size=(n, 4)) * (k + 1) + k, draw.integers(3, size=n)) for k, n in enumerate((6, 11, 4))
    ]
    holders = []
    for x, y in data:
        table = Table(torch.from_numpy(x).float(), torch.from_numpy(y))
        holders.append(Holder(table, table.take(slice(0, 0)), table.take(slice(0, 0))))
    model = Model(Normed, shape=(4,), classes=3)
    algorithm = fedbn(3, Fit(lr=0.3, batch="all", steps=2))
    world = World(Federation(holders, {}, 3, (4,)), model, algorithm, Key.root(4))
    played = play(world)
    start = {name: leaf.double().numpy() for name, leaf in model.init(Key.root(4) / "train" / "init").items()}
    expected = oracle(start, data, 0.3)
    found = {**played.steps[-1].states["server"].params, **played.snapshots[-1][0]["personal"]}
    for name, leaf in expected.items():
        np.testing.assert_allclose(found[name].numpy(), leaf, atol=2e-5)


def test_the_note_is_shown_at_the_command_line_and_in_the_report(tmp_path: Path) -> None:
    table = {
        "name": "t",
        "partition": {"name": "iid", "clients": 2},
        "model": {"name": "softmax"},
        "algorithm": {"name": "fedbn", "rounds": 1},
    }
    run(experiment(table), tmp_path / "out")
    shown = io.StringIO()
    report.render([tmp_path / "out"], Console(file=shown, width=200))
    assert f"note: {NO_NORMS}" in shown.getvalue()
    page = report.write(tmp_path / "out", [tmp_path / "out"])
    assert NO_NORMS in page.read_text(encoding="utf-8")
