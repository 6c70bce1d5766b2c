"""FedDisco with a beta-VAE, weights: V-VA3, V-VA5, V-VA6, options, fallbacks, refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.algorithms.feddisco_vae.small import (
    FIT,
    LEARNT,
    NIID2,
    SMALL,
    changed,
    distances,
    facts,
    system,
    trained,
    world,
)

from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.feddisco import LabelDiscrepancy
from potluck.algorithms.feddisco_vae import LatentDiscrepancy, feddisco_vae
from potluck.algorithms.fedvae import fedvae
from potluck.average import Average, Global
from potluck.config import experiment
from potluck.core import Algorithm, Site
from potluck.errors import BadInputError
from potluck.key import Key
from potluck.laws import toy
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.model import Model
from potluck.parts.autoencoder import autoencoder
from potluck.parts.census import LabelCensus
from potluck.parts.latent_census import LatentCensus, Latents
from potluck.roles import Told
from potluck.table import Table


def raw(
    weigh: LatentDiscrepancy, rows: Sequence[int], found: Sequence[float], heard: Sequence[int] | None = None
) -> list[float]:
    """Return the raw weights of those heard, where all have told their distances."""
    everyone = dict(enumerate(rows))
    past = Latents({}, dict(enumerate(found)), everyone if weigh.scope == "all" else {})
    told = [Told(k, rows[k], {}) for k in (heard if heard is not None else everyone)]
    return list(weigh.raw(told, past, list(everyone)))


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


def test_where_all_weights_are_zero_the_rows_decide() -> None:
    played = play(world(system(a=1e6)))
    assert list(facts(played, "train", "weight").values()) == [n / sum(toy.SIZES) for n in toy.SIZES]
    assert "zero_weights" in facts(played, "train", "reason").values()


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


def test_a_client_without_an_answer_counts_with_the_mean() -> None:
    weigh = LatentDiscrepancy(a=0.1)
    told = [Told(k, 10, {}) for k in range(3)]
    found = weigh.raw(told, Latents({}, {0: 0.2, 2: 0.4}, {}), [0, 1, 2])
    assert found[1] == pytest.approx(1 / 3 - 0.1 * 0.3)
    assert weigh.raw(told, Latents({}, {}, {}), [0, 1, 2]) == pytest.approx([1 / 3] * 3)
    assert weigh.raw([], Latents({}, {}, {}), [0]) == []


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


def test_label_discrepancy_is_one_option_away() -> None:
    for norm_of, normalise in (("sum1", "kl"), ("raw", "none")):
        census, last = system(discrepancy="label_kl", d_norm=norm_of).stages
        assert isinstance(census, LabelCensus)
        assert isinstance(last, Average)
        assert isinstance(last.weigh, LabelDiscrepancy)
        assert (last.weigh.a, last.weigh.b, last.weigh.normalise) == (0.1, 0.0, normalise)


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


def test_a_client_whose_codes_are_not_finite_counts_for_nothing() -> None:
    broken = changed({"train": lambda table: Table(torch.full_like(table.x, math.nan), table.y)}, only=0)
    played = play(world(system(a=0.01), given=broken))
    assert distances(played)[0] == math.inf
    weights = raw(LatentDiscrepancy(a=0.1), [10, 10, 10], [0.1, math.inf, 0.3])
    assert weights[1] == 0
    assert weights[0] > weights[2] > 0
    for leaf in trained(played, "train").params.values():
        assert leaf.isfinite().all()
