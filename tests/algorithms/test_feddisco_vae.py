"""FedDisco with a beta-VAE and the federated VAE: V-VA3 to V-VA6, a numpy oracle, options, laws, cost."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.stats import norm
from torch import Tensor

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.feddisco import LabelDiscrepancy
from potluck.algorithms.feddisco_vae import LatentDiscrepancy, feddisco_vae
from potluck.algorithms.fedvae import fedvae, wire
from potluck.average import Average, Global
from potluck.config import experiment
from potluck.core import Algorithm, Inbox, Sent, Site
from potluck.errors import BadInputError
from potluck.federation import Federation, Holder
from potluck.key import Key
from potluck.laws import check, toy
from potluck.laws.engines import Played, play
from potluck.learn import Fit
from potluck.model import Model
from potluck.models.vae import vae
from potluck.parts.autoencoder import Autoencoder, ConvAutoencoder, autoencoder
from potluck.parts.census import LabelCensus
from potluck.parts.latent_census import Distance, LatentCensus, Latents, compared
from potluck.parts.latent_codes import encode
from potluck.report import plot
from potluck.report.page import write
from potluck.roles import Told
from potluck.run import run
from potluck.table import Table
from potluck.world import World

SMALL = Autoencoder(hidden=(12,), latent=2, beta=0.1)
FIT = Fit(optimizer="adam", lr=3e-3, batch=16)
NOISE = ("numbers_are_only_names",)  # a client's noise is named after its number
NIID2: dict[str, Any] = {
    "name": "niid2",
    "data": {"name": "digits"},
    "partition": {"name": "niid2"},
    "split": {"val": 0.0, "test": 0.0},
}
LEARNT = {
    "name": "feddisco-vae",
    "a": 0.9,
    "rounds": 1,
    "vae_rounds": 5,
    "fit": {"optimizer": "adam", "lr": 3e-3, "batch": 16, "epochs": 5},
    "vae": {"name": "vae", "hidden": [64, 32], "beta": 0.1},
}


def system(**options: Any) -> Algorithm:
    """Return a small system; the neutral rest is that of the poster."""
    given: dict[str, Any] = {"rounds": 1, "fit": FIT, "vae": SMALL, "a": 0.1}
    return feddisco_vae(**{**given, **options})


def world(algorithm: Algorithm, *, participation: float = 1.0, given: Federation | None = None) -> World:
    return toy.world(algorithm, participation=participation, dropout=0.0, given=given)


def changed(tables: Mapping[str, Any], only: int | None = None) -> Federation:
    """Return the toy federation with parts of its holders (or of one of them) exchanged."""
    known = toy.federation()
    holders: list[Holder] = []
    for k, holder in enumerate(known.holders):
        new = {part: make(getattr(holder, part)) for part, make in tables.items()}
        holders.append(replace(holder, **new))
        if only is not None and k != only:
            holders[-1] = holder
    return replace(known, holders=holders)


def facts(played: Played, stage: str, what: str) -> dict[int, Any]:
    """Return the last thing of that name that was written about each client."""
    return {
        int(fact.who.removeprefix("client/")): fact.value
        for fact in played.facts
        if (fact.stage, fact.what) == (stage, what) and fact.who.startswith("client/")
    }


def distances(played: Played) -> dict[int, float]:
    return {client: float(value) for client, value in facts(played, "latent", "discrepancy").items()}


def trained(played: Played, stage: str) -> Any:
    """Return the state in which a stage ended."""
    return [step for step in played.steps if step.stage == stage][-1].states["server"]


def raw(
    weigh: LatentDiscrepancy, rows: Sequence[int], found: Sequence[float], heard: Sequence[int] | None = None
) -> list[float]:
    """Return the raw weights of those heard, where all have told their distances."""
    everyone = dict(enumerate(rows))
    past = Latents({}, dict(enumerate(found)), everyone if weigh.scope == "all" else {})
    told = [Told(k, rows[k], {}) for k in (heard if heard is not None else everyone)]
    return list(weigh.raw(told, past, list(everyone)))


def w1_oracle(sample: npt.NDArray[np.float64]) -> float:
    """Integrate |F^-1(u) - Phi^-1(u)| over a fine grid of u."""
    u = (np.arange(200_000) + 0.5) / 200_000
    quantiles = np.sort(sample)[np.minimum((u * len(sample)).astype(int), len(sample) - 1)]
    return float(np.abs(quantiles - norm.ppf(u)).mean())


def test_the_defaults_are_the_posters() -> None:
    first, census, last = feddisco_vae().stages
    assert isinstance(first, Average)
    assert isinstance(last, Average)
    assert isinstance(last.weigh, LatentDiscrepancy)
    assert [stage.stream for stage in (first, census, last)] == ["vae", "latent", "train"]
    assert [stage.rounds for stage in (first, census, last)] == [25, 1, 25]
    poster = Fit(optimizer="adam", lr=1e-3, batch=64, epochs=10)
    assert first.fit == last.fit == poster
    assert (last.weigh.a, last.weigh.b, last.weigh.d_norm, last.weigh.z_source) == (0.5, 0.0, "raw", "sample")
    assert census.everyone
    model = last.network(Model(lambda: torch.nn.Linear(1, 1), shape=(1, 28, 28), classes=10))
    assert model.count() == 1_068_820
    before, _, after = feddisco_vae(rounds=3, fit=Fit(lr=0.5), task="classifier").stages
    assert isinstance(before, Average)
    assert isinstance(after, Average)
    assert (before.rounds, before.fit, after.fit) == (3, poster, Fit(lr=0.5))


def test_distances_and_weights_agree_with_numpy() -> None:
    played = play(world(system(rounds=1, vae_rounds=2, z_source="mean", a=0.15)))
    leaves = {name: leaf.numpy().astype(float) for name, leaf in trained(played, "vae").params.items()}
    expected = {}
    for k, holder in enumerate(toy.federation().holders):
        x = holder.train.x.numpy().reshape(-1, 64).astype(float)
        hidden = np.maximum(x @ leaves["body.1.weight"].T + leaves["body.1.bias"], 0)
        z = hidden @ leaves["head.mean.weight"].T + leaves["head.mean.bias"]
        expected[k] = float(np.mean([w1_oracle(column) for column in z.T])) if len(x) else math.inf
    assert distances(played) == pytest.approx(expected, abs=1e-3)
    sizes = np.array(toy.SIZES, dtype=float)
    d = np.array([distances(played)[k] for k in range(len(sizes))])
    weights = np.where(sizes > 0, np.maximum(sizes / sizes.sum() - 0.15 * d, 0), 0)
    found = facts(played, "train", "weight")
    assert [found[k] for k in range(len(sizes))] == pytest.approx(list(weights / weights.sum()), abs=1e-12)
    effective = [fact.value for fact in played.facts if fact.what == "effective_clients"]
    assert effective[-1] == pytest.approx(weights.sum() ** 2 / np.square(weights).sum())


def test_without_a_and_b_it_is_averaging() -> None:
    """V-VA3, and stage A is the federated VAE to the bit."""
    averaged = Algorithm((Average(2, FIT, architecture=SMALL),), "averaged")
    plain, same = play(world(averaged)), play(world(system(rounds=2, a=0.0)))
    for name, leaf in trained(plain, "train").params.items():
        assert torch.allclose(leaf, trained(same, "train").params[name], atol=1e-7)
    alone = trained(play(world(fedvae(2, FIT, SMALL))), "vae").params
    assert all(torch.equal(leaf, trained(same, "vae").params[name]) for name, leaf in alone.items())
    sizes = [n / sum(toy.SIZES) for n in toy.SIZES]
    assert list(facts(same, "train", "weight").values()) == pytest.approx(sizes, abs=1e-15)
    assert raw(LatentDiscrepancy(a=0, b=0), [3, 5, 0], [0.1, math.inf, math.inf]) == [3 / 8, 5 / 8, 0.0]


@given(
    some.lists(some.tuples(some.integers(1, 500), some.floats(0, 3)), min_size=2, max_size=8),
    some.floats(0.01, 2),
    some.floats(0, 5),
)
@settings(max_examples=80)
def test_weights_fall_with_distance_and_even_out_with_b(
    clients: list[tuple[int, float]], a: float, b: float
) -> None:
    rows, d = [n for n, _ in clients], [far for _, far in clients]
    before = raw(LatentDiscrepancy(a, b), rows, d)
    after = raw(LatentDiscrepancy(a, b), rows, [d[0] + 0.5, *d[1:]])
    assert min(before) >= 0
    assert after[1:] == before[1:]
    assert after[0] < before[0] or after[0] == before[0] == 0
    even = np.array(raw(LatentDiscrepancy(a, 1e6), rows, d))
    assert even / even.sum() == pytest.approx(np.full(len(rows), 1 / len(rows)), abs=1e-4)


def test_the_distances_do_not_see_the_labels() -> None:
    """V-VA4: with other labels the same bits; FedDisco's own discrepancy does change."""

    def one_class(table: Table) -> Table:
        return Table(table.x, torch.zeros_like(table.y))

    def turned(table: Table) -> Table:
        return Table(table.x, (table.y + 1) % toy.CLASSES)

    reference = play(world(system()))
    for make in (one_class, turned):
        other = play(world(system(), given=changed({"train": make})))
        assert distances(other) == distances(reference)
        assert facts(other, "train", "weight") == facts(reference, "train", "weight")
    own = system(discrepancy="label_kl")
    relabelled = play(world(own, given=changed({"train": one_class}, only=0)))
    assert facts(relabelled, "train", "weight") != facts(play(world(own)), "train", "weight")


def test_a_large_a_leaves_the_unbiased_client_alone() -> None:
    """V-VA5 in small: on NIID-2 the weights collapse, and the records say so."""
    played = play(experiment({**NIID2, "algorithm": LEARNT}).world(0))
    assert min(distances(played), key=distances(played).__getitem__) == 0
    weights = facts(played, "train", "weight")
    assert weights[0] == max(weights.values())
    effective = [float(str(fact.value)) for fact in played.facts if fact.what == "effective_clients"]
    assert effective[0] > 5.5
    assert effective[-1] < 1.5
    assert set(facts(played, "train", "reason").values()) == {"zero_weight"}


@pytest.mark.slow
def test_the_unbiased_client_is_nearest_in_most_seeds() -> None:
    """V-VA4: in at least four of five seeds."""
    nearest = []
    for seed in range(5):
        found = distances(play(experiment({**NIID2, "algorithm": LEARNT}).world(seed)))
        nearest.append(min(found, key=found.__getitem__))
    assert nearest.count(0) >= 4


def test_where_all_weights_are_zero_the_rows_decide() -> None:
    played = play(world(system(a=1e6)))
    assert list(facts(played, "train", "weight").values()) == [n / sum(toy.SIZES) for n in toy.SIZES]
    assert "zero_weights" in facts(played, "train", "reason").values()


def test_a_client_whose_codes_are_not_finite_counts_for_nothing() -> None:
    broken = changed({"train": lambda table: Table(torch.full_like(table.x, math.nan), table.y)}, only=0)
    played = play(world(system(a=0.01), given=broken))
    assert distances(played)[0] == math.inf
    weights = raw(LatentDiscrepancy(a=0.1), [10, 10, 10], [0.1, math.inf, 0.3])
    assert weights[1] == 0
    assert weights[0] > weights[2] > 0
    for leaf in trained(played, "train").params.values():
        assert leaf.isfinite().all()


def test_a_client_without_an_answer_counts_with_the_mean() -> None:
    weigh = LatentDiscrepancy(a=0.1)
    told = [Told(k, 10, {}) for k in range(3)]
    found = weigh.raw(told, Latents({}, {0: 0.2, 2: 0.4}, {}), [0, 1, 2])
    assert found[1] == pytest.approx(1 / 3 - 0.1 * 0.3)
    assert weigh.raw(told, Latents({}, {}, {}), [0, 1, 2]) == pytest.approx([1 / 3] * 3)
    assert weigh.raw([], Latents({}, {}, {}), [0]) == []


def test_a_client_of_one_row_has_a_finite_distance() -> None:
    one = changed({"train": lambda table: table.take(slice(0, 1))}, only=0)
    assert 0.5 < distances(play(world(system(), given=one)))[0] < 10


def test_distances_may_be_divided_and_centred() -> None:
    told = [0.2, math.inf, 0.6, math.nan]
    raw_d, centred = compared(told, "raw", False), compared(told, "raw", True)
    assert raw_d[:3].tolist() == told[:3]
    assert centred[[0, 2]].tolist() == pytest.approx([0.0, 0.4])
    assert compared(told, "sum1", False)[[0, 2]].tolist() == pytest.approx([0.25, 0.75])
    assert compared(told, "sum1", True)[[0, 2]].tolist() == pytest.approx([0.0, 1.0])
    for norm_of in (raw_d, centred, compared([0.0, math.inf, 0.0, math.nan], "sum1", True)):
        assert norm_of[1] == math.inf
        assert norm_of[3].isnan()


def test_scope_says_whose_rows_sizes_are_relative_to() -> None:
    rows, d = [10, 30, 60], [0.1, 0.2, 0.05]
    present = raw(LatentDiscrepancy(a=0.5), rows, d, heard=[0, 1])
    assert present == pytest.approx([0.25 - 0.05, 0.75 - 0.1])
    everyone = raw(LatentDiscrepancy(a=0.5, scope="all"), rows, d, heard=[0, 1])
    assert everyone == pytest.approx([0.1 - 0.05, 0.3 - 0.1])
    centred = raw(LatentDiscrepancy(a=0.5, scope="all", d_center=True), rows, d, heard=[0, 1])
    assert centred == pytest.approx([0.1 - 0.025, 0.3 - 0.075])
    played = play(world(system(scope="all"), participation=0.4))
    assert trained(played, "latent").rows == dict(enumerate(toy.SIZES))
    assert not trained(play(world(system(), participation=0.4)), "latent").rows


def test_codes_may_be_means() -> None:
    sampled, means = (distances(play(world(system(z_source=how)))) for how in ("sample", "mean"))
    assert sampled.keys() == means.keys()
    assert all(means[k] != sampled[k] for k in sampled if toy.SIZES[k])
    assert distances(play(world(system()))) == sampled


def test_a_public_encoder_never_sees_the_training_rows() -> None:
    def dark(table: Table) -> Table:
        return Table(torch.zeros_like(table.x), table.y)

    public = system(encoder_by="public")
    one, other = play(world(public)), play(world(public, given=changed({"train": dark})))
    first, second = trained(one, "vae").params, trained(other, "vae").params
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert distances(one) != distances(other)
    federated = trained(play(world(system())), "vae").params
    assert not torch.equal(first["head.mean.weight"], federated["head.mean.weight"])


def test_bad_combinations_are_refused() -> None:
    with pytest.raises(BadInputError, match="neither d_center nor scope"):
        system(discrepancy="label_kl", scope="all")
    bare = changed({"val": lambda table: table.take(slice(0, 0))})
    with pytest.raises(BadInputError, match="client 0 has none"):
        play(world(system(encoder_by="public"), given=bare))
    assert "mesh" not in system().topologies
    model = SMALL.model(Model(lambda: torch.nn.Linear(1, 1), shape=toy.SHAPE))
    with pytest.raises(BadInputError, match="one encoder for all"):
        LatentCensus().init(Site("site/0", model, Key.root(0), [0]), Global({}, {}, {}, None))
    with pytest.raises(BadInputError, match="must be an autoencoder, not a Linear"):
        autoencoder(torch.nn.Linear(1, 1))
    for text, key in (("-1", "a"), ('"both"', "z_source"), ("0", "vae_rounds")):
        with pytest.raises(BadInputError, match=rf"algorithm\.{key}"):
            experiment({"name": "x", "algorithm": {"name": "feddisco-vae", key: json.loads(text)}})
    with pytest.raises(BadInputError, match=r"algorithm\.vae\.latent"):
        experiment({"name": "x", "algorithm": {"name": "fedvae", "vae": {"name": "vae", "latent": 0}}})


@pytest.mark.parametrize(
    "message", [Distance(math.nan, None), Distance(-1.0, None), Distance(1.0, None), Distance(1.0, -1)]
)
def test_an_answer_without_a_distance_is_left_out(message: Distance) -> None:
    census = LatentCensus(rows_too=True)
    inbox = Inbox([Sent(0, message), Sent(1, Distance(0.5, 7))], key=Key.root(0), population=[0, 1])
    merged = census.merge(Latents({"w": torch.ones(1)}, {}, {}), inbox)
    assert merged.state == Latents({}, {1: 0.5}, {1: 7})
    assert merged.notes == {0: "bad_message"}


def test_label_discrepancy_is_one_option_away() -> None:
    for norm_of, normalise in (("sum1", "kl"), ("raw", "none")):
        census, last = system(discrepancy="label_kl", d_norm=norm_of).stages
        assert isinstance(census, LabelCensus)
        assert isinstance(last, Average)
        assert isinstance(last.weigh, LabelDiscrepancy)
        assert (last.weigh.a, last.weigh.b, last.weigh.normalise) == (0.1, 0.0, normalise)


def test_the_classifier_is_the_experiments_model() -> None:
    algorithm = system(task="classifier", rounds=8, fit=Fit(lr=0.1, batch=8, epochs=2), vae_rounds=1, a=0.02)
    played = play(world(algorithm))
    assert "head.decoder.0.weight" not in trained(played, "train").params
    scores = next(iter(played.scores.sites.values()))
    assert scores is not None
    assert scores.figures()["accuracy"] > 0.5


def test_a_classifier_without_a_and_b_is_that_of_fedavg() -> None:
    fit = Fit(lr=0.1, batch=8, epochs=2)
    ours = play(world(system(task="classifier", rounds=2, fit=fit, vae_rounds=1, a=0.0)))
    averaged = trained(play(world(fedavg(2, fit))), "train").params
    for name, leaf in trained(ours, "train").params.items():
        assert torch.allclose(leaf, averaged[name], atol=1e-6)


def test_the_rule_goes_with_other_methods() -> None:
    table = {"name": "disco_vae", "a": 0.1, "vae_rounds": 2, "vae": {"name": "conv_vae", "channels": [4]}}
    made = experiment({"name": "x", "algorithm": {"name": "fedprox", "mu": 0.1, "weigh": table}})
    streams = [(stage.stream, stage.rounds) for stage in made.build_algorithm().stages]
    assert streams == [("vae", 2), ("latent", 1), ("train", 10)]
    assert made.resolved()["algorithm"]["weigh"]["vae"]["name"] == "conv_vae"


@pytest.mark.parametrize("network", [SMALL, ConvAutoencoder(channels=(4,), hidden=8, eval_beta=3.0)])
def test_an_autoencoder_is_scored_by_its_loss(network: Autoencoder | ConvAutoencoder) -> None:
    one = play(world(fedvae(1, FIT, network)))
    tally = next(iter(one.scores.sites.values()))
    assert tally is not None
    assert tally.confusion is None
    found = tally.figures()
    assert found.keys() == {"loss", "reconstruction", "kl"}
    assert found["loss"] == pytest.approx(found["reconstruction"] + network.eval_beta * found["kl"])
    assert play(world(fedvae(1, FIT, network))).fingerprint == one.fingerprint


def test_training_lowers_the_loss() -> None:
    network, fit = replace(SMALL, eval_beta=0.1), replace(FIT, lr=1e-2)
    early, late = (play(world(fedvae(rounds, fit, network))).scores.sites.values() for rounds in (1, 15))
    losses = [tally.figures()["loss"] for tally in (*early, *late) if tally is not None]
    assert losses[1] < 0.8 * losses[0]


def test_the_clients_log_holds_what_is_drawn_and_monitored() -> None:
    played = play(world(system()))
    for client, rows in enumerate(toy.SIZES):
        across = facts(played, "latent", "latent/across").get(client)
        kl = facts(played, "latent", "kl").get(client)
        assert (across is None) == (kl is None) == (rows == 0)
        if isinstance(across, Tensor) and isinstance(kl, Tensor):
            assert len(across) == min(rows, 200)
            assert (kl >= 0).all()
            assert facts(played, "latent", "collapsed")[client] == int((kl < 0.01).sum())


def test_at_most_two_hundred_codes_are_written_down() -> None:
    many = changed({"train": lambda table: toy.rows(777, Key.root(9))}, only=0)
    played = play(world(system(), given=many))
    assert 150 <= len(facts(played, "latent", "latent/up")[0]) <= 200


def test_every_stage_is_counted() -> None:
    built = world(system(rounds=2, vae_rounds=3))
    played = play(built)
    moved = [fact for fact in played.facts if fact.what in ("bytes/up", "bytes/down")]
    down, up = wire_of(built)
    cost = {"vae": 3 * 7 * (down + up), "train": 2 * 7 * (down + up)}
    encoder = sum(leaf.numel() * 4 for name, leaf in built.model_of(0).slots.items() if "decoder" not in name)
    cost["latent"] = 7 * (encoder + 8)
    found: dict[str, float] = dict.fromkeys(cost, 0.0)
    for fact in moved:
        found[fact.stage] += float(str(fact.value))
    assert found == cost
    big = Model(lambda: torch.nn.Linear(1, 1), shape=(1, 28, 28), classes=10)
    assert wire(big) == (4 * 1_068_820, 4 * 1_068_820 + 8)


def wire_of(built: World) -> tuple[int, int]:
    size = 4 * built.model_of(0).count()
    return size, size + 8


@pytest.mark.parametrize(
    "algorithm",
    [
        fedvae(2, FIT, SMALL),
        system(rounds=2),
        system(
            rounds=4,
            fit=Fit(lr=0.1, batch=8, epochs=3),
            vae_rounds=1,
            task="classifier",
            scope="all",
            encoder_by="public",
            a=0.02,
        ),
    ],
    ids=["fedvae", "task vae", "task classifier"],
)
def test_laws(algorithm: Algorithm) -> None:
    assert "same_bits_on_every_engine" in check(algorithm, without=NOISE)


def test_a_run_is_reported_by_its_loss(tmp_path: Path) -> None:
    fit = {"optimizer": "adam", "lr": 3e-3}
    small = {"name": "vae", "hidden": [12]}
    for label, spec in (
        ("fedvae", {"name": "fedvae"}),
        ("disco", {"name": "feddisco-vae", "a": 0.1}),
    ):
        table = {**NIID2, "algorithm": {**spec, "rounds": 2, "fit": fit, "vae": small}}
        result = run(experiment(table), tmp_path / label, label=label)
        figures = result["seeds"]["0"]
        assert figures["accuracy"] is None
        assert figures["loss"] == pytest.approx(figures["reconstruction"] + figures["kl"])
        assert result["summary"]["accuracy"] == {"mean": None, "std": None}
    page = write(tmp_path / "page", [tmp_path / "fedvae", tmp_path / "disco"]).read_text()
    assert "lowest final loss on the global test set" in page
    assert "Loss minus that of fedvae, over common seeds" in page
    assert (tmp_path / "page/figures/latent.svg").is_file()
    panel = plot([tmp_path / "disco"], "latent").axes[0]
    legend = panel.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert len(names) == 6
    assert names[0].startswith("client 0, d 0.")
    assert len(plot([tmp_path / "fedvae", tmp_path / "disco"], "latent").axes) == 2


@pytest.mark.slow
def test_encoding_is_as_fast_as_a_bare_forward_loop() -> None:
    network = vae((1, 28, 28)).eval()
    table = Table(torch.rand(10_000, 1, 28, 28), torch.zeros(10_000, dtype=torch.int64))

    def bare() -> None:
        with torch.no_grad():
            for x in torch.split(table.x, 500):
                features = network.body(x)
                network.head.mean(features)
                network.head.log_sigma(features)

    spent: dict[str, list[float]] = {"bare": [], "ours": []}
    for _ in range(9):
        for name, work in (("bare", bare), ("ours", lambda: encode(network, table))):
            begin = time.process_time()
            work()
            spent[name].append(time.process_time() - begin)
    assert min(spent["bare"]) / min(spent["ours"]) >= 0.9
