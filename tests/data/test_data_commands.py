"""The commands `potluck data list`, `check` and `get`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from potluck.cli import main
from potluck.cli.data import data
from potluck.data.catalogue import CATALOGUE
from potluck.data.checksums import OFFICIAL
from potluck.errors import BadInputError

CONTENT = bytes(range(256)) * 1000


def command(*arguments: str) -> object:
    return data.main(list(arguments), standalone_mode=False)


def test_list_shows_where_the_sets_are(
    folder: Path, write_mnist: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write_mnist(folder / "mnist")
    command("list", "--data-dir", str(folder))
    out = capsys.readouterr().out
    assert all(name in out for name in CATALOGUE)
    assert "not found" in out
    assert "built in" in out
    assert f"Searched: {folder}" in out


def test_check_prints_digests_and_returns_1_if_they_differ(
    folder: Path, write_mnist: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write_mnist(folder / "mnist")
    assert command("check", "mnist", "--data-dir", str(folder)) == 1
    out = capsys.readouterr().out
    assert out.count("differs  ") == 4
    assert "mnist: 20 rows + 10 global, shape (1, 28, 28), 10 classes" in out
    assert command("check", "digits") is None
    assert "no official checksum" in capsys.readouterr().out


def test_commands_refuse_what_is_unknown_or_missing() -> None:
    with pytest.raises(BadInputError, match="did you mean mnist"):
        command("get", "mnst")
    with pytest.raises(BadInputError, match="not found: looked for"):
        command("check", "svhn")
    with pytest.raises(BadInputError, match="LEAF's folders"):
        command("get", "femnist")
    with pytest.raises(click.UsageError):
        command("get")


def test_get_by_command(
    folder: Path, write_mnist: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write_mnist(folder / "mnist")
    command("get", "digits")
    command("get", "mnist", "--to", str(folder))
    out = capsys.readouterr().out
    assert "digits: needs no files" in out
    assert f"mnist: there already, in {folder}/mnist" in out


def test_the_catalogue_matches_the_checksums() -> None:
    sums: Mapping[str, Mapping[str, str]] = OFFICIAL
    for name, known in sums.items():
        assert {Path(file).name for file in CATALOGUE[name].files} <= set(known)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["get", "xray"], 2, "put xray32.npz, or folders source/label/"),
        (["check", "cifar10"], 2, "not found: looked for"),
        (["list", "--data-dir", "nowhere"], 2, "nowhere is not a folder"),
        (["get", "digits"], 0, ""),
    ],
)
def test_the_exit_code_says_whose_turn_it_is(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["data", *arguments])
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == (1 if message else 0)


def test_a_mixture_is_fetched_by_its_parts(
    folder: Path,
    write_mnist: Callable[..., Any],
    write_cifar: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_mnist(folder / "mnist")
    write_cifar(folder / "cifar10")
    command("get", "mnist-cifar", "--data-dir", str(folder))
    assert capsys.readouterr().out.count("there already") == 2
    command("list", "--data-dir", str(folder))
    assert "with its parts" in capsys.readouterr().out
