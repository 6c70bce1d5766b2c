"""The user's cache: decoded arrays as memory-mapped .npy files, and the digests of files already read once.

Everything in it can be deleted at any time. Entries are written under a temporary name and renamed, so that
two processes may write the same entry at once; where the folder cannot be written the work is done again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
LAYOUT = "1"  # raised whenever a reader changes what it writes


def cache_root() -> Path:
    """Return Potluck's folder in the user's cache ($XDG_CACHE_HOME, or ~/.cache)."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "potluck"


def stamp(path: Path) -> str:
    """Name the present state of a file: where it is, its size and its time of change."""
    status = path.stat()
    return f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"


def short_hash(parts: Iterable[str]) -> str:
    """Hash texts into 32 hexadecimal digits for the name of a cache entry."""
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def remembered(path: Path, kind: str, compute: Callable[[Path], str]) -> str:
    """Return a short text about a file (its digest), computed once for each state of the file."""
    entry = cache_root() / "digests" / short_hash([LAYOUT, kind, stamp(path)])
    with contextlib.suppress(OSError, UnicodeDecodeError):
        known = entry.read_text(encoding="ascii")
        if known:
            return known
    text = compute(path)
    with contextlib.suppress(OSError):
        write_atomically(entry, text.encode("ascii"))
    return text


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it, then rename it; others may read what the umask lets them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def cached_arrays(name: str, sources: Iterable[str], build: Callable[[], Arrays]) -> Arrays:
    """Return the arrays that `build` makes of the stamped sources, memory-mapped from the cache."""
    folder = cache_root() / "arrays" / f"{name}-{short_hash([LAYOUT, *sources])}"
    kept = _read(folder)
    if kept is not None:
        return kept
    arrays = build()
    try:
        _write(folder, arrays)
    except OSError:
        return arrays
    return _read(folder) or arrays


def _read(folder: Path) -> Arrays | None:
    """Map the arrays of a complete entry; an entry that is missing or damaged counts as absent."""
    if not folder.is_dir():
        return None
    try:
        return {file.stem: np.load(file, mmap_mode="r") for file in sorted(folder.glob("*.npy"))}
    except (OSError, ValueError, EOFError):
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _write(folder: Path, arrays: Arrays) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, array in arrays.items():
            np.save(temporary / f"{name}.npy", array, allow_pickle=False)
        with contextlib.suppress(OSError):
            os.rename(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
