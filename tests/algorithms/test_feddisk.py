"""FedDisk: V-DK3, V-DK8, an oracle, early stopping, masks, awkward clients, bad input, the laws."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tomli_w
import torch
from click.testing import CliRunner

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.feddisk import feddisk, feddisk_ab, wire
from potluck.cli import cli
from potluck.config import experiment
from potluck.core import Algorithm
from potluck.errors import BadInputError
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws import LAWS, toy
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.mlp import softmax
from potluck.parts.density_model import Made, Mixture
from potluck.parts.judge import Judge
from potluck.parts.ratio import CpeSample, LogRatio, Paper, Ratio
from potluck.seed import topology_of
from potluck.table import Table
from potluck.tree import nbytes, same
from potluck.visit import Call, visit
from potluck.world import Faults, World

if TYPE_CHECKING:
    from tests.algorithms.conftest import Build, Numbers, Oracle

FULL = Fit(lr=0.2, batch="all", epochs=2)
GENTLE: Ratio = LogRatio(temp="D")
QUICK: dict[str, Any] = {"density_rounds": 3, "local_chunks": 2, "patience": 1}
MIXED: dict[str, Any] = {**QUICK, "density": Mixture(2), "ratio": GENTLE}
DIGITS, DENSITY = 8, 1


def binary(rows: int, ones: list[float], key: Key) -> Table:
    """Draw rows of independent coins; the class is the first one."""
    x = (key.numpy().random((rows, len(ones))) < np.array(ones)).astype(np.float32)
    return Table(torch.from_numpy(x), torch.from_numpy(x[:, 0].astype(np.int64)))


def coins(algorithm: Algorithm, rows: int = 60, seed: int = 0) -> World:
    """Return two clients with different product-Bernoulli rows."""
    root = Key.root(8)
    chances = [[0.5] + [0.3] * 7, [0.5] + [0.6] * 7]
    holders = [
        Holder(*(binary(n, chances[k], root / k / i) for i, n in enumerate((rows, rows // 3, 10))))
        for k in range(2)
    ]
    federation = Federation(holders, {"global": holders[0].test}, 2, (DIGITS,))
    model = Model(partial(softmax, (DIGITS,), 2), shape=(DIGITS,), classes=2)
    return World(federation, model, algorithm, Key.root(seed))


def densities(world: World) -> list[Any]:
    """Return the states of the pooled density, from round 0."""
    return [step.states["server"] for step in play(world).steps if step.stage == "density"]


def test_weights_of_one_are_fedavg_bit_for_bit(build: Build) -> None:
    disk = play(build(feddisk(3, FULL, **MIXED), val=0, participation=0.7))
    plain = play(build(fedavg(3, FULL), val=0, participation=0.7))
    assert same(disk.steps[-1].states["server"].params, plain.steps[-1].states["server"].params)
    assert set(map(float, disk.snapshots[-1][0]["row_weights"])) == {1.0}
    marked = {(f.stage, f.who, f.value) for f in disk.facts if f.what == "reason"}
    why = {"own_density": "no_validation_rows", "ratio": "no_own_density"}
    assert marked == {(stage, f"client/{k}", reason) for k in range(3) for stage, reason in why.items()}


def test_three_rounds_agree_with_the_oracle(build: Build, numbers: Numbers, oracle: Oracle) -> None:
    world = build(feddisk(3, FULL, **MIXED))
    played = play(world)
    alphas = [played.snapshots[-1][k]["row_weights"].double().numpy() for k in range(3)]
    assert all(alpha.std() > 0.01 for alpha in alphas)
    tables, w = numbers.tables(world), numbers.start(world)
    for _ in range(3):
        states = []
        for alpha, (x, y) in zip(alphas, tables, strict=True):
            now = dict(w)
            for _ in range(FULL.epochs):
                rows = [oracle.gradient(now, x[i : i + 1], y[i : i + 1]) for i in range(len(y))]
                now = {
                    name: now[name]
                    - FULL.lr * sum(a * g[name] for a, g in zip(alpha, rows, strict=True)) / len(y)
                    for name in now
                }
            states.append(now)
        w = oracle.mean(states, [len(y) for _, y in tables])
    for name, leaf in numbers.weights(played.steps[-1].states["server"].params).items():
        np.testing.assert_allclose(leaf, w[name], atol=2e-5)


def test_the_density_stops_early_and_its_best_model_goes_on() -> None:
    world = coins(feddisk(1, ratio=GENTLE, density_rounds=60, density_fit=Fit("adam", lr=0.05, epochs=6),
                          patience=2, local_chunks=1), rows=30)  # fmt: skip
    played = play(world)
    states = [step.states["server"] for step in played.steps if step.stage == "density"]
    assert len(states) < 50, "it stopped"
    model, sizes = world.model_of(DENSITY), [len(holder.train) for holder in world.federation.holders]

    def loss(params: Any) -> float:
        means = [float(model.rows(params, h.val).double().mean()) for h in world.federation.holders]
        return float(np.average(means, weights=sizes))

    losses = [loss(state.params) for state in states[:-1]]
    best = int(np.argmin(losses))
    assert best == len(losses) - 3, "two rounds of patience"
    assert same(states[-1].best, states[best].params)
    assert states[-1].watch.loss == pytest.approx(losses[best])
    ratio = next(step.states["server"] for step in played.steps if step.stage == "ratio")
    assert same(ratio.density, states[best].params)
    assert ratio.total == sum(sizes)


def test_without_a_worse_loss_the_last_density_goes_on() -> None:
    states = densities(coins(feddisk(1, **{**QUICK, "density_rounds": 2})))
    assert same(states[-1].best, states[-1].params)


def test_an_averaged_made_is_still_a_distribution() -> None:
    world = coins(feddisk(1, **QUICK))
    state = densities(world)[-1]
    rows = torch.tensor(list(itertools.product([0.0, 1.0], repeat=DIGITS)))
    module: Any = world.model_of(DENSITY).load(state.params).eval()
    with torch.no_grad():
        assert float(module.log_prob(rows).double().exp().sum()) == pytest.approx(1, abs=1e-5)


def test_masks_travel_as_seed_and_digest_and_others_are_refused() -> None:
    world = coins(feddisk(1, density=Made((6,), mask_seed=5), **QUICK))
    stage = world.stage(DENSITY)
    view = stage.view(stage.init(world.site(DENSITY, "server"), None).state, 0)
    assert int(view.extra["mask_seed"]) == 5
    assert nbytes(view.extra) == 24
    assert not visit(world, Call("local", DENSITY, 1, 0, view)).failed
    other = coins(feddisk(1, density=Made((6,), mask_seed=6), **QUICK))
    assert "masks are not those of the shared MADE" in visit(other, Call("local", DENSITY, 1, 0, view)).failed


def test_the_papers_estimator_cannot_see_what_independent_inputs_differ_in() -> None:
    """V-DK6 through the whole method: nearly constant, while the density ratio finds the truth."""
    long: dict[str, Any] = {
        "density_rounds": 60, "density_fit": Fit("adam", lr=0.01), "patience": 5,
        "local_fit": Fit("adam", lr=0.01, epochs=2),
    }  # fmt: skip
    found = {}
    for name, ratio in (("paper", Paper(judge=Judge(epochs=10))), ("log", LogRatio(clip=1e6))):
        world = coins(feddisk(1, ratio=ratio, **long), rows=900)
        found[name] = play(world).snapshots[-1][0]["row_weights"].double()
        x = world.federation.holders[0].train.x[:, 1:].double()
    chance = [(x * math.log(p) + (1 - x) * math.log(1 - p)).sum(dim=1).exp() for p in (0.3, 0.6)]
    truth = (chance[0] + chance[1]) / 2 / chance[0]
    assert float(found["paper"].std()) < 0.2
    assert float((truth / truth.mean()).std()) > 1
    spread = torch.corrcoef(torch.stack([found["log"].log(), truth.log()]))[0, 1]
    assert float(spread) > 0.8


def test_whoever_misses_the_weighing_trains_with_ones(build: Build) -> None:
    world = dataclasses.replace(build(feddisk(2, FULL, **MIXED), [6] * 9), faults=Faults(lost=0.4))
    played = play(world)
    reasons = {f.who for f in played.facts if f.what == "reason" and f.value == "unweighted"}
    without = {f"client/{k}" for k, memory in played.snapshots[-1].items() if "row_weights" not in memory}
    assert reasons == without
    assert 0 < len(without) < 9


@pytest.mark.parametrize(
    "ratio", [Paper(judge=Judge(epochs=2)), GENTLE, CpeSample(judge=Judge(epochs=2))], ids=type
)
def test_empty_single_row_and_single_class_clients(ratio: Ratio) -> None:
    world = toy.world(
        feddisk(2, FULL, ratio, **QUICK), given=toy.federation((20, 0, 1, 2, 12)), participation=1.0
    )
    played = play(world)
    weights = {k: memory["row_weights"] for k, memory in played.snapshots[-1].items()}
    assert [len(weights[k]) for k in range(5)] == [20, 0, 1, 2, 12]
    assert float(weights[2]) == 1.0
    reasons = {(f.who, f.value) for f in played.facts if f.what == "reason"}
    assert {("client/2", "single_row"), ("client/3", "no_validation_rows")} <= reasons
    for k in (0, 4):
        assert float(weights[k].mean()) == pytest.approx(1, abs=1e-5)
    assert all(math.isfinite(t.figures()["loss"]) for t in played.scores.clients.values() if t.rows)


def test_what_is_written_down_of_the_weights(build: Build) -> None:
    played = play(build(feddisk(1, FULL, **MIXED)))
    mine = {f.what: f.value for f in played.facts if f.stage == "ratio" and f.who == "client/0"}
    alpha = played.snapshots[-1][0]["row_weights"]
    counts: Any = mine["row_weights/histogram"]
    assert len(counts) == 20
    assert int(counts.sum()) == len(alpha) == 12
    places = np.clip(np.floor((np.log(alpha.numpy()) / math.log(20) + 1) * 10), 0, 19).astype(int)
    np.testing.assert_array_equal(counts.numpy(), np.bincount(places, minlength=20))
    lowest, highest = mine["row_weights/lowest"], mine["row_weights/highest"]
    assert isinstance(lowest, torch.Tensor)
    assert isinstance(highest, torch.Tensor)
    assert int(lowest[0]) == int(alpha.argmin())
    assert int(highest[0]) == int(alpha.argmax())
    assert mine["privacy/bound"] == math.inf, "real-valued rows: the bound says nothing"


def test_the_privacy_bound_of_rows_on_a_grid() -> None:
    world = coins(feddisk(1, **QUICK))
    found = {f.who: f.value for f in play(world).facts if f.what == "privacy/bound"}
    for k, holder in enumerate(world.federation.holders):
        _, counts = np.unique(holder.train.x.numpy(), axis=0, return_counts=True)
        p = counts / counts.sum()
        assert found[f"client/{k}"] == pytest.approx(0.5 * float(-(p * np.log(p)).sum()))


def test_rows_outside_0_and_1_are_refused_with_a_way_out(build: Build) -> None:
    with pytest.raises(
        BadInputError, match=r'^client 0: rows from -.* no Bernoulli density.*normalise = "unit".*flow'
    ):
        play(build(feddisk(1, FULL, **QUICK)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"data": {"name": "digits", "normalise": "standard"}},
            "client 0: rows from .* no Bernoulli density",
        ),
        ({"algorithm": {"name": "feddisk", "density": {"name": "gaussian_mixture"}}}, "only density"),
        ({"algorithm": {"name": "feddisk", "density": {"name": "vae"}}}, "must be a density"),
    ],
    ids=["rows", "estimator", "density"],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    table = {"name": "bad", "partition": {"name": "iid", "clients": 3}, "algorithm": {"name": "feddisk"}}
    file = tmp_path / "bad.toml"
    file.write_text(tomli_w.dumps({**table, **change}))
    told = CliRunner().invoke(cli, ["run", str(file), "--out", str(tmp_path / "run"), "--workers", "0"])
    assert isinstance(told.exception, BadInputError)
    assert re.search(words, str(told.exception))
    assert "\n" not in str(told.exception)
    assert not (tmp_path / "run").exists()


def test_pooled_raw_rows_leak_and_need_a_server() -> None:
    algorithm = feddisk_ab(1, judge=Judge(epochs=2))
    assert [stage.stream for stage in algorithm.stages] == ["rows", "ratio", "train"]
    assert algorithm.stages[0].leaks
    assert not any(stage.leaks for stage in feddisk().stages)
    table = {"name": "ab", "algorithm": {"name": "feddisk-ab"}, "topology": {"name": "ring"}}
    made = experiment(table)
    with pytest.raises(BadInputError, match="pools rows at one server"):
        topology_of(made, made.world(0))


def test_the_pool_is_a_sample_of_all_rows() -> None:
    world = coins(feddisk_ab(1, judge=Judge(epochs=2), most=50))
    pool = next(step for step in play(world).steps if step.stage == "rows" and step.round == 1).states[
        "server"
    ]
    assert pool.rows.shape == (50, DIGITS)
    assert pool.sizes == {0: 60, 1: 60}


def test_own_densities_stay_until_the_rows_are_weighed_and_depend_on_rows_alone() -> None:
    world = coins(feddisk(1, **QUICK))
    twins = dataclasses.replace(world.federation, holders=[world.federation.holders[0]] * 2)
    played = play(dataclasses.replace(world, federation=twins))
    after = {step.stage: memories for step, memories in zip(played.steps, played.snapshots, strict=True)}
    assert set(after["own_density"][0]) == {"own_density"}
    assert not after["train"][0]["own_density"]
    assert torch.equal(*(after["train"][k]["row_weights"] for k in (0, 1)))
    crossed = [f.value for f in played.facts if f.stage == "own_density" and f.what.startswith("bytes/")]
    assert crossed
    assert not any(crossed)


def test_from_a_configuration() -> None:
    table = {
        "name": "disk",
        "algorithm": {
            "name": "feddisk",
            "ratio": {"name": "paper", "link": "prob", "clip": 5, "judge": {"epochs": 3}},
            "density": {"name": "made", "hidden": [7, 5], "order": "random", "mask_seed": 3},
        },
    }
    made = experiment(table)
    stage: Any = made.build_algorithm().stages[2]
    assert stage.ratio == Paper(5.0, "prob", Judge(epochs=3))
    assert stage.density == Made((7, 5), "random", 3)
    assert experiment(made.resolved()).digest() == made.digest()
    with pytest.raises(BadInputError, match=r"algorithm.ratio.link"):
        experiment({"name": "x", "algorithm": {"name": "feddisk", "ratio": {"name": "paper", "link": "no"}}})


def test_a_wrong_architecture_is_refused() -> None:
    made = experiment({"name": "x", "algorithm": {"name": "feddisk", "density": {"name": "vae"}}})
    with pytest.raises(BadInputError, match="must be a density"):
        play(made.world(0))


def test_what_crosses_in_training_is_what_the_file_says(build: Build) -> None:
    world = build(feddisk(1, FULL, **MIXED))
    facts = {f.what: f.value for f in play(world).facts if f.stage == "train" and f.who == "server"}
    down, up = wire(world.model)
    assert (facts["bytes/down"], facts["bytes/up"]) == (3 * down, 3 * up)
    silent = [f for f in play(world).facts if f.stage == "ratio" and f.what == "bytes/up"]
    assert sum(float(f.value) for f in silent if isinstance(f.value, int | float)) == 0


SMALL: dict[str, Any] = {**QUICK, "rounds": 4, "fit": Fit(lr=0.1, epochs=2)}


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(
    "algorithm",
    [
        feddisk(ratio=Paper(judge=Judge(epochs=3)), **SMALL),
        feddisk(ratio=CpeSample(judge=Judge(epochs=3)), **SMALL),
        feddisk(ratio=GENTLE, density=Mixture(2), **SMALL),
        feddisk_ab(rounds=4, fit=SMALL["fit"], judge=Judge(epochs=3)),
    ],
    ids=["paper", "cpe_sample", "mixture", "raw"],
)
def test_laws(algorithm: Algorithm, law: Any) -> None:
    law(algorithm)


def test_given_initial_weights_are_the_classifiers_not_the_densitys() -> None:
    world = coins(feddisk(1, FULL, **QUICK))
    given = {name: torch.full_like(leaf, 0.5) for name, leaf in world.model.init(Key.root(0)).items()}
    steps = play(dataclasses.replace(world, initial=given)).steps
    first = {step.stage: step.states["server"] for step in steps if step.round == 0}
    assert same(first["train"].params, given)
    assert same(first["density"].params, densities(world)[0].params)
