"""FedEP's label census: awkward labels, bad messages, silent clients, what crosses and what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from potluck.algorithms.alone import alone
from potluck.algorithms.fedavg import fedavg
from potluck.algorithms.fedep import fedep, wire
from potluck.laws.engines import Bench, play
from potluck.learn import Fit
from potluck.parts.mixture_census import LabelSketch
from potluck.tree import nbytes, same
from potluck.visit import Answer, Call, visit
from potluck.world import Faults, World

if TYPE_CHECKING:
    from tests.algorithms.fedep.conftest import Labelled

Floats = npt.NDArray[np.float64]
FIT = Fit(lr=0.2, batch="all")
STILL = Fit(epochs=0)


@pytest.mark.parametrize("dist", ["mixture", "histogram"])
@pytest.mark.parametrize("scale", ["text", "listing"])
def test_awkward_labels_give_finite_weights(labelled: Labelled, dist: Any, scale: Any) -> None:
    given = labelled.federation([[7] * 30, [2], [0, 9], [], [0, 0, 4, 4, 9] * 3], 10)
    played = play(labelled.world(fedep(rounds=2, fit=FIT, dist=dist, kl_scale=scale), given))
    found = labelled.alphas(played)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert found[3] == 0
    assert (1, 3, "no_rows") in labelled.reasons(played, "mixture")
    assert all(torch.isfinite(leaf).all() for leaf in played.steps[-1].states["server"].params.values())


def test_one_client_trains_as_if_alone(labelled: Labelled) -> None:
    given = labelled.federation([[0, 1, 2, 1, 1]], 3)
    one = play(labelled.world(fedep(rounds=3, fit=FIT), given)).steps[-1].states["server"].params
    assert same(one, play(labelled.world(alone(rounds=3, fit=FIT), given)).steps[-1].states["site/0"].params)


def test_equal_clients_fall_back_to_their_numbers_of_rows(labelled: Labelled) -> None:
    given = labelled.federation([[0, 1, 2] * 4, [0, 1, 2] * 12], 3)
    played = play(labelled.world(fedep(rounds=2, fit=FIT, dist="histogram"), given))
    assert labelled.reasons(played, "mixture") == {(1, 0, "zero_divergence"), (1, 1, "zero_divergence")}
    assert labelled.told(played, "weight") == {0: 0.25, 1: 0.75}
    plain = play(labelled.world(fedavg(rounds=2, fit=FIT), given))
    assert same(played.steps[-1].states["server"].params, plain.steps[-1].states["server"].params)


def test_all_clients_empty_leaves_the_model_alone(labelled: Labelled) -> None:
    for classes in (3, None):
        played = play(labelled.world(fedep(rounds=2, fit=FIT), labelled.federation([[], []], classes)))
        assert same(played.steps[-1].states["server"].params, played.steps[-3].states["server"].params)


def test_real_targets_are_compared_on_a_grid(labelled: Labelled) -> None:
    draw = np.random.default_rng(1)
    near, far = draw.normal(0, 1, 80), draw.normal(6, 0.3, 50)
    given = labelled.federation([near, near[::-1].copy(), far], None)
    found = labelled.alphas(play(labelled.world(fedep(rounds=1, fit=FIT), given)))
    assert found[0] == found[1] < found[2]
    assert found.sum() == pytest.approx(1, abs=1e-12)


def spoiling(change: Callable[[LabelSketch], Any]) -> Callable[[World, Call], Answer]:
    """Return a visit whose client 2 sends something else in the census."""

    def around(here: World, call: Call) -> Answer:
        answer = visit(here, call)
        spoilt = call.client == 2 and here.stage(call.stage).stream == "mixture"
        return answer._replace(send=change(answer.send)) if spoilt else answer

    return around


def with_parts(**parts: Tensor) -> Callable[[LabelSketch], LabelSketch]:
    return lambda sketch: sketch._replace(said={**sketch.said, **parts})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_parts(mu=torch.tensor([torch.nan], dtype=torch.float64)), "nonfinite_mixture"),
        (with_parts(s2=torch.tensor([-1.0])), "negative_variance"),
        (with_parts(mu=torch.tensor([1.0, 2.0])), "wrong_length"),
        (with_parts(pi=torch.tensor([0.4])), "bad_proportions"),
        (with_parts(pi=torch.tensor([[1.0]])), "wrong_shape"),
        (with_parts(extra=torch.tensor([1.0])), "wrong_shape"),
        (
            lambda sketch: sketch._replace(said={name: torch.ones(99) / 99 for name in sketch.said}),
            "too_many_components",
        ),
        (lambda sketch: sketch._replace(said={name: torch.ones(0) for name in sketch.said}), "no_components"),
        (lambda sketch: sketch._replace(said={"counts": torch.ones(7)}), "wrong_length"),
        (lambda sketch: sketch._replace(said={"counts": -torch.ones(3)}), "negative_counts"),
        (lambda sketch: sketch._replace(rows=-3), "bad_rows"),
        (lambda sketch: sketch._replace(rows="many"), "bad_rows"),
        (lambda sketch: sketch.said, "bad_message"),
    ],
)
def test_a_bad_description_is_named_and_the_others_go_on(
    labelled: Labelled, change: Any, reason: str
) -> None:
    here = labelled.world(fedep(rounds=2, fit=FIT), labelled.federation(labelled.mixed, 3))
    played = play(here, Bench(here, around=spoiling(change)))
    assert labelled.reasons(played, "mixture") == {(1, 2, reason), (2, 2, reason)}
    weights = labelled.told(played, "weight")
    assert weights[2] == 0
    assert sum(weights.values()) == pytest.approx(1, abs=1e-12)
    assert (2, 2, "zero_weight") in labelled.reasons(played, "train")


def without_census(client: int) -> Callable[[World, Call], Answer]:
    def around(here: World, call: Call) -> Answer:
        mute = call.client == client and here.stage(call.stage).stream == "mixture"
        return Answer(call.client, failed="RuntimeError: gone") if mute else visit(here, call)

    return around


def test_who_was_never_heard_is_left_out_or_counts_as_the_median(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    for missing in ("exclude", "median"):
        options: dict[str, Any] = {"missing": missing}
        here = labelled.world(fedep(rounds=1, fit=FIT, **options), given, on_error="skip")
        played = play(here, Bench(here, around=without_census(1)))
        weights = labelled.told(played, "weight")
        assert {(1, 1, "no_message"), (2, 1, "no_message")} <= labelled.reasons(played, "mixture")
        others = sorted(weight for client, weight in weights.items() if client != 1)
        expected = 0.0 if missing == "exclude" else (others[1] + others[2]) / 2
        assert weights[1] == pytest.approx(expected, abs=1e-12)


def test_who_was_not_heard_is_asked_once_more(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    lossy = labelled.world(fedep(rounds=1, fit=FIT), given, faults=Faults(lost=0.3))
    played = play(lossy)
    asked = [step.round for step in played.steps if step.stage == "mixture"]
    lost = {k for k in range(5) if lossy.fault(0, 1, k)}
    assert lost
    assert asked == [0, 1, 2]
    twice = {k for k in lost if lossy.fault(0, 2, k)}
    assert len(labelled.alphas(played)) == 5 - len(twice)
    assert [step.round for step in play(labelled.world(fedep(rounds=1, fit=FIT), given)).steps][:3] == [
        0,
        1,
        0,
    ]


def test_the_census_costs_three_numbers_a_component_and_one(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    here = labelled.world(fedep(rounds=2, fit=FIT), given)
    sizes: dict[int, int] = {}

    def weighed(there: World, call: Call) -> Answer:
        answer = visit(there, call)
        if there.stage(call.stage).stream == "mixture":
            sizes[call.client] = nbytes(answer.send)
        return answer

    played = play(here, Bench(here, around=weighed))
    components = labelled.told(played, "components", "mixture")
    assert sizes == {k: 8 * (3 * int(m) + 1) for k, m in components.items()}
    assert max(sizes.values()) <= 8 * (3 * 2 + 1)
    assert labelled.crossed(played) == sum(sizes.values())
    assert labelled.crossed(played, "bytes/down") == 0
    train = [f for f in played.facts if f.stage == "train" and f.who == "server"]
    crossed = [[f.value for f in train if f.what == f"bytes/{way}"] for way in ("down", "up")]
    assert crossed == [[5 * size] * 2 for size in wire(here.model)]


def test_the_records_say_what_was_weighed(labelled: Labelled) -> None:
    played = play(
        labelled.world(fedep(rounds=1, fit=FIT, eps_mass=0.3), labelled.federation(labelled.mixed, 3))
    )
    census = {f.what: f.value for f in played.facts if f.stage == "mixture" and f.who == "server"}
    assert census["eps"] == pytest.approx(0.1)
    assert census["participants"] == 5
    own = labelled.alphas(played)
    assert census["effective_alphas"] == pytest.approx(1 / np.square(own).sum())
    assert list(labelled.told(played, "weight").values()) == pytest.approx(list(own), abs=1e-12)
    assert set(labelled.told(played, "kl", "mixture")) == set(range(5))
