"""The sets with writers, patients and sources, the mixture and the digits, on tiny files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from potluck.data import DATASETS, Places
from potluck.errors import BadInputError

Array = npt.NDArray[Any]
WriteNpz = Callable[[Path, dict[str, Array]], None]
WriteMnist = Callable[..., Mapping[str, Array]]
WriteIdx = Callable[[Path, Array], None]
WriteCifar = Callable[..., dict[str, tuple[Array, list[int]]]]
WriteLeaf = Callable[[Path, Mapping[str, tuple[Array, list[int]]]], None]


def leaf_users(*sizes: int, first: int = 0) -> dict[str, tuple[Array, list[int]]]:
    random = np.random.default_rng(len(sizes))
    return {
        f"f{first + number:04}_01": (random.integers(0, 256, (size, 784)) / 255, [number % 62] * size)
        for number, size in enumerate(sizes)
    }


def test_leaf_folders_keep_writers_polarity_and_test_rows(
    places: Places, folder: Path, write_leaf: WriteLeaf
) -> None:
    train, test = leaf_users(5, 3), leaf_users(2, 1)
    write_leaf(folder / "femnist" / "train" / "all_data_0.json", train)
    write_leaf(folder / "femnist" / "train" / "all_data_1.json", leaf_users(4, first=7))
    write_leaf(folder / "femnist" / "test" / "all_data_0.json", test)
    for _ in range(2):
        data = DATASETS["femnist"](places)
        assert data.group_names["writer"] == ("f0000_01", "f0001_01", "f0007_01")
        np.testing.assert_array_equal(np.bincount(data.groups["writer"]), [5, 3, 4])
        np.testing.assert_allclose(data.floats(data.x)[:5].reshape(5, 784), train["f0000_01"][0], atol=1e-6)
        assert len(data.tests()["global"]) == 3
        assert "background 1.0" in data.notes[0]
    pooled = DATASETS["femnist"](places, test="none", writers=2)
    assert len(pooled.y) == 11
    assert pooled.tests() == {}
    assert pooled.group_names["writer"] == ("f0000_01", "f0001_01")
    with pytest.raises(BadInputError, match="4 asked for, but only 3"):
        DATASETS["femnist"](places, writers=4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: np.where(np.arange(784) == 3, np.nan, x), "row 0 of client 'f0000_01' holds NaN"),
        (lambda x: x * 255, "outside"),
        (lambda x: x[:, :9], "are not 784 numbers|but"),
        (lambda x: x[:1], "1 images but 2 labels"),
    ],
)
def test_wrong_leaf_rows_are_refused_with_file_and_writer(
    places: Places,
    folder: Path,
    write_leaf: WriteLeaf,
    change: Callable[[Array], Array],
    message: str,
) -> None:
    users = {name: (change(x), y) for name, (x, y) in leaf_users(2).items()}
    write_leaf(folder / "femnist" / "train" / "a.json", users)
    with pytest.raises(BadInputError, match=message) as error:
        DATASETS["femnist"](places)
    assert "a.json" in str(error.value)
    assert "f0000_01" in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"users": ["a"]}', '{"users": ["a"], "user_data": {}}'])
def test_json_that_is_not_leaf_is_refused(places: Places, folder: Path, text: str) -> None:
    (folder / "femnist" / "train").mkdir(parents=True)
    (folder / "femnist" / "train" / "a.json").write_text(text)
    with pytest.raises(BadInputError, match=r"a\.json"):
        DATASETS["femnist"](places)


def compact() -> dict[str, Array]:
    return {
        "images": np.arange(6, dtype=np.uint8)[:, None, None] * np.ones((1, 28, 28), np.uint8),
        "labels": np.array([0, 61, 3, 4, 5, 6], np.uint8),
        "writer": np.array([0, 0, 1, 1, 1, 2], np.uint16),
        "is_test": np.array([0, 1, 0, 0, 1, 0], np.uint8),
        "writer_names": np.array([b"x", b"y", b"z"]),
        "writer_truncated": np.array([False, True, False]),
    }


def test_compact_femnist_knows_incomplete_writers(places: Places, folder: Path, write_npz: WriteNpz) -> None:
    write_npz(folder / "femnist.npz", compact())
    data = DATASETS["femnist"](places)
    np.testing.assert_array_equal(data.x[:, 0, 0, 0], [0, 2, 3, 5])
    np.testing.assert_array_equal(data.groups["writer"], [0, 1, 1, 2])
    assert "1 of them incomplete" in data.notes[1]
    np.testing.assert_array_equal(DATASETS["femnist"](places, writers=2).groups["writer"], [0, 1])
    with pytest.raises(BadInputError, match="only 2 are complete"):
        DATASETS["femnist"](places, writers=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.array([0, 62, 3, 4, 5, 6])}, "label of row 1 is 62"),
        ({"writer": np.array([0, 0, 1, 1, 1, 3])}, "writer 3 has no name"),
        ({"is_test": np.zeros(5)}, "6 images but 5 entries in 'is_test'"),
        ({"images": np.zeros((6, 28, 28), np.float32)}, "not bytes"),
    ],
)
def test_wrong_compact_files_are_refused(
    places: Places, folder: Path, write_npz: WriteNpz, changes: dict[str, Array], message: str
) -> None:
    write_npz(folder / "femnist.npz", compact() | changes)
    with pytest.raises(BadInputError, match=message):
        DATASETS["femnist"](places)


def test_a_compact_file_without_an_array_is_refused(places: Places, folder: Path) -> None:
    np.savez(folder / "femnist.npz", images=compact()["images"])
    with pytest.raises(BadInputError, match="no array 'labels'"):
        DATASETS["femnist"](places)


def test_xray_tree_gives_sources_patients_and_binary_labels(
    places: Places, folder: Path, write_picture: Callable[..., None]
) -> None:
    root = folder / "xray"
    for number in range(4):
        write_picture(root / "kermany" / "NORMAL" / f"NORMAL2-IM-{number}.jpeg", 40, (50, 60))
        write_picture(root / "kermany" / "PNEUMONIA" / f"person{number // 2}_virus_{number}.png", 80)
        write_picture(root / "rsna" / "Normal" / f"Normal-{number}.png", 120)
        write_picture(root / "rsna" / "Lung_Opacity" / f"Lung_Opacity-{number}.png", (160, 160, 160))
    data = DATASETS["xray"](places)
    assert data.shape == (1, 32, 32)
    assert data.group_names["source"] == ("kermany", "rsna")
    np.testing.assert_array_equal(np.bincount(data.groups["source"] * 2 + data.y), [4, 4, 4, 4])
    assert len(np.unique(data.groups["patient"])) == 4 + 2 + 8
    np.testing.assert_array_equal(data.x[(data.groups["source"] == 1) & (data.y == 1)], 160)
    held = DATASETS["xray"](places, holdout=0.5)
    assert held.test_y is not None
    assert len(held.y) + len(held.test_y) == 16
    assert 4 <= len(held.test_y) <= 12


def test_xray_compact_holdout_keeps_patients_together(places: Places, folder: Path) -> None:
    rows = np.arange(60)
    np.savez(
        folder / "xray32.npz",
        images=(rows[:, None, None] * np.ones((1, 32, 32))).astype(np.uint8),
        labels=rows % 2,
        source=rows // 30,
        source_names=np.array([b"kermany", b"nih"]),
        patient=rows // 3,
    )
    data = DATASETS["xray"](places, holdout=0.3)
    assert data.test_x is not None
    kept, held = set(data.groups["patient"].tolist()), set((data.test_x[:, 0, 0, 0] // 3).tolist())
    assert not kept & held
    assert len(held) == 6
    assert len(held & set(range(10))) == 3
    assert "nih stands in" in data.notes[0]


def test_an_xray_that_cannot_be_decoded_is_named(
    places: Places, folder: Path, write_picture: Callable[..., None]
) -> None:
    write_picture(folder / "xray" / "a" / "normal" / "1.png")
    broken = folder / "xray" / "a" / "ill" / "2.png"
    write_picture(broken)
    broken.write_bytes(broken.read_bytes()[:40])
    with pytest.raises(BadInputError, match=r"2\.png: cannot be decoded"):
        DATASETS["xray"](places)


def test_a_source_without_healthy_images_is_refused(
    places: Places, folder: Path, write_picture: Callable[..., None]
) -> None:
    write_picture(folder / "xray" / "a" / "ill" / "1.png")
    with pytest.raises(BadInputError, match="no folder named normal"):
        DATASETS["xray"](places)


def test_mnist_cifar_mixes_both_and_has_three_tests(
    places: Places, folder: Path, write_mnist: WriteMnist, write_cifar: WriteCifar
) -> None:
    write_mnist(folder / "mnist", rows=40)
    write_cifar(folder / "cifar10")
    data = DATASETS["mnist-cifar"](places)
    assert data.shape == (1, 28, 28)
    np.testing.assert_array_equal(np.bincount(data.groups["source"]), [40, 100])
    assert {name: len(table) for name, table in data.tests().items()} == {
        "global": 40,
        "mnist": 20,
        "cifar": 20,
    }
    swapped = DATASETS["mnist-cifar"](places, cifar_source="test", fit="crop")
    np.testing.assert_array_equal(np.bincount(swapped.groups["source"]), [40, 20])
    assert len(swapped.tests()["cifar"]) == 100


def test_digits_hold_out_a_fifth_of_every_class(places: Places) -> None:
    data = DATASETS["digits"](places)
    assert data.test_y is not None
    assert (len(data.y), len(data.test_y)) == (1438, 359)
    whole = np.bincount(data.y) + np.bincount(data.test_y)
    np.testing.assert_allclose(np.bincount(data.test_y), 0.2 * whole, atol=0.5)
    assert data.x.min() == 0
    assert data.x.max() == 1
    again = DATASETS["digits"](places)
    np.testing.assert_array_equal(data.x, again.x)
    assert data.checksums == again.checksums


@pytest.mark.parametrize(
    "name", ["mnist", "fashion-mnist", "cifar10", "svhn", "femnist", "xray", "mnist-cifar"]
)
def test_missing_data_say_what_was_looked_for_where_and_what_to_do(
    places: Places, folder: Path, name: str
) -> None:
    with pytest.raises(BadInputError, match="not found: looked for") as error:
        DATASETS[name](places)
    text = str(error.value)
    assert str(folder) in text
    assert "\n" not in text
    assert "potluck data get" in text or "put" in text
