"""FedEP without a server, and as it is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from potluck.algorithms.alone import alone
from potluck.algorithms.fedep import fedep
from potluck.config import experiment
from potluck.core import Algorithm
from potluck.errors import BadInputError
from potluck.laws import toy
from potluck.laws.engines import play
from potluck.learn import Fit
from potluck.topology import Mesh, Star, Topology
from potluck.tree import same

if TYPE_CHECKING:
    from tests.algorithms.fedep.conftest import Labelled

Floats = npt.NDArray[np.float64]
FIT = Fit(lr=0.2, batch="all")
STILL = Fit(epochs=0)
RING = Mesh({0: frozenset({1, 2}), 1: frozenset({0, 2}), 2: frozenset({0, 1})})


def test_on_a_complete_graph_all_nodes_weigh_and_average_as_the_server_does(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    algorithm = fedep(rounds=3, fit=FIT)
    star, mesh = (
        play(labelled.world(algorithm, given)),
        play(labelled.world(algorithm, given), topology=labelled.complete(5)),
    )
    central = star.steps[-1].states["server"]
    for site in range(5):
        own = labelled.alphas(mesh, f"site/{site}/alpha")
        assert np.abs(own - labelled.alphas(star)).max() <= 1e-12
        assert same(mesh.steps[-1].states[f"site/{site}"].params, central.params)


def test_local_labels_differ_from_node_to_node(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    played = play(
        labelled.world(fedep(rounds=1, fit=STILL, support="local_labels"), given),
        topology=labelled.complete(5),
    )
    views = {tuple(labelled.alphas(played, f"site/{site}/alpha").round(9)) for site in range(5)}
    assert len(views) >= 3
    full = play(labelled.world(fedep(rounds=1, fit=STILL), given))
    assert np.allclose(labelled.alphas(played, "site/0/alpha"), labelled.alphas(full), atol=1e-12)


def test_flooding_tells_everybody_and_costs_every_link(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    near = play(labelled.world(fedep(rounds=1, fit=FIT), given), topology=labelled.ring(5))
    far = play(labelled.world(fedep(rounds=1, fit=FIT, reach="all"), given), topology=labelled.ring(5))
    star = play(labelled.world(fedep(rounds=1, fit=FIT), given))
    assert len(labelled.alphas(near, "site/0/alpha")) == 3
    assert np.abs(labelled.alphas(far, "site/0/alpha") - labelled.alphas(star)).max() <= 1e-12
    once = labelled.crossed(star)
    assert (labelled.crossed(near), labelled.crossed(far)) == (2 * once, 10 * once)
    assert labelled.crossed(far, "bytes/flood") == 10 * once


def test_without_edges_every_peer_trains_alone(labelled: Labelled) -> None:
    given = labelled.federation(labelled.mixed, 3)
    apart = play(
        labelled.world(fedep(rounds=3, fit=FIT), given), topology=Mesh({k: frozenset() for k in range(5)})
    )
    single = play(labelled.world(alone(rounds=3, fit=FIT), given))
    for site, state in single.steps[-1].states.items():
        assert same(apart.steps[-1].states[site].params, state.params)


def made(**algorithm: Any) -> Algorithm:
    table = {"name": "t", "partition": {"name": "iid", "clients": 4}, "algorithm": algorithm}
    return experiment(table).build_algorithm()


def test_it_is_a_weight_for_other_methods_too(labelled: Labelled) -> None:
    other = made(
        name="fedprox",
        rounds=2,
        mu=0.0,
        fit={"lr": 0.2, "batch": "all"},
        weigh={"name": "fedep", "rho": 0.4, "dist": "histogram"},
    )
    own = made(name="fedep", rounds=2, fit={"lr": 0.2, "batch": "all"}, rho=0.4, dist="histogram")
    given = labelled.federation(labelled.mixed, 3)
    ends = [play(labelled.world(each, given)).steps[-1].states["server"].params for each in (other, own)]
    assert same(*ends)


def test_every_option_can_be_written_in_toml() -> None:
    made(
        name="fedep",
        rounds=2,
        rho=0.3,
        kl_scale="listing",
        direction="inverse",
        kl_noise_floor="recommended",
        support="local_labels",
        eps_mass=0.2,
        eps_class=0.01,
        bic_penalty="M",
        v_min=0.1,
        n_init=1,
        init="random",
        renormalise="delta",
        dist="mixture",
        reach="all",
        missing="median",
        eps_inv=1e-6,
        max_components=4,
    )
    for renormalise in (True, False):
        table = {
            "name": "t",
            "partition": {"name": "iid", "clients": 4},
            "algorithm": {"name": "fedep", "renormalise": renormalise},
        }
        assert experiment(table).resolved()["algorithm"]["renormalise"] is renormalise


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rho": 0}, "rho: must be"),
        ({"rho": 1.5}, "rho: must be"),
        ({"eps_mass": 0}, "eps_mass: must be"),
        ({"kl_scale": "log"}, "kl_scale"),
        ({"renormalise": "no"}, "renormalise"),
        ({"n_init": 0}, "n_init: must be"),
        ({"kl_noise_flor": 0.1}, "kl_noise_floor"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        made(name="fedep", **options)


@pytest.mark.parametrize(
    ("options", "classes", "topology", "complaint"),
    [
        ({"support": "local_labels"}, 3, Star(), "the server holds no data; choose a mesh"),
        ({"support": "local_labels"}, None, RING, "needs classes"),
        ({"dist": "histogram"}, None, Star(), 'dist = "histogram" needs classes'),
    ],
)
def test_combinations_without_meaning_are_refused(
    labelled: Labelled, options: dict[str, Any], classes: int | None, topology: Topology, complaint: str
) -> None:
    given = labelled.federation([[0, 1], [1, 2], [2, 0]], classes)
    with pytest.raises(BadInputError, match=complaint):
        play(labelled.world(fedep(rounds=1, **options), given), topology=topology)


def test_its_weights_need_its_census(labelled: Labelled) -> None:
    stage = fedep(rounds=1, fit=FIT).stages[-1]
    with pytest.raises(BadInputError, match="needs its label census first"):
        play(labelled.world(Algorithm((stage,), "half"), labelled.federation(labelled.mixed, 3)))


def test_participation_and_batch_norm_go_together() -> None:
    played = play(toy.world(fedep(rounds=3, fit=Fit(lr=0.1, batch=8))))
    assert len([step for step in played.steps if step.stage == "train"]) == 4
