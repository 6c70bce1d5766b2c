"""FedEP: its weights on known labels, and its training against a plain re-implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from potluck.algorithms.fedep import fedep
from potluck.core import Inbox, Sent
from potluck.federation import Federation, Labels
from potluck.key import Key
from potluck.laws.engines import Played, play
from potluck.learn import Fit
from potluck.partition.grouped import Group, Grouped
from potluck.tree import same
from potluck.world import World

if TYPE_CHECKING:
    from tests.algorithms.fedep.conftest import Labelled

Floats = npt.NDArray[np.float64]
FIT = Fit(lr=0.2, batch="all")
STILL = Fit(epochs=0)


def test_equal_labels_get_bit_identical_weights(labelled: Labelled) -> None:
    same_labels = [3, 1, 1, 0, 4, 4, 4, 2]
    given = labelled.federation([same_labels, [0, 0, 1], list(reversed(same_labels)), [4] * 9], 5)
    found = labelled.alphas(play(labelled.world(fedep(rounds=1, fit=STILL), given)))
    assert found[0] == found[2]
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_the_published_oracles(labelled: Labelled) -> None:
    options: dict[str, Any] = {"dist": "histogram", "eps_class": 1e-2, "rounds": 1, "fit": STILL}
    single = labelled.federation([[c] * 50 for c in range(4)], 10)
    for scale in ("text", "listing"):
        scaled = options | {"kl_scale": scale}
        assert labelled.alphas(play(labelled.world(fedep(**scaled), single))) == pytest.approx([0.25] * 4)
    pairs = [np.repeat([2 * k, 2 * k + 1], 500) for k in range(5)]
    niid2 = labelled.federation([np.repeat(np.arange(10), 100), *pairs], 10)
    text = labelled.alphas(play(labelled.world(fedep(**options), niid2)))
    assert text == pytest.approx([0] + [0.2] * 5, abs=2e-4)
    listing = labelled.alphas(play(labelled.world(fedep(kl_scale="listing", **options), niid2)))
    assert listing == pytest.approx([0.1267] + [0.1747] * 5, abs=2e-4)
    inverse = labelled.alphas(
        play(labelled.world(fedep(direction="inverse", eps_inv=1e-12, **options), niid2))
    )
    assert inverse == pytest.approx([1] + [0] * 5, abs=1e-6)


@pytest.mark.parametrize("groups", [(2, 8), (5, 5), (8, 2)])
def test_mixed_scenarios_weigh_skewed_clients_up_in_the_text_and_hardly_in_the_listing(
    labelled: Labelled, groups: tuple[int, int]
) -> None:
    labels = Labels(np.repeat(np.arange(10), 5000), 10)
    text: dict[float, float] = {}
    for beta in (5.0, 0.5):
        deal = Grouped(groups=(Group(clients=groups[0], beta=50), Group(clients=groups[1], beta=beta)))
        seen = []
        for seed in range(3):
            dealt = deal(labels, Key.root(seed))
            given = labelled.federation([labels.y[rows] for rows in dealt], 10, dim=1)
            seen.append(ratios(labelled.world(fedep(rounds=1, fit=STILL, eps_class=1e-3), given), groups[0]))
        text[beta] = float(np.median([own for own, _ in seen]))
        assert 0.85 <= float(np.median([listing for _, listing in seen])) <= 1.05
    assert text[0.5] < text[5.0] < 0.8


def ratios(world: World, even: int) -> tuple[float, float]:
    """Return mean weight of the even clients over that of the skewed ones, by the text and by the listing."""
    played = play(world)
    heard = next(step.states["server"].heard for step in played.steps if step.round)
    census = fedep(kl_scale="listing").stages[0]
    start = census.init(world.site(0, "server"), None).state
    answers = [Sent(client, message) for client, message in heard.items()]
    listing = census.merge(start, Inbox(answers, key=world.key, population=world.clients)).state.raw
    both = (played.steps[-1].states["server"].past.raw, listing)
    found = [np.array([raw[client] for client in world.clients]) for raw in both]
    text, other = (own[:even].mean() / own[even:].mean() for own in found)
    return float(text), float(other)


def softmax_step(
    w: Floats, b: Floats, x: Floats, y: npt.NDArray[np.int64], lr: float
) -> tuple[Floats, Floats]:
    scores = x @ w.T + b
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    gap = (shares - np.eye(len(b))[y]) / len(y)
    return w - lr * gap.T @ x, b - lr * gap.sum(axis=0)


def oracle(given: Federation, w: Floats, b: Floats, rounds: int, eps_mass: float) -> tuple[Floats, Floats]:
    """FedEP with class counts, full participation and full batches, with loops and numpy only."""
    rows = [(h.train.x.double().numpy(), h.train.y.numpy()) for h in given.holders]
    classes = int(given.classes or 0)
    n = np.array([len(y) for _, y in rows], dtype=np.float64)
    eps = eps_mass / classes
    smooth = [(np.bincount(y, minlength=classes) / len(y) + eps) / (1 + classes * eps) for _, y in rows]
    pooled = sum(share * p for share, p in zip(n / n.sum(), smooth, strict=True))
    kl = np.array([np.sum(pooled * np.log(pooled / p)) for p in smooth])
    alpha = kl / kl.sum()
    for _ in range(rounds):
        moved = [softmax_step(w, b, x, y, 0.2) for x, y in rows]
        w = np.asarray(sum(a * each for a, (each, _) in zip(alpha, moved, strict=True)))
        b = np.asarray(sum(a * each for a, (_, each) in zip(alpha, moved, strict=True)))
    return w, b


def test_training_agrees_with_a_plain_re_implementation(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    played = play(labelled.world(fedep(rounds=4, fit=FIT, dist="histogram"), given))
    first, last = (step.states["server"].params for step in (played.steps[-5], played.steps[-1]))
    (weight, bias) = first
    w, b = oracle(given, first[weight].double().numpy(), first[bias].double().numpy(), 4, 0.1)
    assert np.allclose(last[weight].numpy(), w, atol=2e-6)
    assert np.allclose(last[bias].numpy(), b, atol=2e-6)


def test_on_quadratics_it_goes_to_the_optimum_of_its_own_mixture(labelled: Labelled) -> None:
    draw = np.random.default_rng(4)
    targets = [draw.normal(mean, 0.4, size=40 + 30 * k) for k, mean in enumerate((0.0, 0.2, 3.0))]
    given = labelled.federation(targets, None)
    played = play(labelled.world(fedep(rounds=300, fit=Fit(lr=0.1, batch="all")), given))
    params = played.steps[-1].states["server"].params
    found = np.concatenate([leaf.double().numpy().reshape(-1) for leaf in params.values()])
    tables = [h.train for h in given.holders]
    rows = [np.hstack([t.x.double().numpy(), np.ones((len(t), 1))]) for t in tables]

    def optimum(weights: Floats) -> Floats:
        scaled = [np.sqrt(a / len(x)) for a, x in zip(weights, rows, strict=True)]
        left = np.vstack([s * x for s, x in zip(scaled, rows, strict=True)])
        right = np.concatenate([s * t.y.double().numpy() for s, t in zip(scaled, tables, strict=True)])
        return np.asarray(np.linalg.lstsq(left, right, rcond=None)[0])

    sizes = np.array([len(x) for x in rows], dtype=np.float64)
    tolerance = 1e-4
    assert np.linalg.norm(found - optimum(labelled.alphas(played))) < tolerance
    assert np.linalg.norm(found - optimum(sizes / sizes.sum())) > 10 * tolerance


def one_everywhere(labelled: Labelled, given: Federation, **options: Any) -> tuple[Played, float]:
    """Play a round of clients that do not train, and return by what the model was multiplied."""
    played = play(labelled.world(fedep(rounds=1, fit=STILL, **options), given, participation=0.4))
    before, after = (step.states["server"].params for step in played.steps[-2:])
    ratio = torch.cat([(after[name] / before[name]).reshape(-1) for name in before])
    assert float(ratio.max() - ratio.min()) < 1e-5
    return played, float(ratio.mean())


def test_without_renormalisation_the_model_shrinks_by_the_weight_of_the_absent(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    assert one_everywhere(labelled, given)[1] == 1.0
    assert one_everywhere(labelled, given, renormalise="delta")[1] == pytest.approx(1, abs=1e-6)
    played, ratio = one_everywhere(labelled, given, renormalise=False)
    present = labelled.told(played, "weight")
    assert len(present) == 2
    assert ratio == pytest.approx(sum(labelled.alphas(played)[client] for client in present), rel=1e-5)
    assert ratio < 0.9


def test_delta_moves_by_the_weight_of_the_present(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    full = play(labelled.world(fedep(rounds=1, fit=FIT), given, participation=0.4))
    part = play(labelled.world(fedep(rounds=1, fit=FIT, renormalise="delta"), given, participation=0.4))
    share = sum(labelled.alphas(full)[client] for client in labelled.told(full, "weight"))
    start, mean, moved = (s.states["server"].params for s in (*full.steps[-2:], part.steps[-1]))
    for name, leaf in moved.items():
        assert torch.allclose(leaf, start[name] + share * (mean[name] - start[name]), atol=1e-6)


def test_with_everybody_present_renormalising_makes_no_difference(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    ends = [
        play(labelled.world(fedep(rounds=3, fit=FIT, renormalise=how), given))
        .steps[-1]
        .states["server"]
        .params
        for how in (True, False, "delta")
    ]
    assert same(ends[0], ends[1])
    assert same(ends[0], ends[2])
