"""Laws of the small parts: drawing, holding out, shrinking, scaling, sorting, caching, searching."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from potluck.data import DATASETS, Places
from potluck.data.arrays import natural
from potluck.data.cache import cached_arrays, remembered, write_atomically
from potluck.data.digits import hold_out
from potluck.data.mnist_cifar import balanced, luminance, shrink
from potluck.data.normalise import measured, scale
from potluck.errors import BadInputError
from potluck.key import Key

Array = npt.NDArray[Any]
LABELS = hnp.arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 4))


@given(LABELS, st.integers(0, 70), st.integers(0, 9))
def test_balanced_draws_take_equal_shares_of_what_there_is(y: Array, rows: int, seed: int) -> None:
    drawn = balanced(y, rows, Key.root(seed))
    np.testing.assert_array_equal(drawn, balanced(y, rows, Key.root(seed)))
    np.testing.assert_array_equal(drawn, np.unique(drawn))
    counts = np.bincount(y)
    quota = np.full(len(counts), rows // len(counts))
    quota[: rows % len(counts)] += 1
    np.testing.assert_array_equal(np.bincount(y[drawn], minlength=len(counts)), np.minimum(quota, counts))


@given(LABELS, st.floats(0, 1), st.integers(0, 9))
def test_holding_out_cuts_every_class_in_the_same_share(y: Array, share: float, seed: int) -> None:
    pool, test = hold_out(y, share, Key.root(seed))
    np.testing.assert_array_equal(np.sort(np.concatenate([pool, test])), np.arange(len(y)))
    counts = np.bincount(y)
    np.testing.assert_allclose(np.bincount(y[test], minlength=len(counts)), share * counts, atol=0.5 + 1e-9)


@given(hnp.arrays(np.uint8, (2, 32, 32)))
def test_shrinking_is_the_mean_over_areas(x: Array) -> None:
    fine = np.kron(x.astype(np.int64), np.ones((1, 7, 7), np.int64))
    wanted = fine.reshape(2, 28, 8, 28, 8).sum(axis=(2, 4))
    np.testing.assert_array_equal(shrink(x), (wanted + 32) // 64)


@given(hnp.arrays(np.uint8, (2, 3, 2, 2)))
def test_luminance_weighs_the_colours(x: Array) -> None:
    wanted = 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]
    np.testing.assert_allclose(luminance(x), wanted, atol=0.51)


@given(hnp.arrays(np.uint8, (5, 2, 3, 3)))
def test_measured_scale_is_mean_and_deviation_per_channel(x: Array) -> None:
    unit = x.astype(np.float64) / 255
    mean, std = measured(x)
    np.testing.assert_allclose(mean, unit.mean(axis=(0, 2, 3)), atol=1e-12)
    spread = unit.std(axis=(0, 2, 3))
    np.testing.assert_allclose(std, np.where(np.asarray(std) == 1, 1, spread), atol=1e-12)


def test_scales_of_nothing_and_of_constants() -> None:
    assert scale("unit", np.zeros((3, 2))) == ((), ())
    assert scale("half", np.zeros((3, 2))) == ((0.5, 0.5), (0.5, 0.5))
    assert scale("standard", np.zeros((0, 2))) == ((), ())
    assert scale("standard", np.full((3, 1), 4.0)) == ((4.0,), (1.0,))


def test_names_are_sorted_as_people_count() -> None:
    names = ["c10", "c9", "10", "9", "a", "c9b"]
    assert sorted(names, key=natural) == ["9", "10", "a", "c9", "c9b", "c10"]


def test_cached_arrays_are_built_once_and_mapped(cache: Path) -> None:
    calls = []

    def build() -> Mapping[str, Array]:
        calls.append(1)
        return {"x": np.arange(5), "y": np.ones(2)}

    for _ in range(2):
        kept = cached_arrays("set", ["a"], build)
        assert isinstance(kept["x"], np.memmap)
        np.testing.assert_array_equal(kept["x"], np.arange(5))
    assert len(calls) == 1
    cached_arrays("set", ["b"], build)
    assert len(calls) == 2
    assert len(list((cache / "arrays").iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", None])
def test_a_damaged_entry_is_built_again(cache: Path, damage: bytes | None) -> None:
    def build() -> Mapping[str, Array]:
        return {"x": np.arange(5000)}

    cached_arrays("set", ["a"], build)
    file = next((cache / "arrays").glob("*/x.npy"))
    file.write_bytes(file.read_bytes()[:-100] if damage is None else damage)
    np.testing.assert_array_equal(cached_arrays("set", ["a"], build)["x"], np.arange(5000))
    assert file.stat().st_size > 5000


def test_many_may_build_one_entry_at_once(cache: Path) -> None:
    barrier = threading.Barrier(4)
    results: list[Array] = []

    def build() -> Mapping[str, Array]:
        barrier.wait(timeout=20)
        return {"x": np.arange(1000)}

    threads = [
        threading.Thread(target=lambda: results.append(cached_arrays("s", ["k"], build)["x"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_array_equal(result, np.arange(1000))
    assert [entry.name.startswith(".") for entry in (cache / "arrays").iterdir()] == [False]


def test_without_a_cache_the_work_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, write_mnist: Callable[..., Any]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    kept = cached_arrays("set", ["a"], lambda: {"x": np.arange(3)})
    assert not isinstance(kept["x"], np.memmap)
    write_mnist(folder / "mnist")
    assert len(DATASETS["mnist"](Places.usual([folder])).y) == 20


def test_a_digest_is_taken_again_only_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    seen: list[bytes] = []

    def compute(at: Path) -> str:
        seen.append(at.read_bytes())
        return at.read_text()

    assert remembered(path, "kind", compute) == remembered(path, "kind", compute) == "one"
    path.write_bytes(b"other")
    assert remembered(path, "kind", compute) == "other"
    assert remembered(path, "another kind", compute) == "other"
    assert seen == [b"one", b"other", b"other"]


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made" / "file"
    write_atomically(path, b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert [file.name for file in path.parent.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_places_are_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    first, second, third = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    monkeypatch.setenv("POTLUCK_DATA", f"{second}:{third}:{second}")
    places = Places.usual([first])
    assert places.folders == (first, second, third, cache / "data")
    (third / "set").mkdir(parents=True)
    (third / "set" / "a").touch()
    (third / "set" / "b.gz").touch()
    assert places.find("set", ["a", "b"]) == {"a": third / "set" / "a", "b": third / "set" / "b.gz"}
    second.mkdir()
    (second / "a").touch()
    assert places.find("set", ["a"])["a"] == second / "a"
    assert places.find("set", ["a", "b"])["a"] == third / "set" / "a"
    assert places.look("set", ["c"]) is None
    with pytest.raises(BadInputError, match=r"looked for a, c .* in set/ and directly under .*1, .*2, .*3, "):
        places.find("set", ["a", "c"])
