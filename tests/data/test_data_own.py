"""Your own files: .npz, .csv and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from potluck.data import DATASETS, Places
from potluck.errors import BadInputError

Array = npt.NDArray[Any]
WriteNpz = Callable[[Path, dict[str, Array]], None]


def test_a_folder_of_npz_is_one_client_a_file(places: Places, folder: Path) -> None:
    for name, rows in (("site10", 3), ("site2", 2)):
        np.savez(folder / f"{name}.npz", x=np.full((rows, 4), rows, np.float64), y=np.arange(rows))
    np.savez(folder / "test.npz", x=np.zeros((5, 4)), y=np.full(5, 3))
    data = DATASETS["npz"](places, path=str(folder))
    assert data.group_names["client"] == ("site2", "site10")
    np.testing.assert_array_equal(data.groups["client"], data.x[:, 0] - 2)
    assert data.classes == 4
    assert data.x.dtype == np.float32
    assert len(data.tests()["global"]) == 5
    assert set(data.checksums) == {"site2.npz", "site10.npz", "test.npz"}


def test_one_npz_with_clients_is_found_below_the_data_folders(places: Places, folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
    client = np.array(["b", "a", "b", "c", "c", "c"])
    np.savez(folder / "own.npz", x=pixels, y=np.arange(6) % 2, client=client, test_x=pixels[:1], test_y=[1])
    data = DATASETS["npz"](places, path="own.npz", channels="last", normalise="half")
    np.testing.assert_array_equal(data.groups["client"], [1, 0, 1, 2, 2, 2])
    np.testing.assert_array_equal(data.x, pixels.transpose(0, 3, 1, 2))
    assert data.shape == (3, 5, 4)
    assert data.mean == (0.5, 0.5, 0.5)
    assert len(data.tests()["global"]) == 1


def test_fractional_targets_are_regressed_on(places: Places, folder: Path) -> None:
    np.savez(folder / "own.npz", x=np.ones((3, 2)), y=np.array([0.5, 1, 2]))
    data = DATASETS["npz"](places, path="own.npz")
    assert data.classes is None
    assert data.table(np.arange(3)).y.dtype == torch.float32
    with pytest.raises(BadInputError, match=r"label of row 0 is 0\.5"):
        DATASETS["npz"](places, path="own.npz", classes=3)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"x": np.ones((2, 2))}, "no array 'y'"),
        ({"x": np.ones((2, 2)), "y": np.arange(3)}, "need as many rows"),
        ({"x": np.ones((2, 2)), "y": np.arange(2), "client": np.arange(3)}, "one entry a row"),
        ({"x": np.array([[1.0], [np.nan]]), "y": np.arange(2), "client": ["p", "q"]}, "row 1 of client 'q'"),
        ({"x": np.ones((2, 1)), "y": np.array([np.inf, 1])}, "row 0 of client 'own' holds NaN"),
        ({"x": np.ones((2, 1)), "y": np.array([0, -1])}, "label of row 1 is -1"),
        ({"x": np.array(["a", "b"]), "y": np.arange(2)}, "must be numbers"),
        ({"x": np.ones((2, 1)), "y": np.array(["a", "b"])}, "targets must be numbers"),
        ({"x": np.ones((2, 1)), "y": np.ones((2, 3), np.int64)}, "one number a row"),
    ],
)
def test_wrong_npz_files_are_refused(
    places: Places, folder: Path, write_npz: WriteNpz, stored: dict[str, Array], message: str
) -> None:
    write_npz(folder / "own.npz", stored)
    with pytest.raises(BadInputError, match=message):
        DATASETS["npz"](places, path=str(folder / "own.npz"))


def test_npz_that_is_no_archive_or_holds_objects_is_refused(places: Places, folder: Path) -> None:
    (folder / "a.npz").write_bytes(b"nonsense")
    with pytest.raises(BadInputError, match=r"a\.npz: not a readable"):
        DATASETS["npz"](places, path="a.npz")
    np.savez(folder / "b.npz", x=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(BadInputError, match=r"b\.npz: not a readable"):
        DATASETS["npz"](places, path="b.npz")


def test_unlike_and_missing_client_files_are_refused(places: Places, folder: Path) -> None:
    with pytest.raises(BadInputError, match=r"holds no \.npz file"):
        DATASETS["npz"](places, path=str(folder))
    np.savez(folder / "test.npz", x=np.ones((1, 3)), y=np.zeros(1, int))
    with pytest.raises(BadInputError, match=r"test\.npz only"):
        DATASETS["npz"](places, path=str(folder))
    np.savez(folder / "a.npz", x=np.ones((1, 3)), y=np.zeros(1, int))
    np.savez(folder / "b.npz", x=np.ones((1, 4)), y=np.zeros(1, int))
    with pytest.raises(BadInputError, match=r"client 'b' are float32 of shape \(4,\)"):
        DATASETS["npz"](places, path=str(folder))
    with pytest.raises(BadInputError, match="data path 'nowhere' not found"):
        DATASETS["npz"](places, path="nowhere")


CSV = "age,dose,label,client\n1,2.5,yes,north\n3,4,no,south\n5,6e1,yes,north\n"


def test_one_csv_with_a_client_column(places: Places, folder: Path) -> None:
    (folder / "own.csv").write_text("\ufeff" + CSV, encoding="utf-8")
    data = DATASETS["csv"](places, path="own.csv")
    np.testing.assert_array_equal(data.x, np.array([[1, 2.5], [3, 4], [5, 60]], np.float32))
    np.testing.assert_array_equal(data.y, [1, 0, 1])
    assert data.class_names == ("no", "yes")
    assert data.group_names["client"] == ("north", "south")
    scaled = DATASETS["csv"](places, path="own.csv", normalise="standard").table(np.arange(3)).x
    np.testing.assert_allclose(scaled.mean(0).numpy(), 0, atol=1e-6)
    ordered = DATASETS["csv"](places, path="own.csv", classes=("yes", "no"))
    np.testing.assert_array_equal(ordered.y, [0, 1, 0])


def test_a_folder_of_csv_is_one_client_a_file(places: Places, folder: Path) -> None:
    (folder / "c10.csv").write_text("a,kind\n1,10\n2,9\n")
    (folder / "c9.csv").write_text("a,kind\n3,9\n\n4,9\n")
    (folder / "test.csv").write_text("a,kind\n5,10\n")
    data = DATASETS["csv"](places, path=str(folder), label="kind")
    assert data.group_names["client"] == ("c9", "c10")
    np.testing.assert_array_equal(data.x[:, 0], [3, 4, 1, 2])
    np.testing.assert_array_equal(data.y, [0, 0, 1, 0])
    assert data.class_names == ("9", "10")
    np.testing.assert_array_equal(data.tests()["global"].y.numpy(), [1])
    (folder / "c11.csv").write_text("b,kind\n5,10\n")
    with pytest.raises(BadInputError, match=r"c11\.csv: its features are b, but those of c9\.csv a"):
        DATASETS["csv"](places, path=str(folder), label="kind")
    (folder / "c11.csv").unlink()
    numbers = DATASETS["csv"](places, path=str(folder), label="kind", targets="numbers")
    assert numbers.classes is None
    np.testing.assert_array_equal(numbers.y, np.array([9, 9, 10, 9], np.float32))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b\n1,2\n", {}, "no label column 'label' among a, b"),
        ("", {}, "no label column"),
        ("label\n1\n", {}, "no column besides the label"),
        (CSV, {"client": "site"}, "no column 'site' among age"),
        (CSV, {"classes": ("yes",)}, "label of row 1 is 'no'"),
        (CSV, {"classes": 2}, "label of row 0 is 'yes'"),
        ("a,label\n1,0\n2,2\n", {"classes": 2}, "label of row 1 is '2', none of the 2"),
        (CSV.replace("6e1", "nan"), {}, "row 2 of client 'north' has 'nan' in column 'dose'"),
        (CSV.replace("6e1", ""), {}, "row 2 of client 'north' has '' in column 'dose'"),
        (CSV.replace("3,4", "3,four"), {}, "row 1 of client 'south' has 'four'"),
        (CSV.replace("6e1", "6e100"), {}, "row 2 holds NaN or infinity"),
        (CSV.replace("3,4", "3"), {}, "row 1 has 3 cells where the header has 4"),
        (CSV, {"targets": "numbers"}, "'yes' in column 'label'"),
        ("a,label\n1,2\n3,0.5\n", {}, "label of row 1 is '0.5', a fraction"),
    ],
)
def test_wrong_csv_files_are_refused(
    places: Places, folder: Path, text: str, options: dict[str, object], message: str
) -> None:
    (folder / "own.csv").write_text(text)
    with pytest.raises(BadInputError, match=message) as error:
        DATASETS["csv"](places, path="own.csv", **options)
    assert "own" in str(error.value)


def test_csv_without_rows_and_folders_without_files(places: Places, folder: Path) -> None:
    with pytest.raises(BadInputError, match=r"holds no \.csv file"):
        DATASETS["csv"](places, path=str(folder))
    with pytest.raises(BadInputError, match="each file of a folder is a client"):
        DATASETS["csv"](places, path=str(folder), client="site")
    (folder / "own.csv").write_text("a,label\n")
    assert len(DATASETS["csv"](places, path="own.csv", classes=2).y) == 0
    (folder / "bad.csv").write_bytes(b"a,label\n\xff\xfe,1\n")
    with pytest.raises(BadInputError, match=r"not a readable \.csv"):
        DATASETS["csv"](places, path="bad.csv")


def test_pictures_by_client_and_label(
    places: Places, folder: Path, write_picture: Callable[..., None]
) -> None:
    write_picture(folder / "own" / "client10" / "dog" / "1.png", (1, 2, 3))
    write_picture(folder / "own" / "client2" / "cat" / "1.jpg", (9, 9, 9))
    write_picture(folder / "own" / "client2" / "dog" / "2.PNG", (4, 5, 6))
    write_picture(folder / "own" / "test" / "cat" / "1.png", (7, 7, 7))
    for _ in range(2):
        data = DATASETS["images"](places, path="own")
        assert data.shape == (3, 4, 4)
        assert data.class_names == ("cat", "dog")
        by_client = dict(zip(data.groups["client"].tolist(), data.y.tolist(), strict=True))
        assert data.group_names["client"] == ("client2", "client10")
        assert by_client[1] == 1
        np.testing.assert_array_equal(data.x[data.groups["client"] == 1][0, :, 0, 0], [1, 2, 3])
        assert len(data.tests()["global"]) == 1
    grey = DATASETS["images"](places, path="own", colour="grey", size=7)
    assert grey.shape == (1, 7, 7)
    with pytest.raises(BadInputError, match="no class 'dog' among cat"):
        DATASETS["images"](places, path="own", classes=("cat",))


def test_wrong_pictures_are_refused(places: Places, folder: Path, write_picture: Callable[..., None]) -> None:
    (folder / "own").mkdir()
    with pytest.raises(BadInputError, match="holds no pictures as client/label"):
        DATASETS["images"](places, path="own")
    write_picture(folder / "own" / "a" / "cat" / "1.png")
    write_picture(folder / "own" / "a" / "cat" / "2.png", size=(5, 4))
    with pytest.raises(BadInputError, match=r"2\.png: is 5x4, but .*1\.png is 4x4"):
        DATASETS["images"](places, path="own")
    (folder / "own" / "a" / "cat" / "2.png").write_bytes(b"not a picture")
    with pytest.raises(BadInputError, match=r"2\.png: cannot be decoded"):
        DATASETS["images"](places, path="own")
