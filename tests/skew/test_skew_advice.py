"""The advice on SC-1 to SC-5, SC-9 and the floor, from histograms alone and with inputs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from potluck.data.dataset import Dataset
from potluck.federation import Federation, Labels, Partition, Shift, Split, build
from potluck.key import Key
from potluck.partition import Dirichlet, Iid, Niid2, Quantity
from potluck.partition.manifest import histogram
from potluck.shift import Noise, Relabel
from potluck.skew.advice import Advice, advise
from potluck.skew.measure import describe, from_histogram
from potluck.skew.methods import METHODS, NEED_CLASSES

LABELS = Labels(np.repeat(np.arange(10), 5000), 10)


def advice_on(scheme: Partition, seed: int = 0) -> Advice:
    return advise(from_histogram(histogram(LABELS, scheme(LABELS, Key.root(seed)))))


def columns(rows: int, scheme: Partition, seed: int, *shifts: Shift) -> Federation:
    """Federate rows of three columns whose means differ between six classes."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 6, rows)
    x = (draw.normal(size=(rows, 3)) + y[:, None] * [1, -2, 0]).astype(np.float32)
    return build(Dataset("columns", x, y, 6), scheme, list(shifts), Split(), Key.root(seed))


def first(advice: Advice, many: int = 3) -> list[str]:
    return [method.title for method in advice.methods[:many]]


@pytest.mark.parametrize("clients", [10, 30, 100, 1000])
def test_sc1_has_no_skew_worth_acting_on(clients: int) -> None:
    advice = advice_on(Iid(clients=clients))
    assert advice.kinds == ()
    assert first(advice) == ["FedAvg"]
    assert advice.verdict.startswith("no skew worth acting on: FedAvg")


@pytest.mark.parametrize("rows", [5, 20, 60, 1000])
@pytest.mark.parametrize("classes", [2, 10, 62])
def test_the_floor_is_not_taken_for_skew(rows: int, classes: int) -> None:
    draw = np.random.default_rng(rows)
    for clients in (10, 100):
        counts = draw.multinomial(rows, np.full(classes, 1 / classes), size=clients)
        assert advise(from_histogram(counts)).kinds == ()


@pytest.mark.parametrize(("rows", "clients"), [(200, 2), (200, 10), (1000, 50), (2000, 100)])
def test_the_floor_of_the_inputs_is_not_taken_for_skew(rows: int, clients: int) -> None:
    for seed in range(4):
        assert advise(describe(columns(rows, Iid(clients=clients), seed))).kinds == ()


def test_label_skew_of_a_table_is_not_taken_for_feature_skew() -> None:
    assert advise(describe(columns(3000, Niid2(), 0))).kinds == ("label", "unbiased")
    noisy = advise(describe(columns(3000, Iid(clients=30), 0, Noise(variance=2.0))))
    assert noisy.kinds == ("feature",)


@pytest.mark.parametrize("seed", range(3))
def test_sc2_is_label_skew(seed: int) -> None:
    advice = advice_on(Dirichlet(clients=30, beta=0.5), seed)
    assert advice.kinds == ("label",)
    assert advice.findings[0].sentence.startswith("strong label skew")
    assert {"FedDisco", "FedRoD", "SCAFFOLD", "FedEP"} <= set(first(advice, 5))
    assert (
        advice_on(Dirichlet(clients=30, beta=3), seed).findings[0].sentence.startswith("moderate label skew")
    )
    assert advice_on(Dirichlet(clients=10, beta=50), seed).kinds == ()


@pytest.mark.parametrize("seed", range(3))
def test_sc3_is_quantity_skew(seed: int) -> None:
    advice = advice_on(Quantity(clients=30, beta=0.5), seed)
    assert advice.kinds == ("quantity",)
    assert set(first(advice)) == {"FedMedian", "FedProx", "FedLoss"}


def test_sc4_is_feature_skew(blobs: Dataset) -> None:
    advice = advise(describe(build(blobs, Iid(clients=8), [Noise(variance=0.1)], Split(), Key.root(0))))
    assert advice.kinds == ("feature",)
    assert first(advice) == ["FedBN", "FedDisk", "FedPCL"]


def test_sc5_is_mixed(blobs: Dataset) -> None:
    shifts = [Noise(variance=0.1)]
    advice = advise(describe(build(blobs, Dirichlet(clients=8, beta=0.5), shifts, Split(), Key.root(0))))
    assert advice.kinds == ("label", "feature", "mixed")
    assert first(advice)[:2] == ["FedLoss", "FedDisk"]
    assert {"FedBN", "FedDisco"} <= {method.title for method in advice.methods}


@pytest.mark.parametrize("variant", ["feddisco", "delft"])
def test_sc9_has_one_unbiased_client(variant: str) -> None:
    advice = advice_on(Niid2() if variant == "feddisco" else Niid2(variant="delft"))
    assert advice.kinds == ("label", "unbiased")
    assert "the classes of client 0" in advice.findings[1].sentence
    assert first(advice, 1) == ["FedDisco"]


def test_real_targets_are_judged_without_methods_that_need_classes() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(600, 4)).astype(np.float32)
    data = Dataset("dose", x, (x.sum(axis=1) + draw.normal(size=600)).astype(np.float32), None)
    even = describe(build(data, Iid(clients=6), [], Split(), Key.root(0)))
    assert advise(even).kinds == ()
    advice = advise(describe(build(data, Dirichlet(clients=6, beta=0.3), [], Split(), Key.root(0))))
    assert advice.kinds == ("label",)
    assert "tenths of the targets" in advice.findings[0].sentence
    assert first(advice, 1) == ["SCAFFOLD"]
    assert not NEED_CLASSES & {method.algorithm for method in advice.methods}


def test_two_populations_are_for_fedex(blobs: Dataset) -> None:
    shifts = [Relabel(classes=4, by=2)]
    advice = advise(describe(build(blobs, Iid(clients=8), shifts, Split(), Key.root(0))))
    assert "groups" in advice.kinds
    assert first(advice, 1) == ["FedEx"]
    halves: npt.NDArray[np.int64] = np.repeat([[50, 50, 0, 0], [0, 0, 50, 50]], 5, axis=0)
    by_labels = advise(from_histogram(halves))
    assert by_labels.kinds == ("label", "groups")
    assert by_labels.findings[-1].sentence.endswith("by their labels: 5 clients and 5 clients")


def test_two_skews_are_mixed() -> None:
    draw = np.random.default_rng(0)
    counts = np.stack(
        [draw.multinomial(n, draw.dirichlet(np.full(10, 0.5))) for n in (9000, 400, 300, 250, 200, 150)]
    )
    assert advise(from_histogram(counts)).kinds == ("label", "quantity", "mixed")


@pytest.mark.parametrize("counts", [[[5]], [[1, 0]], [[1, 0], [0, 0]], [[0, 0, 3], [0, 1, 0], [0, 0, 0]]])
def test_tiny_federations_get_advice(counts: npt.ArrayLike) -> None:
    assert advise(from_histogram(counts)).methods


def test_the_table_has_every_method_with_its_reference() -> None:
    titles = {method.title for method in METHODS.values()}
    assert titles == {
        "FedAvg", "FedAvgM", "FedMedian", "FedProx", "SCAFFOLD", "FedBN", "FedRoD", "FedPCL", "FedDisco", "FedEP",
        "FedDisco-VAE", "FedDisk", "FedEx", "FedLoss",
    }  # fmt: skip
    assert all(method.reason and method.reference for method in METHODS.values())
