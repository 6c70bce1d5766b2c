"""Statistics over seeds against numpy, paired intervals against scipy's own test, reason codes by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from potluck.errors import BadInputError
from potluck.report.read import Run, open_runs, read_run
from potluck.report.series import curve, partitions
from potluck.report.statistics import (
    fallback_sentence,
    finals,
    paired,
    reasons,
    rounds_to,
    summarise,
)

Writer = Callable[..., Path]
FIGURES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12)


@given(FIGURES)
def test_a_summary_is_mean_and_sample_deviation(values: list[float]) -> None:
    found = summarise(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.std == pytest.approx(np.std(values, ddof=1))
    assert found.seeds == len(values)


def test_one_seed_has_no_deviation_and_none_has_no_mean() -> None:
    assert summarise([0.5]) == (0.5, None, 1)
    assert summarise([None, float("nan"), float("inf")]) == (None, None, 0)
    assert summarise([None, 0.25]) == (0.25, None, 1)


@given(FIGURES, st.integers(0, 2**31))
def test_the_interval_is_that_of_the_paired_t_test(values: list[float], seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 1, len(values))
    one = dict(enumerate(values))
    other = {place: value + float(noise[place]) for place, value in one.items()}
    found = paired(one, other)
    gaps = np.array([one[place] - other[place] for place in one])
    low, high = stats.ttest_1samp(gaps, 0.0).confidence_interval(0.95)
    assert found.low == pytest.approx(low, abs=1e-9)
    assert found.high == pytest.approx(high, abs=1e-9)


@given(FIGURES)
def test_a_difference_turned_round_changes_its_sign(values: list[float]) -> None:
    one, other = dict(enumerate(values)), {place: 0.3 * place for place in range(len(values))}
    there, back = paired(one, other), paired(other, one)
    assert there.mean == pytest.approx(-(back.mean or 0.0))
    assert there.low == pytest.approx(-(back.high or 0.0))


def test_verdicts_below_six_seeds_are_indicative() -> None:
    steady = {seed: 0.8 + 0.001 * seed for seed in range(6)}
    lower = {seed: 0.7 + 0.002 * seed for seed in range(6)}
    assert paired(steady, lower).verdict == "higher"
    assert paired(lower, steady).verdict == "lower"
    five = {seed: steady[seed] for seed in range(5)}
    assert paired(five, lower).verdict == "higher (indicative: 5 seeds)"
    assert paired(steady, steady).verdict == "no clear difference"


def test_only_common_seeds_are_paired() -> None:
    found = paired({0: 0.5, 1: 0.6, 9: 1.0}, {0: 0.4, 1: 0.4, 8: 0.0})
    assert found.mean == pytest.approx(0.15)
    assert found.seeds == 2
    assert paired({0: 1.0}, {1: 1.0}) == (None, None, None, 0, "no common seed")
    assert paired({0: 1.0}, {0: 0.5}) == (0.5, None, None, 1, "one seed: no verdict")


def test_a_confidence_must_be_a_share() -> None:
    with pytest.raises(BadInputError, match=r"between 0 and 1"):
        paired({0: 1.0}, {0: 1.0}, confidence=95)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0, 1))
def test_rounds_to_is_the_first_round_at_the_target(values: list[float], target: float) -> None:
    rounds = np.arange(1, len(values) + 1) * 5
    first = next((int(r) for r, v in zip(rounds, values, strict=True) if v >= target), None)
    assert rounds_to(rounds, np.array(values), target) == first


def test_rounds_to_passes_over_gaps_and_the_start() -> None:
    assert rounds_to(np.array([0, 1, 2]), np.array([0.9, np.nan, 0.9]), 0.5) == 2


def test_finals_without_a_result_come_from_the_records(make: Writer) -> None:
    whole = read_run(make("Whole"))
    for metric in ("accuracy", "loss", "local_accuracy", "local_accuracy_worst", "bytes_up"):
        stored = finals(whole, metric)
        (whole.path / "result.json").rename(whole.path / "later.json")
        assert finals(read_run(whole.path), metric) == pytest.approx(stored)
        (whole.path / "later.json").rename(whole.path / "result.json")


def test_reason_codes_are_shares_of_client_rounds(make: Writer) -> None:
    run = read_run(make("FedEP", reason_every=5))
    found = reasons(run)
    assert found.client_rounds == 3 * 20 * 10
    assert found.counts == {"zero_weights": 120}
    assert found.share("zero_weights") == pytest.approx(0.2)
    sentence = fallback_sentence(run)
    assert sentence is not None
    assert "20 % of its client-rounds" in sentence
    assert "not evidence for the method" in sentence


def test_a_clean_run_and_an_absent_client_give_no_sentence(make: Writer) -> None:
    clean = read_run(make("Clean"))
    assert reasons(clean).counts == {}
    assert fallback_sentence(clean) is None
    path = make("Lossy", reason_every=2)
    text = (path / "records.jsonl").read_text().replace("zero_weights", "lost")
    (path / "records.jsonl").write_text(text)
    lossy = read_run(path)
    assert reasons(lossy).share("lost") == pytest.approx(0.5)
    assert fallback_sentence(lossy) is None


def journal(path: Path, rows: list[tuple[int, str, str, object]]) -> Run:
    names = ("round", "who", "what", "value")
    lines = [{"run": "x", "seed": 0, "stage": "train"} | dict(zip(names, row, strict=True)) for row in rows]
    (path / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_run(path)


def test_in_a_mesh_a_client_round_counts_once(tmp_path: Path) -> None:
    rows = [(1, f"client/{k}", f"site/{j}/weight", 0.5) for k in range(4) for j in range(4)]
    coded = [(1, "client/2", f"site/{j}/reason", "zero_weights") for j in range(2)]
    found = reasons(journal(tmp_path, [*rows, *coded]))
    assert (found.client_rounds, found.counts, found.fallbacks) == (4, {"zero_weights": 1}, 1)


def test_two_codes_of_one_client_round_are_one_fallback(tmp_path: Path) -> None:
    rows = [(1, f"client/{k}", "weight", 0.5) for k in range(2)]
    coded = [(1, "client/0", "reason", code) for code in ("zero_weights", "nonfinite_weight")]
    found = reasons(journal(tmp_path, [*rows, *coded]))
    assert found.counts == {"nonfinite_weight": 1, "zero_weights": 1}
    assert found.fallback() == 0.5


def test_weights_of_zero_and_absences_are_no_fallback(tmp_path: Path) -> None:
    codes = ("zero_weight", "negative_weight", "lost", "late", "crash", "straggler")
    found = reasons(journal(tmp_path, [(1, f"client/{k}", "reason", code) for k, code in enumerate(codes)]))
    assert len(found.counts) == 6
    assert found.fallback() == 0.0


def test_a_round_with_reasons_only_is_measured_by_who_was_asked(tmp_path: Path) -> None:
    coded = [(1, "client/0", "reason", "bad_message")]
    held = [(0, f"client/{k}", "histogram", [1, 2]) for k in range(8)]
    assert reasons(journal(tmp_path, [*held, *coded])).client_rounds == 8
    assert reasons(journal(tmp_path, [*held, *coded, (1, "server", "asked", 5)])).client_rounds == 5
    assert reasons(journal(tmp_path, [])).client_rounds == 0


def test_a_first_test_of_another_name_stands_for_the_global_one(tmp_path: Path) -> None:
    run = journal(tmp_path, [(1, "server", "mnist/accuracy", 0.9), (1, "server", "cifar/accuracy", 0.4)])
    found = curve(run, "global/accuracy")
    assert found is not None
    assert found.values.tolist() == [[0.9]]
    assert finals(run, "accuracy") == {0: 0.9}


def test_the_worst_client_is_read_under_either_name(make: Writer) -> None:
    path = make()
    before = finals(read_run(path), "local_accuracy_worst")
    text = (path / "result.json").read_text().replace("local_accuracy_worst", "local_accuracy_min")
    (path / "result.json").write_text(text)
    assert finals(read_run(path), "local_accuracy_worst") == before


def test_partitions_that_differ_are_titled_by_their_runs(make: Writer) -> None:
    runs = open_runs([make("A", seeds=1), make("B", seeds=1), make("C", seeds=1, clients=4)])
    assert [(one.title, one.runs) for one in partitions(runs)] == [
        ("A and 1 more, seed 0", (0, 1)),
        ("C, seed 0", (2,)),
    ]
    assert [one.title for one in partitions(runs[:2])] == ["seed 0"]
