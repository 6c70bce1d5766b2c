"""Sets that come in several forms are copied from a known folder, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from potluck.data import Places
from potluck.data.catalogue import CATALOGUE
from potluck.data.fetch import get
from potluck.errors import BadInputError


def quiet(name: str, done: int, size: int | None) -> None:
    """Take no notice of the progress."""


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("femnist", ["femnist.npz"]),
        ("femnist", ["train/0.json", "train/1.json", "test/0.json"]),
        ("xray", ["xray32.npz"]),
        ("xray", ["rsna/normal/1.png", "rsna/ill/2.jpg", "nih/normal/3.jpeg"]),
    ],
)
def test_sets_in_several_forms_are_copied_whole(
    tmp_path: Path, folder: Path, name: str, files: list[str]
) -> None:
    for file in [*files, "notes.txt"]:
        (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / file).write_bytes(file.encode())
    places, to, said = Places.usual([folder]), tmp_path / "to", list[str]()
    get(CATALOGUE[name], places, to, said.append, quiet)
    assert said == [f"{name}: copied, now in {to}/{name}"]
    copied = sorted(str(path.relative_to(to / name)) for path in (to / name).rglob("*") if path.is_file())
    assert copied == sorted(files)
    assert (to / name / files[0]).read_bytes() == files[0].encode()
    get(CATALOGUE[name], places, to, said.append, quiet)
    assert said[1] == f"{name}: there already, in {to}/{name}"


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, folder: Path) -> None:
    (folder / "femnist.npz").write_bytes(b"rows")
    (tmp_path / "to" / "femnist").mkdir(parents=True)
    (tmp_path / "to" / "femnist" / "mine.txt").write_text("mine")
    with pytest.raises(BadInputError, match=r"cannot be copied to .*put femnist\.npz, or LEAF"):
        get(CATALOGUE["femnist"], Places.usual([folder]), tmp_path / "to", lambda _: None, quiet)
    assert [path.name for path in (tmp_path / "to").rglob("*") if not path.name.endswith("lock")] == [
        "femnist",
        "mine.txt",
    ]
