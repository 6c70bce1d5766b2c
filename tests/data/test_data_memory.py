"""Data in memory: arrays, lists of them a client, and objects of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ConfigDict, ValidationError, validate_call

from potluck.data import DATASETS, Dataset, Places, from_arrays, from_hugging_face, from_torch
from potluck.errors import BadInputError

Array = npt.NDArray[Any]
WriteNpz = Callable[[Path, dict[str, Array]], None]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(1, 4))
def test_lists_of_arrays_keep_every_row_with_its_client(sizes: list[int], classes: int) -> None:
    x = [np.full((size, 2), client) for client, size in enumerate(sizes)]
    y = [np.arange(size) % classes for size in sizes]
    data = from_arrays(x, y, classes)
    np.testing.assert_array_equal(np.bincount(data.groups["client"], minlength=1).sum(), sum(sizes))
    names = np.array(data.group_names["client"])
    np.testing.assert_array_equal(names[data.groups["client"]].astype(int), data.x[:, 0])
    np.testing.assert_array_equal(data.y, np.concatenate(y))


def test_arrays_as_one_pool() -> None:
    x = torch.rand(4, 3, requires_grad=True)
    data = from_arrays(x, [0, 1, 2, 1], clients=["u", "v", "u", "u"], test=(x[:2], [3, 0]))
    assert data.classes == 4
    np.testing.assert_array_equal(data.groups["client"], [0, 1, 0, 0])
    np.testing.assert_array_equal(data.tests()["global"].y.numpy(), [3, 0])
    byte_images = from_arrays(np.zeros((2, 8, 8), np.uint8), [0, 0])
    assert byte_images.shape == (1, 8, 8)
    assert from_arrays(np.zeros((2, 1)), np.array([0.5, 1.5])).classes is None
    assert from_arrays(np.zeros((0, 1)), np.array([], dtype=int)).classes == 1


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        ([np.ones((2, 1))], [np.zeros(2, int), np.zeros(1, int)], {}, "1 clients have inputs, 2 targets"),
        (np.ones((2, 1)), [np.zeros(2, int)], {}, "client by client"),
        ([np.ones((2, 1))], [np.zeros(3, int)], {}, "client '0' has 2 rows, 3 targets"),
        (
            [np.ones((1, 1)), np.array([[np.nan]])],
            [np.zeros(1, int)] * 2,
            {},
            "row 0 of client '1' holds NaN",
        ),
        (np.array([[np.inf]]), [0], {}, "row 0 holds NaN"),
        (np.ones((2, 1)), [0, 5], {"classes": 3}, "label of row 1 is 5"),
        (np.ones((2, 1)), [0, 1], {"clients": ["a"]}, "2 rows but 1 in group 'client'"),
        (np.ones((2, 1)), [0, 1], {"test": (np.ones((2, 2)), [0, 1])}, "shape"),
        (np.ones((2, 1)), [0, 1], {"test": (np.ones((2, 1)), [0])}, "2 rows but 1 labels"),
    ],
)
def test_wrong_arrays_are_refused(x: Any, y: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        from_arrays(x, y, **options)


def test_labels_that_are_nan_are_refused() -> None:
    with pytest.raises(BadInputError, match="label of row 1 is nan"):
        Dataset("own", np.zeros((2, 1), np.float32), np.array([0, np.nan]), classes=2)
    with pytest.raises(BadInputError, match="target of row 1 is NaN"):
        Dataset("own", np.zeros((2, 1), np.float32), np.array([0, np.nan]), classes=None)
    with pytest.raises(BadInputError, match="both test_x and test_y"):
        Dataset("own", np.zeros((1, 1)), np.zeros(1), classes=1, test_x=np.zeros((1, 1)))


def test_read_only_rows_become_tensors_without_a_warning() -> None:
    x, y = np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2), np.array([0, 1])
    x.setflags(write=False)
    y.setflags(write=False)
    data = Dataset("own", x, y, classes=2, test_x=x, test_y=y, more_tests={"same": (x, y)})
    tests = data.tests()
    assert list(tests) == ["global", "same"]
    np.testing.assert_allclose(tests["same"].x.numpy(), x / 255)
    assert data.test() is not None


class Squares:
    """A map-style data set of torch."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        return torch.full((1, 2, 2), float(position)), position


def test_torch_data_sets() -> None:
    data = from_torch(Squares(), clients=["a", "b", "a"], test=Squares())
    np.testing.assert_array_equal(data.x[:, 0, 0, 0], [0, 1, 2])
    assert data.classes == 3
    assert len(data.tests()["global"]) == 3
    whole = torch.utils.data.TensorDataset(torch.ones(4, 2), torch.arange(4))
    assert from_torch(whole).classes == 4
    with pytest.raises(BadInputError, match="must be a pair"):
        from_torch([1, 2])


class Columns:
    """A stand-in for one split of a Hugging Face data set."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns
        self.column_names = list(columns)
        self.features = {"label": SimpleNamespace(names=["cat", "dog", "owl"])}

    def __getitem__(self, column: str) -> list[Any]:
        return self.columns[column]


def test_hugging_face_data_sets() -> None:
    pictures = [Image.new("RGB", (4, 5), (position, 0, 9)) for position in range(3)]
    split = Columns(image=pictures, label=[0, 1, 1], site=["n", "s", "n"], a=[1, 2, 3], b=[4.0, 5.0, 6.0])
    data = from_hugging_face(split, client="site", test=split)
    assert data.shape == (3, 5, 4)
    assert data.classes == 3
    assert data.class_names == ("cat", "dog", "owl")
    np.testing.assert_array_equal(data.x[:, 0, 0, 0], [0, 1, 2])
    assert data.group_names["client"] == ("n", "s")
    flat = from_hugging_face(split, x=["a", "b"])
    np.testing.assert_array_equal(flat.x, [[1, 4], [2, 5], [3, 6]])
    with pytest.raises(BadInputError, match="no column 'pixels' among image"):
        from_hugging_face(split, x="pixels")
    uneven = Columns(image=[pictures[0], Image.new("RGB", (9, 9))], label=[0, 1])
    with pytest.raises(BadInputError, match="inputs of 2 shapes"):
        from_hugging_face(uneven)


def test_every_loader_is_a_call_that_pydantic_can_check(places: Places, folder: Path) -> None:
    (folder / "own.csv").write_text("a,label,client\n1,yes,n\n2,no,s\n")
    for name, loader in DATASETS.items():
        checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(loader)
        own = {"path": "own.csv"} if name in ("csv", "npz", "images") else {}
        with pytest.raises(ValidationError, match="normalise"):
            checked(places, normalise="sideways", **own)
        assert loader.__doc__
    table = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(DATASETS["csv"])
    assert table(places, path="own.csv", classes=["no", "yes"]).classes == 2
